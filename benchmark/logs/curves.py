"""The curves of one training run, from any trainer's log.

All log readers, foreign and our own, produce these curves, and stability is computed from them.
Numbers have the names, units and meanings of `metrics.py`; numbers missing from a log are absent.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from benchmark.logs.lines import Update
from benchmark.logs.metrics import METRICS, VALIDATION_METRICS
from benchmark.logs.training_log import TrainingLog
from benchmark.stats.arrays import Steps, Values


@dataclass(frozen=True, slots=True)
class Points:
    """One number of a run, along its updates.

    Attributes:
        steps: (T,) updates after which it was measured, strictly increasing; 0 is the init.
        values: (T,) measured values, which may be NaN or infinite.
    """

    steps: Steps
    values: Values

    def __post_init__(self) -> None:
        """Check the shapes and the order.

        Raises:
            ValueError: Shapes differ, or steps do not increase.
        """
        if self.steps.ndim != 1 or self.steps.shape != self.values.shape:
            raise ValueError(f"steps {self.steps.shape} and values {self.values.shape} do not fit")
        if (np.diff(self.steps) <= 0).any():
            raise ValueError("steps do not increase")

    @property
    def finite(self) -> "Points":
        """The curve without values that are not finite."""
        keep = np.isfinite(self.values)
        return Points(self.steps[keep], self.values[keep])


@dataclass(frozen=True, slots=True)
class RunCurves:
    """One training run.

    Attributes:
        name: Its display name; user-provided text.
        source: Format of the log: `arlarena-bench`, `trl`, `verl`, `wandb` or `tensorboard`.
        recipe: Name of its recipe; None if the log does not state it.
        seed: Its seed; None likewise.
        curves: Curves by name, from `METRICS` and `VALIDATION_METRICS`. With several panels, a
            validation name ends with the panel: `validation/success@builtin`.
        tokens: Response tokens sampled since the beginning, by update; None if unknown.
        seconds: Compute since the beginning, by update; None if unknown.
        unknown: Names of unrecognized fields of the log, sorted.
    """

    name: str
    source: str
    recipe: str | None
    seed: int | None
    curves: Mapping[str, Points]
    tokens: Points | None = None
    seconds: Points | None = None
    unknown: tuple[str, ...] = field(default=())

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of all numbers missing from the log."""
        have = {name.partition("@")[0] for name in self.curves}
        return tuple(n for n in itertools.chain(METRICS, VALIDATION_METRICS) if n not in have)


def run_curves_of(log: TrainingLog) -> RunCurves:
    """The curves of one of our own logs.

    Args:
        log: The log.

    Returns:
        Its curves; names of validations include the panel only if there are several. For a run on
        several tasks, a name without a panel is the mean over them.
    """
    steps = np.array([line.update for line in log.updates], np.int64)
    curves = _update_curves(log.updates, steps)
    if log.several_tasks:
        curves |= {name: _mean_over_tasks(log, name) for name in VALIDATION_METRICS}
    for panel in log.panels:
        lines = log.of_panel(panel)
        at = np.array([line.update for line in lines], np.int64)
        for name in VALIDATION_METRICS:
            key = f"{name}@{panel}" if len(log.panels) > 1 else name
            field_name = name.partition("/")[2]
            curves[key] = Points(at, np.array([getattr(line, field_name) for line in lines]))
    drawn = [line.values.get("tokens/response") for line in log.updates]
    tokens = None
    if drawn and None not in drawn:
        tokens = Points(steps, np.cumsum(np.array(drawn, np.float64)))
    seconds = Points(steps, np.array([line.seconds_total for line in log.updates]))
    return RunCurves(
        name=log.start.recipe,
        source="arlarena-bench",
        recipe=log.start.recipe,
        seed=log.start.seed,
        curves=curves,
        tokens=tokens,
        seconds=seconds,
    )


def _mean_over_tasks(log: TrainingLog, name: str) -> Points:
    found = log.over_tasks(name.partition("/")[2])
    updates = np.array([update for update, _ in found], np.int64)
    return Points(updates, np.array([mean for _, mean in found]))


def _update_curves(updates: Sequence[Update], steps: Steps) -> dict[str, Points]:
    """The numbers of all updates, in the order of `METRICS`, then those of single tasks."""
    rows = [line.values for line in updates]
    shapes = set(map(tuple, rows))  # names in a line: only a few distinct sets
    everywhere = sorted(set.intersection(*map(set, shapes))) if rows else []
    somewhere = set().union(*shapes, *(line.nonfinite for line in updates if line.nonfinite))
    columns: dict[str, Values] = {}
    if len(everywhere) > 1:
        # Most numbers are in every line; extracting them together takes a third of the time.
        cells = itertools.chain.from_iterable(map(itemgetter(*everywhere), rows))
        table = np.fromiter(cells, np.float64).reshape(len(rows), len(everywhere))
        columns = dict(zip(everywhere, table.T.copy(), strict=True))
    curves = {}
    of_tasks = sorted({*everywhere, *somewhere} - METRICS.keys())
    for name in (*METRICS, *of_tasks):
        if name in columns:
            curves[name] = Points(steps, columns[name])
        elif name in somewhere:
            measured = [
                line.values.get(name, np.nan if name in line.nonfinite else None)
                for line in updates
            ]
            known = [at for at, value in enumerate(measured) if value is not None]
            values = np.array([measured[at] for at in known], np.float64)
            curves[name] = Points(steps[known], values)
    return curves
