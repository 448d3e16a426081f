"""Stability metrics as a table for the terminal, with a legend, and as JSON."""

import json
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from benchmark.logs.equal_progress import EqualRows, equal_rows
from benchmark.logs.foreign import Reading, listed, success_advice
from benchmark.logs.lines import Start
from benchmark.logs.training_log import NO_VALIDATION
from benchmark.stability.comparison import RecipeComparison
from benchmark.stability.definitions import DEFINITIONS
from benchmark.stability.recipes import Compared, Comparisons, LoggedRun
from benchmark.stability.runs import RunStability
from benchmark.stability.seeds import RecipeStability, SeedSummary
from benchmark.stability.unequal_settings import UnequalSettings, unequal_settings
from benchmark.stats.bootstrap import BootstrapInterval
from benchmark.stats.formatting import collapses_text, columns_text, percent_text, range_text
from benchmark.stats.survival import EventOutcome, SurvivalCurve
from tasks.texts import printable, short_names

COLUMNS: Final = (
    "collapse_rate", "final_success", "worst_seed", "max_drawdown", "retention", "mismatch_p95",
    "grad_spikes",
)  # fmt: skip
"""Columns of the short table, by names of `DEFINITIONS`."""
COMPARED: Final = ("iqm", "probability_of_improvement")
"""Numbers by which recipes are compared, by names of `DEFINITIONS`."""
FEW_SEEDS: Final = (
    "Intervals are from a stratified bootstrap over the seeds, and need 5 of them (with 5 they "
    "cover the true value in 91% of cases, with 3 in 74%). With few seeds, look at each one. "
    "P(first) needs two seeds on both sides."
)
UNKNOWN: Final = "-"
SHORT_LEGEND: Final = (
    "Medians over seeds; - if a log lacks the data. --legend explains the columns."
)
JSON_VERSION: Final = 1

_LABEL = 30
_WIDTH = 100
_HEAD = 11
_IN_TRAINING = "rollout/success"


def shown(name: str, value: float | None) -> str:
    """Format a number for display, `-` if unknown.

    Args:
        name: Its name in `DEFINITIONS`.
        value: The number, in the unit given there.
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    match DEFINITIONS[name].unit:
        case "share":
            return percent_text(value)
        case "ratio":
            return f"{value:.2f}"
        case "count":
            return f"{value:.0f}"
    return f"{value:.3g}"


def shown_outcome(outcome: EventOutcome | None) -> str:
    """When something happened, or until when it did not."""
    if outcome is None:
        return UNKNOWN
    return f"at {outcome.step}" if outcome.happened else f"no, to {outcome.step}"


def shown_collapse(run: RunStability) -> str:
    """When a run collapsed, or else that it has halved, or until when it did neither."""
    return "halved" if run.halved else shown_outcome(run.collapse)


def recipe_cells(stability: RecipeStability) -> list[str]:
    """The short table's cells of a recipe, with medians over its seeds."""
    cells = []
    for name in COLUMNS:
        if name == "collapse_rate":
            event = stability.events["collapse"]
            others = len(stability.runs) - event.known
            late = stability.halved
            cells.append(collapses_text(event.happened, event.known, late, UNKNOWN, others))
        elif name == "worst_seed":
            cells.append(shown(name, stability.worst_seed))
        else:
            middle = stability.numbers[name].median
            cells.append(shown(name, None if middle is None else middle.value))
    return cells


def run_cells(run: RunStability) -> list[str]:
    """The short table's cells of one run."""
    cells = []
    for name in COLUMNS:
        if name == "collapse_rate":
            cells.append(shown_collapse(run))
        elif name == "worst_seed":
            cells.append("")
        else:
            cells.append(shown(name, run.numbers[name]))
    return cells


def run_label(run: RunStability) -> str:
    """A run's label among its seeds."""
    return f"seed {run.seed}" if run.seed is not None else run.name


def table_text(rows: Sequence[Compared]) -> str:
    """The short table: a line per recipe, and below it one per seed."""
    lines: list[list[str]] = []
    for row, label in zip(rows, short_names([row.label for row in rows], _LABEL), strict=True):
        runs = row.stability.runs
        lines.append([label, str(len(runs)), *recipe_cells(row.stability)])
        if len(runs) > 1:
            names = short_names([run_label(run) for run in runs], _LABEL - 2)
            lines += [
                [f"  {name}", "", *run_cells(run)] for name, run in zip(names, runs, strict=True)
            ]
    titles = [textwrap.wrap(DEFINITIONS[name].name, _HEAD) for name in COLUMNS]
    units = [_unit(name) for name in COLUMNS]
    height = max(map(len, titles))
    heads = [
        ["", "", *((["", *title] if len(title) < height else title)[at] for title in titles)]
        for at in range(height)
    ]
    return columns_text([*heads, ["recipe", "seeds", *units]], lines)


def comparisons_text(comparisons: Comparisons) -> str:
    """Tables of recipes compared with each other, one per comparison.

    Args:
        comparisons: The comparisons.

    Returns:
        Tables with their legend; empty if there is nothing to compare.
    """
    parts = [_comparison_text(one) for one in comparisons.all]
    if left_out := "; ".join(f"{label} {why}" for label, why in comparisons.left_out):
        parts.append(_wrapped(printable(f"not compared: {left_out}")))
    if comparisons.each:
        legend = [f"{DEFINITIONS[name].name}: {DEFINITIONS[name].text}" for name in COMPARED]
        parts.append("\n".join(map(_wrapped, [*legend, FEW_SEEDS])))
    return "\n\n".join(parts)


def equal_rows_of(one: RecipeComparison, rows: Sequence[Compared]) -> EqualRows | None:
    """Recipes of a comparison at equal updates and at equal episodes; None if unknown.

    Args:
        one: The comparison.
        rows: The compared rows, including its recipes.
    """
    known = {row.label: row for row in rows}
    if not set(one.labels) <= known.keys():
        return None
    group = [known[label] for label in one.labels]
    names = [run.success_curve or "" for row in group for run in row.stability.runs]
    return equal_rows({row.label: [each.run for each in row.runs] for row in group}, names)


def unequal_of(rows: Sequence[Compared]) -> Mapping[str, UnequalSettings]:
    """Settings other than the method in which runs on a task differ, by task."""
    starts: dict[str, list[Start]] = {}
    for run in (each for row in rows for each in row.runs):
        if run.start is not None:
            starts.setdefault(run.task, []).append(run.start)
    found = {task: unequal_settings(of_task) for task, of_task in starts.items()}
    return {task: unequal for task, unequal in found.items() if unequal is not None}


def comparison_cells(one: RecipeComparison, place: int) -> list[str]:
    """Cells of one recipe of a comparison: seeds, IQM and improvement with their intervals."""
    cells = [str(one.seeds[place])]
    for estimate in (one.iqm[place], one.improvement[place]):
        if estimate is None:
            cells += [UNKNOWN, ""]
            continue
        low, high = estimate.low, estimate.high
        ends = "" if low is None or high is None else range_text(low, high, 1)
        cells += [shown("iqm", estimate.value), ends]
    return cells


def _comparison_text(one: RecipeComparison) -> str:
    labels = short_names(one.labels, _LABEL)
    lines = [[label, *comparison_cells(one, place)] for place, label in enumerate(labels)]
    heads = ["recipe", "seeds", "IQM", "95% interval", "P(first)", "95% interval"]
    title = (
        f"Final success on {', '.join(one.tasks)}; P(first): {labels[0]} is better than the recipe"
    )
    return f"{_wrapped(printable(title))}\n{columns_text([heads], lines)}"


def legend_text() -> str:
    """The meaning of the short table's columns, one per line."""
    lines = ["Medians over seeds; - if a log lacks the data. Success is that of validations."]
    lines.append(f"a run collapses where {DEFINITIONS['collapse'].text}")
    lines.append(f"halved: {DEFINITIONS['halved'].text}")
    for name in COLUMNS:
        what = DEFINITIONS[name]
        better = f"; {what.better} is better" if what.better else ""
        lines.append(f"{what.name} ({_unit(name)}): {what.text}{better}")
    return "\n".join(map(_wrapped, lines))


def log_text(one: LoggedRun, stability: RunStability) -> str:
    """Terminal text about a log: conditions, unknown fields, missing numbers.

    Args:
        one: The run.
        stability: Its stability.

    Returns:
        Lines; empty for a complete log of our own.
    """
    return "\n".join(_wrapped(printable(line)) for line in _log_lines(one, stability))


def _log_lines(one: LoggedRun, stability: RunStability) -> Iterator[str]:
    reading = one.reading
    run = reading.run
    for note in reading.notes:
        yield f"{one.log}: {note}"
    if run.source == "arlarena-bench":
        if stability.success_curve is None:
            yield f"{one.log}: {NO_VALIDATION}"
        return
    yield f"{one.log}: {run.source}, {len(reading.read_as)} fields recognized"
    if stability.success_curve is None:
        there = _IN_TRAINING in run.curves
        other = f", or use the training success (--success {_IN_TRAINING})" if there else ""
        yield f"  no validation success: {success_advice(run.unknown)}{other}"
    for text in conditions(reading):
        yield f"  {text}"
    if run.unknown:
        yield f"  {len(run.unknown)} unknown: {listed(run.unknown)}"
    yield f"  {len(run.missing)} metrics are not in the log; --json and --out list them"


def conditions(reading: Reading) -> Iterator[str]:
    """Conditions under which the fields have the meanings they were read with."""
    for field, meaning in reading.read_as.items():
        if meaning.provided:
            yield f"{field} is {meaning.name}, provided that {meaning.provided}"


def json_text(rows: Sequence[Compared], comparisons: Comparisons) -> str:
    """All computed numbers, and facts about each log, as JSON without NaN."""
    content = {
        "schema_version": JSON_VERSION,
        "definitions": {name: asdict(what) for name, what in DEFINITIONS.items()},
        "recipes": [_recipe_json(row) for row in rows],
        "comparisons": [_comparison_json(one) for one in comparisons.all],
        "not_compared": dict(comparisons.left_out),
    }
    return json.dumps(content, indent=1, allow_nan=False, ensure_ascii=True) + "\n"


def _comparison_json(one: RecipeComparison) -> dict[str, Any]:
    return {
        "tasks": list(one.tasks),
        "first": one.labels[0],
        "recipes": [
            {
                "label": label,
                "seeds": one.seeds[place],
                "iqm": _estimate_json(one.iqm[place]),
                "improvement_of_first": _estimate_json(one.improvement[place]),
                "profile": {
                    name: None if values is None else values.tolist()
                    for name, values in asdict(one.profiles[place]).items()
                },
            }
            for place, label in enumerate(one.labels)
        ],
    }


def _recipe_json(row: Compared) -> dict[str, Any]:
    stability = row.stability
    rate = stability.collapse_rate
    return {
        "label": row.label,
        "collapse_rate": None if rate is None else asdict(rate),
        "halved": stability.halved,
        "worst_seed": stability.worst_seed,
        "dispersion_across_runs": stability.dispersion_across_runs,
        "numbers": {name: _summary_json(s) for name, s in stability.numbers.items()},
        "events": {
            name: {
                "happened": event.happened,
                "known": event.known,
                "rate": None if event.rate is None else asdict(event.rate),
                "survival": _survival_json(event.survival),
            }
            for name, event in stability.events.items()
        },
        "reached": [asdict(level) for level in stability.reached],
        "runs": [
            _run_json(one, run) for one, run in zip(row.runs, stability.runs, strict=True)
        ],
    }  # fmt: skip


def _run_json(one: LoggedRun, run: RunStability) -> dict[str, Any]:
    reading = one.reading
    return {
        "log": str(one.log),
        "name": run.name,
        "source": run.source,
        "recipe": run.recipe,
        "seed": run.seed,
        "success_curve": run.success_curve,
        "valid_curve": run.valid_curve,
        "evaluations": run.evaluations,
        "last_step": run.last_step,
        "halved": run.halved,
        "numbers": {name: _finite(value) for name, value in run.numbers.items()},
        "events": {
            name: None if outcome is None else asdict(outcome)
            for name, outcome in run.events.items()
        },
        "reached": [asdict(level) for level in run.reached],
        "read_as": {field: asdict(meaning) for field, meaning in reading.read_as.items()},
        "unknown": {field: reading.because.get(field) for field in reading.run.unknown},
        "missing": list(reading.run.missing),
        "resolution": reading.resolution,
        "notes": list(reading.notes),
    }


def _summary_json(summary: SeedSummary) -> dict[str, Any]:
    return {
        "values": [_finite(value) for value in summary.values],
        "known": summary.known,
        "median": _estimate_json(summary.median),
        "iqm": _estimate_json(summary.iqm),
        "worst": _finite(summary.worst),
    }


def _estimate_json(estimate: BootstrapInterval | None) -> Mapping[str, float | None] | None:
    if estimate is None:
        return None
    return {name: _finite(value) for name, value in asdict(estimate).items()}


def _survival_json(curve: SurvivalCurve | None) -> Mapping[str, Any] | None:
    if curve is None:
        return None
    return {
        "steps": curve.steps.tolist(),
        "survival": curve.survival.tolist(),
        "low": [_finite(value) for value in curve.low.tolist()],
        "high": [_finite(value) for value in curve.high.tolist()],
        "at_risk": curve.at_risk.tolist(),
        "happened": curve.happened.tolist(),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _unit(name: str) -> str:
    return "seeds" if name == "collapse_rate" else DEFINITIONS[name].unit


def _wrapped(line: str) -> str:
    return textwrap.fill(line, _WIDTH, subsequent_indent="    ", break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip
