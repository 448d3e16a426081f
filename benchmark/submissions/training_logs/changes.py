"""Finds copied training logs in which every digit was changed.

Two training runs may share a trend, but not the fluctuations of each number around it. A copy with
added noise, or with all numbers scaled, has other digits but the same fluctuations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmark.logs.curves import RunCurves
from benchmark.logs.training_log import TrainingLog
from benchmark.stats.arrays import Steps, Values
from benchmark.submissions.training_logs.counts import numbers_of

Bools = npt.NDArray[np.bool_]
FEWEST_UPDATES: Final = 10
"""Minimum number of updates in both logs. The first ten updates of two runs with the same init and
seed are the most similar."""
MAX_UPDATES: Final = 200
"""Number of first updates that are compared."""
MAX_NUMBERS: Final = 256
"""Maximum number of a log's metrics to compare; those of single panels and tasks come last."""
FEWEST_NUMBERS: Final = 5
"""Minimum number of metrics that change in both logs from update to update."""
ALIKE: Final = 0.95
"""Rank correlation of a metric's changes in two logs from which on they count as alike. In any two
of this project's logs, at most 26% of the metrics are alike (33,930 pairs). With 1% noise on every
number, most are alike in 260 of 261 copies, with 3% noise in 257
(`tests/benchmarks/scripts/likeness.py`)."""


@dataclass(frozen=True)
class Changes:
    """How the metrics of a log change from update to update.

    Attributes:
        names: Names of the k metrics, sorted.
        values: (T, k) values as float64; NaN where a metric was not measured.
    """

    names: tuple[str, ...]
    values: Values

    @cached_property
    def _whole(self) -> tuple[Values, Bools]:
        """`_ranked` over all updates, cached because most compared logs have equally many."""
        return _ranked(self.values)

    def part(self, names: Sequence[str], updates: int) -> Values:
        """(U, n) values of the first updates.

        Args:
            names: Names of n metrics, all of which must exist.
            updates: U.
        """
        return self.values[:updates, self._places(names)]

    def ranked(self, names: Sequence[str]) -> tuple[Values, Bools]:
        """`_ranked` over all updates, for the named metrics."""
        places, (ranks, moves) = self._places(names), self._whole
        return ranks[:, places], moves[places]

    def _places(self, names: Sequence[str]) -> Steps:
        return np.searchsorted(np.array(self.names), np.array(names))

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, float]]) -> "Changes":
        """Collect the changes from a log's updates, in order."""
        rows = rows[:MAX_UPDATES]
        found = sorted({name for row in rows for name in row}, key=lambda name: ("@" in name, name))
        names = tuple(sorted(found[:MAX_NUMBERS]))
        values = np.full((len(rows), len(names)), np.nan)
        for at, row in enumerate(rows):
            values[at] = [row.get(name, np.nan) for name in names]
        return cls(names, values)

    @classmethod
    def of_log(cls, log: TrainingLog) -> "Changes":
        """Collect the changes from a log of this project's trainer."""
        return cls.of([numbers_of(line) for line in log.updates[:MAX_UPDATES]])

    @classmethod
    def of_curves(cls, run: RunCurves) -> "Changes":
        """Collect the changes from another trainer's log."""
        rows: dict[int, dict[str, float]] = {}
        for name, points in run.curves.items():
            finite = points.finite
            for step, value in zip(finite.steps.tolist(), finite.values.tolist(), strict=True):
                rows.setdefault(step, {})[name] = value
        return cls.of([rows[step] for step in sorted(rows)])


def copied_changes(mine: Changes, theirs: Changes) -> tuple[int, int] | None:
    """`alike_changes`, if most metrics are alike; None otherwise."""
    found = alike_changes(mine, theirs)
    return found if found is not None and 2 * found[0] > found[1] else None


def alike_changes(mine: Changes, theirs: Changes) -> tuple[int, int] | None:
    """How many metrics of two logs rise and fall together.

    Args:
        mine: Changes in one log.
        theirs: Changes in the other log.

    Returns:
        The number of metrics whose changes have a Spearman rank correlation of `ALIKE` or more, and
        the number of metrics that change in most updates of both logs; None if there is too little
        to compare.
    """
    updates = min(len(mine.values), len(theirs.values))
    names = sorted(set(mine.names) & set(theirs.names))
    if updates < FEWEST_UPDATES or len(names) < FEWEST_NUMBERS:
        return None
    values = [each.part(names, updates) for each in (mine, theirs)]
    gaps = np.isnan(values[0]) | np.isnan(values[1])
    if len(mine.values) == len(theirs.values) and not gaps.any():
        ranked = [each.ranked(names) for each in (mine, theirs)]
    else:
        # Where one log has no value, both count as unchanged: omitting values hides nothing else.
        ranked = [_ranked(_filled(each, gaps)) for each in values]
    (one, moves), (other, moves_too) = ranked
    both = moves & moves_too
    count = int(np.count_nonzero(both))
    if count < FEWEST_NUMBERS:
        return None
    # Ranks without ties always have the same variance.
    variance = (updates - 1) * ((updates - 1) ** 2 - 1) / 12
    correlation = (one[:, both] * other[:, both]).sum(axis=0) / variance
    return int(np.count_nonzero(correlation >= ALIKE)), count


def changes_text(found: tuple[int, int], name: str) -> str:
    """Text on a copy.

    Args:
        found: Result of `copied_changes`.
        name: Name of the other log.
    """
    alike, count = found
    return f"{alike} of {count} numbers rise and fall from update to update as in {name}"


def _filled(values: Values, gaps: Bools) -> Values:
    """(U, n) values with gaps forward-filled."""
    filled = np.where(gaps, np.nan, values)
    for at in range(1, len(filled)):
        filled[at] = np.where(gaps[at], filled[at - 1], filled[at])
    return filled


def _ranked(values: Values) -> tuple[Values, Bools]:
    """Rank the changes of metrics.

    Args:
        values: (U, n) values.

    Returns:
        (U - 1, n) ranks of the changes, with mean 0 and ties broken in order; and (n,) whether each
        metric changes in most updates.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        changes = np.diff(values, axis=0)
    moves = np.mean((changes != 0) & ~np.isnan(changes), axis=0) > 0.5
    order = np.argsort(changes, axis=0, kind="stable")
    ranks: Values = np.empty_like(changes)
    rising = np.broadcast_to(np.arange(len(changes), dtype=np.float64)[:, None], changes.shape)
    np.put_along_axis(ranks, order, rising, axis=0)
    return ranks - (len(changes) - 1) / 2, moves
