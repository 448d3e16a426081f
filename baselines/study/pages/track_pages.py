"""A track's page: table, curves and verdicts, from finished cells alone."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import compress
from pathlib import Path
from typing import Final

from baselines.config.layers import RECIPES, names
from baselines.study.cells import Finished
from baselines.study.claims import Claim
from baselines.study.current_tracks import CurrentTrack
from baselines.study.methods import (
    EqualProgress,
    PanelKey,
    RecipeRuns,
    Sides,
    TrackResults,
    across_tracks,
    results_of,
    sides_on,
)
from baselines.study.pages.markdown import fill, markdown_table, write_page
from baselines.study.schema import Cell
from baselines.study.verdicts import ClaimVerdict, collapsed_text
from baselines.study.workspace import StudySetting
from benchmark.engines.core.devices import DEVICE_NAME
from benchmark.files import write_atomically
from benchmark.logs.groups import curves_of, plotted
from benchmark.plots.training import figure_bytes
from benchmark.stability.collapse import WINDOW
from benchmark.stats.formatting import points_text, rate_digits, rate_text
from benchmark.stats.paired import mean_success
from benchmark.track_schema import RateGrid, Track
from tasks.errors import os_error_as
from tasks.texts import plural

TEMPLATE: Final = Path(__file__).with_name("track.md.j2")
PAGE, CURVES = "README.md", "curves.svg"
PLOTS: Final = ("validation/success", "rollout/success", "policy/entropy", "kl_old/clipped_mean")
AT_EPISODES: Final = "success at equal episodes"
"""Column that is left out if all methods have played equally many episodes."""
HEAD: Final = (
    "recipe",
    "seeds",
    "success at equal updates",
    "gain over the init",
    AT_EPISODES,
    "collapsed",
    "learning rate",
    "episodes",
    "CPU minutes",
)
OF_RUNS: Final = ("collapsed", "learning rate", "episodes", "CPU minutes")
"""Columns about whole runs: if a track has several tasks, they are only shown with the mean."""


def write_pages(
    found: Mapping[str, TrackResults], setting: StudySetting, judged: Sequence[ClaimVerdict]
) -> Iterator[Path]:
    """Write the page and the curves of every track with a finished run.

    Args:
        found: Finished results by track.
        setting: The study's folders.
        judged: All judged claims.

    Yields:
        The pages.

    Raises:
        UserError: A file cannot be written.
    """
    for name, results in found.items():
        logs = [log for method in results.methods.values() for log in method.logs]
        if not logs:
            continue
        folder = setting.results / name
        own = [verdict for verdict in judged if name in verdict.claim.tracks]
        claimed = [verdict.claim for verdict in own if verdict.claim.track == name]
        others = [*beside_other_tracks(results, found, claimed)]
        content = page_of(
            setting.current_tracks[name], results, own, others, setting.custom.methods
        )
        curves = figure_bytes(curves_of(logs), plotted(PLOTS, logs))
        with os_error_as(f"{folder} cannot be written"):
            write_atomically(folder / CURVES, curves)
            write_page(folder / PAGE, content, setting.results)
        yield folder / PAGE


def results_by_track(
    cells: Sequence[Cell], finished: Sequence[Finished], current_tracks: Mapping[str, CurrentTrack]
) -> dict[str, TrackResults]:
    """Group finished cells by track and method.

    Args:
        cells: The study's cells.
        finished: The finished cells.
        current_tracks: The tracks.

    Raises:
        UserError: A cell is damaged.
    """
    return {
        name: results_of(name, _panels(current_track), cells, finished)
        for name, current_track in current_tracks.items()
    }


def beside_other_tracks(
    results: TrackResults, found: Mapping[str, TrackResults], claims: Sequence[Claim]
) -> Iterator[str]:
    """Tables of a method on a track and on the tracks that claims compare it with.

    Args:
        results: Results of the track.
        found: Finished results by track.
        claims: Claims about the track; those that compare a method between tracks count.
    """
    pairs = dict.fromkeys((claim.compared, claim.against) for claim in claims if claim.compared)
    for recipe, listed in pairs:
        assert recipe is not None
        others = [found[name] for name in listed if name in found]
        several = len(results.panels) > 1
        rows = []
        for panels in [[panel] for panel in results.panels] + [list(results.panels)] * several:
            gap = across_tracks(recipe, results, others, panels)
            if gap is None:
                continue
            there, here = (sides_on(recipe, each, panels) for each in (others, [results]))
            init = results.init_sides(panels)
            task = panels[0][0] if len(panels) == 1 else "mean"
            rows.append([task, *map(_success, (init, there, here)), points_text(gap)])
        if rows:
            where = listed[0] if len(listed) == 1 else "each task alone"
            sides = [f"{recipe}: {name}" for name in (where, results.track)]
            yield markdown_table(("task", "init", *sides, "difference"), rows)


def page_of(
    current_track: CurrentTrack,
    results: TrackResults,
    judged: Sequence[ClaimVerdict],
    others: Sequence[str] = (),
    custom: Collection[str] = (),
) -> str:
    """The page of a track, as Markdown.

    Args:
        current_track: The track.
        results: Its finished results, with at least one run.
        judged: Verdicts on claims about it.
        others: Tables that compare it with other tracks.
        custom: The study's own recipes.
    """
    # With several tasks, their mean comes first.
    groups: list[tuple[PanelKey, ...]] = [(panel,) for panel in results.panels]
    groups = groups if len(groups) == 1 else [results.panels, *groups]
    equal = {panels: results.at_equal_episodes(panels) for panels in groups}
    limits = {found.limit for found in equal.values() if found is not None}
    methods = [method for method in results.methods.values() if method.runs]
    several_paces = len({method.episodes for method in methods}) > 1
    rows = [[v.claim.title, v.shown, v.numbers] for v in judged]
    window = (WINDOW - 1) * (current_track.track.settings["validation"]["every"] or 0)
    return fill(
        TEMPLATE,
        track={
            "name": current_track.track.name,
            "description": current_track.track.description.rstrip("."),
            "init": current_track.track.init.name,
            "updates": current_track.updates,
            "episodes": current_track.episodes_per_update,
            "rate": _rate_rule(current_track.track),
            "sha256": current_track.track.sha256,
            "budget": " and ".join(f"{limit:,}" for limit in sorted(limits)) or "as many",
            "several_paces": several_paces,
            "unseen": any(method.unknown for method in methods),
            "window": window if window <= current_track.updates else 0,
        },
        panels=[
            _section(current_track, results, *each, several_paces=several_paces)
            for each in equal.items()
        ],
        verdicts=markdown_table(("claim", "verdict", "numbers"), rows) if rows else "",
        others=others,
        missing=list(_missing(results)),
        several_tasks=len(results.panels) > 1,
        halved=[_halved_text(method) for method in methods if method.halved],
        hardware=_hardware(methods),
        example=_example(methods, custom),
    )


def _example(methods: Sequence[RecipeRuns], custom: Collection[str]) -> dict[str, str]:
    """An example run, of a study's own recipe or a shipped one: arguments after `--recipe`."""
    shipped = names(RECIPES)
    runs = [method.runs[0] for method in methods]
    first = min(runs, key=lambda r: (r.cell.recipe not in custom, r.cell.recipe not in shipped))
    if first.cell.recipe in shipped:
        return {"recipe": first.cell.recipe, "seed": str(first.cell.seed)}
    code = first.log.start.plugins if first.log is not None else ()
    words = [f"{first.cell.recipe}.yaml", *(f"--plugin {name}" for name in code)]
    return {"recipe": " ".join(words), "seed": str(first.cell.seed)}


def _section(
    current_track: CurrentTrack,
    results: TrackResults,
    panels: Sequence[PanelKey],
    equal: EqualProgress | None,
    *,
    several_paces: bool,
) -> dict[str, object]:
    """The section of a panel, or of the mean over several."""
    sides = results.init_sides(panels)
    methods = [method for method in results.methods.values() if method.runs]
    rows = [_row(results, method, panels, equal) for method in methods]
    whole = len(panels) == len(results.panels)
    left_out = {*(() if several_paces else (AT_EPISODES,)), *(() if whole else OF_RUNS)}
    shown = [name not in left_out for name in HEAD]
    planned = (each.protocol for each in current_track.validation.panels)
    episodes = sum(each.episodes for each in planned if (each.task, each.panel) in panels)
    one = len(panels) == 1
    return {
        "name": "/".join(panels[0]) if one else f"Mean over {len(panels)} tasks",
        "init": "-" if sides is None else _init_text(sides),
        "episodes": episodes,
        "tasks": len(panels),
        "table": markdown_table(*([*compress(HEAD, shown)], [[*compress(r, shown)] for r in rows])),
    }


def _row(
    results: TrackResults,
    method: RecipeRuns,
    panels: Sequence[PanelKey],
    equal: EqualProgress | None,
) -> list[str]:
    gain = results.gain(method.recipe, panels)
    planned = len(method.planned)
    rate, episodes, minutes = method.learning_rate, method.episodes, method.cpu_minutes
    at_equal = None if equal is None else equal.sides.get(method.recipe)
    if equal is not None and episodes == equal.limit:
        at_equal = method.sides(panels)
    return [
        method.recipe,
        str(planned) if not method.missing else f"{len(method.runs)} of {planned}",
        _success(method.sides(panels)),
        "-" if gain is None else points_text(gain),
        _success(at_equal),
        collapsed_text(method),
        "-" if rate is None else f"{rate:g}",
        "-" if episodes is None else f"{episodes:,.0f}",
        "-" if minutes is None else f"{minutes:.1f}",
    ]


def _hardware(methods: Sequence[RecipeRuns]) -> str:
    """Number of runs started on each hardware, most common first; older logs do not state it."""
    logs = [log for method in methods for log in method.logs]
    counts = Counter(str(log.start.engine.get(DEVICE_NAME, "not logged")) for log in logs)
    return "; ".join(f"{name} ({n} {plural(n, 'run')})" for name, n in counts.most_common())


def _halved_text(method: RecipeRuns) -> str:
    alone = len(method.plays[0]) == 1
    seeds = [
        f"{seed}" if alone else f"{seed} ({', '.join(tasks)})"
        for seed, tasks in method.halved.items()
    ]
    return f"{method.recipe} {plural(len(seeds), 'seed')} {', '.join(seeds)}"


def _missing(results: TrackResults) -> Iterator[str]:
    if results.init is None:
        yield "the init's own evaluation"
    for method in results.methods.values():
        if method.missing:
            seeds = ", ".join(map(str, method.missing))
            yield f"{method.recipe}: {plural(len(method.missing), 'seed')} {seeds}"


def _rate_rule(track: Track) -> str:
    rule = track.learning_rate
    if not isinstance(rule, RateGrid):
        return f"All methods have the learning rate {rule.fixed:g}."
    rates = ", ".join(f"{rate:g}" for rate in rule.grid)
    return (
        f"Each method has the learning rate among {rates} with the highest rollout "
        f"success in {rule.updates} updates with seed {rule.seed} "
        "([rates.yaml](rates.yaml))."
    )


def _panels(current_track: CurrentTrack) -> list[PanelKey]:
    planned = (each.protocol for each in current_track.validation.panels)
    return [(protocol.task, protocol.panel) for protocol in planned]


def _success(sides: Sides | None) -> str:
    return "-" if sides is None else rate_digits(mean_success(sides))


def _init_text(sides: Sides) -> str:
    rate = mean_success(sides)
    return rate_text(rate.value, rate.low, rate.high)
