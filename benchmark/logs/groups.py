"""Groups training logs into curves: which runs belong together, and what to plot of each."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from benchmark.logs.lines import FREE, Validation, track_name
from benchmark.logs.metrics import METRICS, VALIDATION_METRICS, Metric, metric_of
from benchmark.logs.training_log import LOG, TrainingLog
from benchmark.stats.bands import at_common_places
from tasks.errors import UserError, suggestion
from tasks.seeding import canonical_json
from tasks.texts import ELLIPSIS, cut

XAxis = Literal["updates", "episodes", "tokens", "seconds"]
Values = npt.NDArray[np.float64]

_SHOWN_DIFFERENCES = 2
ROLLOUT_SUCCESS: Final = "rollout/success"
_COUNTS: Final[Mapping[str, str]] = {"episodes": "rollout/episodes", "tokens": "tokens/response"}
"""The number that each axis accumulates, by the axis's name."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Runs of one recipe with the same settings, or a single run.

    Attributes:
        label: Its distinguishing label.
        runs: Its logs, in the order of their distinct seeds.
    """

    label: str
    runs: tuple[TrainingLog, ...]


@dataclass(frozen=True, slots=True)
class Plotted:
    """One plotted number.

    Attributes:
        name: Its name, as in `metric_of` and `VALIDATION_METRICS`.
        panel: The validation panel; None for a number of updates.
        task: The panel's task; None if all logs have the same task.
    """

    name: str
    panel: str | None = None
    task: str | None = None

    @property
    def metric(self) -> Metric:
        """The metric of the number."""
        return metric_of(self.name) or VALIDATION_METRICS[self.name]

    def validations(self, log: TrainingLog) -> tuple[Validation, ...]:
        """The validations of a log that contain the number."""
        if self.panel is None or self.task not in (None, log.start.task):
            return ()
        return log.of_panel(self.panel)


@dataclass(frozen=True, slots=True)
class Series:
    """One number of one run.

    Attributes:
        updates: Updates at which it was measured, shape (n,).
        x: Their positions on the x axis, shape (n,).
        y: The number, shape (n,).
    """

    updates: Values
    x: Values
    y: Values


@dataclass(frozen=True, slots=True)
class Band:
    """Several runs of one curve, where all of them have values.

    Attributes:
        x: Positions on the x axis, shape (n,).
        low: Lowest run, shape (n,).
        middle: Median of the runs, shape (n,).
        high: Highest run, shape (n,).
    """

    x: Values
    low: Values
    middle: Values
    high: Values


def curves_of(logs: Sequence[TrainingLog], by: Literal["recipe", "run"] = "recipe") -> list[Curve]:
    """Group logs into curves, in the given order.

    Args:
        logs: At least one.
        by: `recipe` makes one curve of all logs that differ only in the seed and in settings that
            do not affect results, `run` one of every log.

    Raises:
        UserError: A log is given twice, or two logs of one curve have the same seed.
    """
    paths = [log.path.resolve() for log in logs]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise UserError(f"{logs[number].path} is given twice; give each log once")
    if by == "run":
        return [Curve(label, (log,)) for label, log in zip(_run_labels(logs), logs, strict=True)]
    groups: dict[str, list[TrainingLog]] = {}
    for log in logs:
        groups.setdefault(canonical_json([log.start.recipe, _settings(log)]), []).append(log)
    for group in groups.values():
        group.sort(key=lambda log: log.start.seed)
        for one, other in pairwise(group):
            if one.start.seed == other.start.seed:
                raise UserError(
                    f"{one.path} and {other.path} have the same recipe, settings and "
                    "seed; give one of them, or draw each run separately with --by "
                    "run"
                )
    labels = _recipe_labels([group[0] for group in groups.values()])
    return [
        Curve(label, tuple(group)) for label, group in zip(labels, groups.values(), strict=True)
    ]


def plotted(names: Sequence[str], logs: Sequence[TrainingLog]) -> list[Plotted]:
    """The plotted numbers: one per name, and one per panel for validations on several.

    Panels of different tasks are different, whatever their names. Success of rollouts on several
    tasks is also plotted per task.

    Raises:
        UserError: A name is unknown, or a panel was played under two protocols.
    """
    known = (*VALIDATION_METRICS, *METRICS)
    several = len({log.start.task for log in logs}) > 1
    panels = list(
        dict.fromkeys(
            (panel, log.start.task if several else None) for log in logs for panel in log.panels
        )
    )
    plots = []
    for name in dict.fromkeys(names):
        if name not in known and metric_of(name) is None:
            raise UserError(f"no metric {name!r} in a training log{suggestion(name, known)}")
        if metric_of(name):
            plots.append(Plotted(name))
            if name == ROLLOUT_SUCCESS:
                plots += [Plotted(f"{name}@{task}") for task in _mixed_tasks(logs)]
            continue
        of_panels = [Plotted(name, panel, task) for panel, task in panels or [("", None)]]
        for what in of_panels:
            _check_one_protocol(what, logs)
        plots += of_panels
    return plots


def _mixed_tasks(logs: Sequence[TrainingLog]) -> list[str]:
    """Tasks of the runs that trained on several."""
    mixed = [log.start.task.split("+") for log in logs if log.several_tasks]
    return list(dict.fromkeys(task for tasks in mixed for task in tasks))


def series_of(log: TrainingLog, what: Plotted, x: XAxis = "updates") -> Series:
    """One number of one run along an axis, without missing values.

    Args:
        log: The run.
        what: The number.
        x: `updates`, `episodes` (played so far, including resampled ones), `tokens` (response
            tokens sampled so far) or `seconds` (compute so far).

    Raises:
        UserError: The log does not count the axis's quantity.
    """
    if what.panel is None:
        lines = [(line, line.values.get(what.name)) for line in log.updates]
        measured = [(line.update, line.seconds_total, y) for line, y in lines if y is not None]
    else:
        field = what.name.partition("/")[2]
        measured = [
            (line.update, line.seconds_total, float(getattr(line, field)))
            for line in what.validations(log)
        ]
    updates = np.array([update for update, _, _ in measured], dtype=np.float64)
    places = updates
    if x == "seconds":
        places = np.array([seconds for _, seconds, _ in measured], dtype=np.float64)
    elif x != "updates":
        places = _spent(log, _COUNTS[x])[np.searchsorted(_numbers(log), updates, side="right")]
    return Series(updates, places, np.array([y for _, _, y in measured], dtype=np.float64))


def band_of(runs: Sequence[Series]) -> Band | None:
    """Lowest, median and highest run where all of them have values (`at_common_places`).

    Returns:
        The band; None if the runs share no position.
    """
    found = at_common_places([(run.x, run.y) for run in runs])
    if found is None:
        return None
    x, values = found
    return Band(x, values.min(axis=0), np.median(values, axis=0), values.max(axis=0))


def _numbers(log: TrainingLog) -> Values:
    return np.array([line.update for line in log.updates], dtype=np.float64)


def _spent(log: TrainingLog, name: str) -> Values:
    """Cumulative count up to every update, starting at 0: one more value than updates."""
    counts = log.series(name)
    if None in counts:
        update = log.updates[counts.index(None)].update
        raise UserError(f"{log.path} lacks {name} of update {update}; use --x updates or seconds")
    return np.array(list(accumulate((c for c in counts if c is not None), initial=0.0)))


def _check_one_protocol(what: Plotted, logs: Sequence[TrainingLog]) -> None:
    seen: dict[str, TrainingLog] = {}
    for log in logs:
        for line in what.validations(log)[:1]:
            seen.setdefault(line.fingerprint, log)
    if len(seen) > 1:
        one, other, *_ = seen.values()
        raise UserError(
            f"{one.path} and {other.path} validated {what.panel} under different "
            "protocols; draw them separately, or exclude validation metrics with "
            "--metrics"
        )


def _settings(log: TrainingLog) -> dict[str, Any]:
    """All settings that affect results, except the seed, flattened."""
    init = log.start.init
    facts = {"task": log.start.task, "init": init.name, "init sha256": init.sha256}
    if log.start.plugins:
        code = sorted(log.start.plugins.items())
        facts["plugins"] = ", ".join(f"{name} {sha256}" for name, sha256 in code)
    config = {name: one for name, one in _flat(log.start.configuration) if name not in FREE}
    return facts | config


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if key == "seed":
            continue
        if isinstance(inner, dict) and inner:
            yield from _flat(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner


def _recipe_labels(logs: Sequence[TrainingLog]) -> list[str]:
    """Recipe names, with tracks or differing settings if several curves have the same recipe."""
    labels = []
    for log in logs:
        of_recipe = [other for other in logs if other.start.recipe == log.start.recipe]
        if len({track_name(other.start.track) for other in of_recipe}) == len(of_recipe) > 1:
            labels.append(f"{log.start.recipe}, {track_name(log.start.track)}")
            continue
        same, own = [_settings(other) for other in of_recipe], _settings(log)
        keys = [key for key in own if any(other.get(key) != own[key] for other in same)]
        facts = [f"{key.rpartition('.')[2]} {_text(own[key])}" for key in keys[:_SHOWN_DIFFERENCES]]
        facts += [ELLIPSIS] * (len(keys) > _SHOWN_DIFFERENCES)
        labels.append(", ".join([log.start.recipe, *facts]))
    return _distinct(labels)


def _run_labels(logs: Sequence[TrainingLog]) -> list[str]:
    """Names of the runs' folders, with as many parent folders as needed to distinguish them."""
    parts = [
        (log.path.parent if log.path.name == LOG else log.path.with_suffix("")).resolve().parts
        for log in logs
    ]
    labels = [part[-1] for part in parts]
    for depth in range(2, max(map(len, parts)) + 1):
        if len(set(labels)) == len(labels):
            break
        labels = ["/".join(part[-depth:]) for part in parts]
    return _distinct(labels)


def _distinct(labels: Sequence[str]) -> list[str]:
    """The labels, with numbers added to duplicates."""
    return [
        f"{label} ({labels[: number + 1].count(label)})" if labels.count(label) > 1 else label
        for number, label in enumerate(labels)
    ]


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return cut(text, 24)
