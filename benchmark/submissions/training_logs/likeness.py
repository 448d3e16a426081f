"""Equal numbers in two training logs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmark.logs.curves import RunCurves
from benchmark.logs.training_log import TrainingLog
from benchmark.submissions.training_logs.counts import FRACTIONS, numbers_of

Hashes = npt.NDArray[np.int64]
"""(k,) hashes of numbers with their names, valid in one process only. The highest bits are the
name's, so that only the metrics that both logs contain are compared."""
Validations = Mapping[tuple[int, str], tuple[str, ...]]
"""Numbers of validations to `DIGITS` digits, by update and fingerprint; update 0 is the init's."""
_NAME_BITS: Final = 16
COPIED_SHARE: Final = 0.5
"""Share of a log's updates above which it counts as a copy if they have the numbers of another log.
The first updates of different recipes with the same seed and init can be equal."""
EQUAL_NUMBERS: Final = 0.8
"""Minimum share of an update's numbers in the other log for the update to count as equal."""
DIGITS: Final = 5
"""Number of leading digits that two models, or two runs, do not share by chance."""
FEWEST_VALIDATIONS: Final = 2
"""Minimum number of equal validations after the init's for a log to count as a copy."""


def first_digits(number: float) -> str:
    """A number rounded to `DIGITS` digits; -0.0 is 0."""
    return f"{number + 0.0:.{DIGITS}g}"


def traced(log: TrainingLog) -> list[Hashes]:
    """Hashes of the numbers in each update that has enough of them to be distinctive.

    Integers, such as counts, are equal in many logs; `FRACTIONS` other numbers are not.
    """
    traces = []
    for line in log.updates:
        numbers = {name: float(value) for name, value in numbers_of(line).items()}
        fractions = {n: value for n, value in numbers.items() if not value.is_integer()}
        if len(fractions) >= FRACTIONS:
            traces.append(_hashes(fractions.items()))
    return traces


def traced_curves(run: RunCurves) -> list[Hashes]:
    """Like `traced`, for another trainer's log."""
    rows: dict[int, list[tuple[str, float]]] = {}
    for name, points in run.curves.items():
        finite = points.finite
        for step, value in zip(finite.steps.tolist(), finite.values.tolist(), strict=True):
            if not float(value).is_integer():
                rows.setdefault(step, []).append((name, value))
    return [_hashes(row) for row in rows.values() if len(row) >= FRACTIONS]


def _hashes(numbers: Iterable[tuple[str, float]]) -> Hashes:
    rest = 64 - _NAME_BITS
    found = [
        (hash(name) % 2**_NAME_BITS << rest) | hash(first_digits(value)) % 2**rest
        for name, value in numbers
    ]
    return np.array(found, np.uint64).view(np.int64)


def _names(hashes: Hashes) -> Hashes:
    """The parts of hashes that encode names."""
    names: Hashes = hashes >> (64 - _NAME_BITS)
    return names


def equal_curves(one: RunCurves, other: RunCurves) -> int:
    """Number of equal updates in two logs, if most are equal or all numbers are; otherwise 0."""
    if equal := equal_updates(traced_curves(other), all_hashes(traced_curves(one))):
        return equal
    same = one.curves.keys() == other.curves.keys() and all(
        np.array_equal(points.steps, other.curves[name].steps)
        and np.array_equal(points.values, other.curves[name].values, equal_nan=True)
        for name, points in one.curves.items()
    )
    return max((points.steps.size for points in one.curves.values()), default=0) if same else 0


def all_hashes(traces: Sequence[Hashes]) -> Hashes:
    """The unique hashes of a log."""
    return np.unique(np.concatenate(traces)) if traces else np.zeros(0, np.int64)


def equal_updates(mine: Sequence[Hashes], theirs: Hashes, updates: int | None = None) -> int:
    """How many updates of a log equal updates of another log, if most of them do.

    Metrics that the other log lacks are ignored, because they could have any value there.

    Args:
        mine: Hashes from `traced`, none of them empty.
        theirs: `all_hashes` of the other log.
        updates: Number of updates of which most must be equal; None for all of `mine`.

    Returns:
        Number of updates with `EQUAL_NUMBERS` of their numbers in the other log; 0 if these are not
        more than `COPIED_SHARE`.
    """
    if not len(mine):
        return 0
    # All updates at once, so that the other log's hashes are sorted only once.
    numbers = np.concatenate(mine)
    measured = np.isin(_names(numbers), np.unique(_names(theirs)))
    there = measured & np.isin(numbers, theirs)
    begins = np.cumsum([0, *map(len, mine[:-1])])
    count, found = (np.add.reduceat(each, begins, dtype=np.int64) for each in (measured, there))
    alike = found >= EQUAL_NUMBERS * count
    equal = int(np.count_nonzero(alike & (count >= FRACTIONS)))
    return equal if equal > COPIED_SHARE * (len(mine) if updates is None else updates) else 0


def equal_validations(mine: Validations, theirs: Validations) -> int:
    """How many validations of two training runs are equal, if most of them are.

    Two seeds sometimes solve equally many episodes after an update, but hardly ever in equally many
    turns: this project's own logs share at most one such validation. Runs that solve nothing, or
    everything, in the maximum number of turns may be equal, because nothing can differ. So may runs
    whose policy stays at the init.

    Returns:
        Number of equal validations after the init's, except unchanged ones and those of policies
        that solve nothing; 0 if they are not more than `COPIED_SHARE`, or fewer than
        `FEWEST_VALIDATIONS`. If any validation differs, those of policies that solve everything are
        excluded, too.
    """
    common = [place for place in mine.keys() & theirs.keys() if place[0] > 0]
    differ = any(mine[place] != theirs[place] for place in common)
    extreme = {first_digits(0.0), first_digits(1.0)} if differ else {first_digits(0.0)}
    moved = [p for p in common if any(of[p] != of.get((0, p[1])) for of in (mine, theirs))]
    telling = [p for p in moved if not {mine[p][0], theirs[p][0]} <= extreme]
    equal = sum(mine[place] == theirs[place] for place in telling)
    return equal if equal >= FEWEST_VALIDATIONS and equal > COPIED_SHARE * len(telling) else 0


def validated(log: TrainingLog) -> Validations:
    """The success and turns of a log's validations, the two numbers that are counts.

    Scores can have any digits, and shares of turns can differ by one turn in thousands.
    """
    return {
        (line.update, line.fingerprint): (first_digits(line.success), first_digits(line.turns))
        for line in log.validations
    }
