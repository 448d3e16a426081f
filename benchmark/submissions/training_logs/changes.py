"""Finds copied training logs of which every digit was changed.

Two training runs have a trend in common, but not how each number goes up and down on it. A copy
with noise on its numbers, or with all of them scaled, has other digits, and goes up and down as
before.
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
"""That two logs must both have. Ten of two runs from one init with one seed are the most alike."""
MAX_UPDATES: Final = 200
"""The first ones, which are compared."""
MAX_NUMBERS: Final = 256
"""Of a log that are compared; those of single panels and tasks come last."""
FEWEST_NUMBERS: Final = 5
"""That change in both logs from update to update."""
ALIKE: Final = 0.95
"""Rank correlation of a number's changes in two logs from which on they are alike. In two of this
project's logs at most 26% of the numbers are (33,930 pairs); with 1% of noise on every number, 260
of 261 copies have most of them alike, with 3% 257 (`tests/benchmarks/scripts/likeness.py`)."""


@dataclass(frozen=True)
class Changes:
    """How the numbers of a log change from update to update.

    Attributes:
        names: Of k numbers, sorted.
        values: (T, k) as float64; NaN where a number was not measured.
    """

    names: tuple[str, ...]
    values: Values

    @cached_property
    def _whole(self) -> tuple[Values, Bools]:
        """Of all updates: most logs that are compared have as many."""
        return _ranked(self.values)

    def part(self, names: Sequence[str], updates: int) -> Values:
        """The first updates, (U, n).

        Args:
            names: Of n numbers, all of them here.
            updates: U.
        """
        return self.values[:updates, self._places(names)]

    def ranked(self, names: Sequence[str]) -> tuple[Values, Bools]:
        """As `_ranked` of all updates."""
        places, (ranks, moves) = self._places(names), self._whole
        return ranks[:, places], moves[places]

    def _places(self, names: Sequence[str]) -> Steps:
        return np.searchsorted(np.array(self.names), np.array(names))

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, float]]) -> "Changes":
        """Of a log's updates, in their order."""
        rows = rows[:MAX_UPDATES]
        found = sorted({name for row in rows for name in row}, key=lambda name: ("@" in name, name))
        names = tuple(sorted(found[:MAX_NUMBERS]))
        values = np.full((len(rows), len(names)), np.nan)
        for at, row in enumerate(rows):
            values[at] = [row.get(name, np.nan) for name in names]
        return cls(names, values)

    @classmethod
    def of_log(cls, log: TrainingLog) -> "Changes":
        """Of a log of this project's trainer."""
        return cls.of([numbers_of(line) for line in log.updates[:MAX_UPDATES]])

    @classmethod
    def of_curves(cls, run: RunCurves) -> "Changes":
        """Of another trainer's log."""
        rows: dict[int, dict[str, float]] = {}
        for name, points in run.curves.items():
            finite = points.finite
            for step, value in zip(finite.steps.tolist(), finite.values.tolist(), strict=True):
                rows.setdefault(step, {})[name] = value
        return cls.of([rows[step] for step in sorted(rows)])


def copied_changes(mine: Changes, theirs: Changes) -> tuple[int, int] | None:
    """As `alike_changes`, if these are most numbers; None otherwise."""
    found = alike_changes(mine, theirs)
    return found if found is not None and 2 * found[0] > found[1] else None


def alike_changes(mine: Changes, theirs: Changes) -> tuple[int, int] | None:
    """How many numbers of two logs go up and down together.

    Args:
        mine: Of one log.
        theirs: Of the other one.

    Returns:
        How many numbers do, with a rank correlation (Spearman's) of `ALIKE` or more between their
        changes, and of how many that change in most updates of both logs; None if there is too
        little to compare.
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
        # Where one log has no value, neither has changed: leaving out values hides nothing else.
        ranked = [_ranked(_filled(each, gaps)) for each in values]
    (one, moves), (other, moves_too) = ranked
    both = moves & moves_too
    count = int(np.count_nonzero(both))
    if count < FEWEST_NUMBERS:
        return None
    # Ranks without ties have one variance.
    variance = (updates - 1) * ((updates - 1) ** 2 - 1) / 12
    correlation = (one[:, both] * other[:, both]).sum(axis=0) / variance
    return int(np.count_nonzero(correlation >= ALIKE)), count


def changes_text(found: tuple[int, int], name: str) -> str:
    """What is said of a copy.

    Args:
        found: By `copied_changes`.
        name: Of the other log.
    """
    alike, count = found
    return f"{alike} of {count} numbers rise and fall from update to update as in {name}"


def _filled(values: Values, gaps: Bools) -> Values:
    """(U, n) values, those in gaps as in the update before."""
    filled = np.where(gaps, np.nan, values)
    for at in range(1, len(filled)):
        filled[at] = np.where(gaps[at], filled[at - 1], filled[at])
    return filled


def _ranked(values: Values) -> tuple[Values, Bools]:
    """How numbers change.

    Args:
        values: (U, n).

    Returns:
        (U - 1, n) ranks of the changes, with mean 0, of equal ones the first is the lower; and
        (n,) whether a number changes in most updates.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        changes = np.diff(values, axis=0)
    moves = np.mean((changes != 0) & ~np.isnan(changes), axis=0) > 0.5
    order = np.argsort(changes, axis=0, kind="stable")
    ranks: Values = np.empty_like(changes)
    rising = np.broadcast_to(np.arange(len(changes), dtype=np.float64)[:, None], changes.shape)
    np.put_along_axis(ranks, order, rising, axis=0)
    return ranks - (len(changes) - 1) / 2, moves
