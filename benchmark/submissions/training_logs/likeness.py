"""Numbers that two training logs have in common."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmark.logs.curves import RunCurves
from benchmark.logs.training_log import TrainingLog
from benchmark.submissions.training_logs.counts import FRACTIONS, numbers_of

Hashes = npt.NDArray[np.int64]
"""(k,) hashes of numbers with their names, the same in one process alone. The highest bits are
those of the name, so that what a log says can be compared by what both logs measure."""
Validations = Mapping[tuple[int, str], tuple[str, ...]]
"""The numbers of validations, by update and fingerprint, to `DIGITS` digits; 0 is the init's."""
_NAME_BITS: Final = 16
COPIED_SHARE: Final = 0.5
"""Of the updates of a log: more than that with the numbers of another log are copies. The first
updates of recipes with one seed and one init can be equal."""
EQUAL_NUMBERS: Final = 0.8
"""Of the numbers of an update: from that share on it is that of the other log."""
DIGITS: Final = 5
"""First digits of a number that two models, or two runs, do not have in common by chance."""
FEWEST_VALIDATIONS: Final = 2
"""Validations after the init's that must be equal in two logs before it counts as a copy."""


def first_digits(number: float) -> str:
    """What a number is to `DIGITS` digits; -0.0 is 0."""
    return f"{number + 0.0:.{DIGITS}g}"


def traced(log: TrainingLog) -> list[Hashes]:
    """Of each update a hash of every number, where it has enough of them to be told apart by.

    Counts, and a success rate that is one, are equal in many logs; `FRACTIONS` other numbers are
    not.
    """
    traces = []
    for line in log.updates:
        numbers = {name: float(value) for name, value in numbers_of(line).items()}
        fractions = {n: value for n, value in numbers.items() if not value.is_integer()}
        if len(fractions) >= FRACTIONS:
            traces.append(_hashes(fractions.items()))
    return traces


def traced_curves(run: RunCurves) -> list[Hashes]:
    """The same of another trainer's log."""
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
    """The parts of hashes that are their names'."""
    names: Hashes = hashes >> (64 - _NAME_BITS)
    return names


def equal_curves(one: RunCurves, other: RunCurves) -> int:
    """How many updates two logs have in common, if these are most of them, or all numbers are."""
    if equal := equal_updates(traced_curves(other), all_hashes(traced_curves(one))):
        return equal
    same = one.curves.keys() == other.curves.keys() and all(
        np.array_equal(points.steps, other.curves[name].steps)
        and np.array_equal(points.values, other.curves[name].values, equal_nan=True)
        for name, points in one.curves.items()
    )
    return max((points.steps.size for points in one.curves.values()), default=0) if same else 0


def all_hashes(traces: Sequence[Hashes]) -> Hashes:
    """All hashes of a log, each once."""
    return np.unique(np.concatenate(traces)) if traces else np.zeros(0, np.int64)


def equal_updates(mine: Sequence[Hashes], theirs: Hashes, updates: int | None = None) -> int:
    """How many updates of a log say what updates of another log do, if these are most of them.

    Numbers that the other log does not measure are left out: there, they can be anything.

    Args:
        mine: Of `traced`, none of them empty.
        theirs: `all_hashes` of the other one.
        updates: Of so many they must be most; None for those of `mine`.

    Returns:
        Their number, those with `EQUAL_NUMBERS` of their numbers in the other log; 0 if it is no
        more than can be by chance.
    """
    if not len(mine):
        return 0
    # All updates at once: of each by itself, the other log's would be sorted again.
    numbers = np.concatenate(mine)
    measured = np.isin(_names(numbers), np.unique(_names(theirs)))
    there = measured & np.isin(numbers, theirs)
    begins = np.cumsum([0, *map(len, mine[:-1])])
    count, found = (np.add.reduceat(each, begins, dtype=np.int64) for each in (measured, there))
    alike = found >= EQUAL_NUMBERS * count
    equal = int(np.count_nonzero(alike & (count >= FRACTIONS)))
    return equal if equal > COPIED_SHARE * (len(mine) if updates is None else updates) else 0


def equal_validations(mine: Validations, theirs: Validations) -> int:
    """How many validations two training runs have in common, if these are most of them.

    Two seeds solve as many episodes after one update now and then; in as many turns, they hardly
    do: logs of this project's own have at most one such validation in common. Runs that solve
    nothing, or everything, in all turns that there are, may be equal: they have nothing left to
    differ in. So may runs whose policy plays on as the init.

    Returns:
        Their number, without those of the init and of policies that solve nothing; 0 if they are
        not more than `COPIED_SHARE`, or fewer than `FEWEST_VALIDATIONS`. Where any differs, those
        of policies that solve everything do not count either.
    """
    common = [place for place in mine.keys() & theirs.keys() if place[0] > 0]
    differ = any(mine[place] != theirs[place] for place in common)
    extreme = {first_digits(0.0), first_digits(1.0)} if differ else {first_digits(0.0)}
    moved = [p for p in common if any(of[p] != of.get((0, p[1])) for of in (mine, theirs))]
    telling = [p for p in moved if not {mine[p][0], theirs[p][0]} <= extreme]
    equal = sum(mine[place] == theirs[place] for place in telling)
    return equal if equal >= FEWEST_VALIDATIONS and equal > COPIED_SHARE * len(telling) else 0


def validated(log: TrainingLog) -> Validations:
    """What a log's validations say, by the two numbers that are counts of what was played.

    A score can have any digits, and shares of turns differ by one turn in thousands.
    """
    return {
        (line.update, line.fingerprint): (first_digits(line.success), first_digits(line.turns))
        for line in log.validations
    }
