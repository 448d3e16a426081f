"""The text of the tiny study's page: the tables and numbers that its template is filled with."""

import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, StrictUndefined

from scripts.study import (
    AGGRESSIVE,
    GRID,
    RECIPES,
    STABLE,
    TUNING_LAST,
    TUNING_SEED,
    TUNING_UPDATES,
)
from scripts.study_claims import (
    BASE,
    PAPER_SOKOBAN,
    beside_base,
    count,
    early_signs,
    percent,
    points,
    short,
    spread,
    verdicts,
    with_interval,
)
from scripts.study_numbers import SETTINGS, Result, Study, Trial, mean_of

TEMPLATE = Path(__file__).with_name("study_page.md.j2")
NONE: Final = "-"
"""Stands where there is no number."""
_NO_RUN = "No run of this setting is finished."
_SOFTWARE = ("arlarena-bench", "python", "torch", "transformers")


def page(study: Study) -> str:
    """The page, as Markdown for GitHub."""
    environment = Environment(  # noqa: S701 - Markdown, from checked logs
        undefined=StrictUndefined, keep_trailing_newline=True
    )
    template = environment.from_string(TEMPLATE.read_text("utf-8"))
    text = template.render(
        recipes=count(len(study.recipes), "recipe"),
        seeds=f"{count(len(study.seeds), 'seed')} ({_numbers(study.seeds)})",
        panel=_panel(study),
        verdicts=verdicts(study),
        missing=missing(study),
        stable_settings=_code(STABLE),
        aggressive_settings=_code(AGGRESSIVE),
        time=_time(study),
        versions=_versions(study),
        tuning={
            "updates": TUNING_UPDATES,
            "seed": TUNING_SEED,
            "last": TUNING_LAST,
            "table": _tuning_table(study),
        },
        stable=_setting(study, "stable"),
        aggressive=_setting(study, "aggressive"),
        base=BASE,
        beside_paper=_beside_paper(study),
        early_signs=early_signs(study),
        schedule={"stable": _schedule(STABLE), "aggressive": _schedule(AGGRESSIVE)},
        arguments=_arguments(study),
    )
    return re.sub(r"\n{3,}", "\n\n", text)  # where a table is empty


def missing(study: Study) -> list[str]:
    """What a partial study lacks, one line each; nothing for a whole one."""
    lines = []
    left_out = [recipe for recipe in RECIPES if recipe not in study.recipes]
    if left_out:
        lines.append(f"Recipes of the study that were not asked for: {', '.join(left_out)}.")
    for recipe in study.recipes:
        trials = [trial for trial in study.trials[recipe] if not trial.finished]
        if trials:
            texts = [f"{t.rate:g} ({_progress(t.updates, TUNING_UPDATES)})" for t in trials]
            lines.append(f"Tuning, {recipe}: learning rate {', '.join(texts)}.")
    for setting in SETTINGS:
        for recipe in study.recipes:
            texts = []
            for seed in study.seeds:
                result = study.results.get((setting, recipe, seed))
                if result is None or not result.finished:
                    texts.append(f"seed {seed} ({_state(result)})")
            if texts:
                lines.append(f"{setting.capitalize()} setting, {recipe}: {', '.join(texts)}.")
    return lines


def _state(result: Result | None) -> str:
    """How far a run has come that is not finished."""
    if result is None:
        return "not begun"
    text = _progress(result.updates, result.run.updates)
    when = f"after update {result.last.update}" if result.last.update else "before training"
    text += f", success {percent(result.final.value)} % {when}"
    return text if result.collapse is None else f"{text}, collapsed after {result.collapse}"


def _progress(updates: int, planned: int) -> str:
    return f"{updates} of {planned} updates" if updates else "not begun"


def _panel(study: Study) -> dict[str, Any] | None:
    results = [result for setting in SETTINGS for result in study.begun(setting)]
    if not results:
        return None
    values = [result.init.value for result in results]
    alike = min(values) == max(values)
    init = with_interval(results[0].init) if alike else spread([100 * v for v in values], ".1f")
    return {"episodes": results[0].last.episodes, "name": results[0].last.panel, "init": init}


def _time(study: Study) -> str:
    """What it cost, as far as the logs say."""
    parts = []
    for setting in SETTINGS:
        minutes = [result.minutes for result in study.finished(setting)]
        if minutes:
            middle = "" if len(minutes) == 1 else f", median {statistics.median(minutes):.1f}"
            parts.append(
                f"{count(len(minutes), f'{setting} run')} {sum(minutes) / 60:.1f} hours "
                f"({spread(minutes, '.1f')} minutes each{middle})"
            )
    minutes = [trial.minutes for of in study.trials.values() for trial in of if trial.updates]
    if minutes:
        parts.append(f"{count(len(minutes), 'tuning run')} {sum(minutes) / 60:.1f} hours")
    return "; ".join(parts)


def _versions(study: Study) -> str:
    results = [result for setting in SETTINGS for result in study.begun(setting)]
    logged = [result.log.start.versions for result in results]
    found = {(name, of[name]) for of in logged for name in _SOFTWARE if name in of}
    return ", ".join(f"{name} {version}" for name, version in sorted(found))


def _tuning_table(study: Study) -> str:
    rows = []
    for recipe in study.recipes:
        rate = study.rates[recipe]
        trials = [_trial(trial, trial.rate == rate) for trial in study.trials[recipe]]
        rows.append([recipe, *trials, NONE if rate is None else f"{rate:g}"])
    return _markdown(["recipe", *(f"{rate:g}" for rate in GRID), "chosen"], rows)


def _trial(trial: Trial, chosen: bool) -> str:
    if trial.success is None:
        return NONE
    text = f"**{percent(trial.success)}**" if chosen else percent(trial.success)
    return text if trial.finished else f"{text} ({_progress(trial.updates, TUNING_UPDATES)})"


def _setting(study: Study, setting: str) -> dict[str, str]:
    """Figure and tables of a setting."""
    if not study.finished(setting):
        return {"figure": _NO_RUN, "success": "", "stability": ""}
    return {
        "figure": f"![Curves of all recipes in the {setting} setting](curves-{setting}.svg)",
        "success": _success_table(study, setting),
        "stability": _stability_table(study, setting),
    }


def _success_table(study: Study, setting: str) -> str:
    """Success of the init and at the end, for each seed."""
    rows = []
    for recipe in study.recipes:
        results = study.finished(setting, recipe)
        if not results:
            continue
        finals = {result.run.seed: with_interval(result.final) for result in results}
        row = [recipe, f"{results[0].learning_rate:g}"]
        row.append(spread([100 * result.init.value for result in results], ".1f"))
        row += [finals.get(seed, NONE) for seed in study.seeds]
        row.append(percent(mean_of([result.final for result in results]).value))
        row.append(with_interval(mean_of([result.gain for result in results]), points))
        rows.append(row)
    seeds = [f"seed {seed}" for seed in study.seeds]
    return _markdown(["recipe", "learning rate", "init", *seeds, "mean", "gain"], rows)


_STABILITY: Final[dict[str, Callable[[Result], str]]] = {
    "collapse": lambda r: _update(r.collapse),
    "below half": lambda r: _update(r.below_half),
    "lowest success": lambda r: percent(r.lowest),
    "highest KL to old policy": lambda r: _small(r.highest_of("kl_old/clipped_mean")),
    "last KL to init": lambda r: _small(r.last_of("kl_init/clipped_mean")),
    "largest ratio": lambda r: _small(r.highest_of("ratio/max")),
    "lowest format": lambda r: _share(r.lowest_of("rollout/format_ok")),
}


def _stability_table(study: Study, setting: str) -> str:
    """What happened on the way, for each seed."""
    rows = []
    for recipe in study.recipes:
        found = {result.run.seed: result for result in study.finished(setting, recipe)}
        if found:
            row = [recipe]
            for text in _STABILITY.values():
                cells = (text(found[seed]) if seed in found else NONE for seed in study.seeds)
                row.append(" / ".join(cells))
            rows.append(row)
    return _markdown(["recipe", *_STABILITY], rows)


def _beside_paper(study: Study) -> str:
    rows = []
    for recipe in study.recipes:
        if recipe == BASE:
            continue
        here, theirs = beside_base(study, recipe), PAPER_SOKOBAN.get(recipe)
        rows.append([
            recipe,
            NONE if here is None else with_interval(here, points),
            NONE if theirs is None else points(theirs - PAPER_SOKOBAN[BASE]),
        ])  # fmt: skip
    return _markdown(["recipe", "here", "paper"], rows)


def _schedule(settings: Sequence[str]) -> str:
    """When a setting's runs are validated."""
    values = dict(setting.split("=") for setting in settings)
    updates, every = int(values["optimisation.updates"]), int(values["validation.every"])
    points = -(-updates // every) + 1
    return f"after every {every} of {updates} updates, which makes {points} points"


def _arguments(study: Study) -> str:
    """What `make study` is called with to make this study."""
    options = []
    if study.recipes != RECIPES:
        options.append(f"--recipes {','.join(study.recipes)}")
    if study.seeds != (0, 1, 2):
        options.append(f"--seeds {_numbers(study.seeds, ',')}")
    return f" ARGS='{' '.join(options)}'" if options else ""


def _update(number: int | None) -> str:
    return "no" if number is None else str(number)


def _small(value: float | None) -> str:
    return NONE if value is None else short(value)


def _share(value: float | None) -> str:
    return NONE if value is None else percent(value)


def _code(settings: Sequence[str]) -> str:
    return ", ".join(f"`{setting}`" for setting in settings)


def _numbers(values: Sequence[int], between: str = ", ") -> str:
    return between.join(str(value) for value in values)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is text, the others are numbers."""
    if not rows:
        return ""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
