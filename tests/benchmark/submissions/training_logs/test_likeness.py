"""Validations that are equal in two logs."""

import json
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.logs.training_log import parse_training_log
from benchmark.submissions.training_logs.counts import FRACTIONS
from benchmark.submissions.training_logs.likeness import (
    EQUAL_NUMBERS,
    Hashes,
    Validations,
    all_hashes,
    equal_updates,
    equal_validations,
    validated,
)
from tests.support.training.logs import start_line, validation_line


def validations(*solved: int, turns: float = 7.0) -> Validations:
    """Validations after updates 0, 1, 2 and so on, with these numbers of 256 solved."""
    lines = [start_line()]
    lines += [validation_line(n, count, turns=turns) for n, count in enumerate(solved)]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return validated(parse_training_log(content, Path("l")))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ((100, 110, 120, 130), (100, 110, 120, 130), 3),
        ((100, 110, 120, 130), (100, 110, 120, 131), 2),
        ((100, 110, 120, 130), (100, 110, 121, 131), 0),
        # Nothing is solved, or nothing was learned, so logs cannot differ.
        ((100, 0, 0, 0), (100, 0, 0, 0), 0),
        ((100, 100, 100, 100), (100, 100, 100, 100), 0),
        ((100, 100, 110, 120), (100, 100, 110, 120), 2),
        # The init's validation is the same for everybody and thus no evidence; changing it hides
        # nothing.
        ((100, 110, 120, 130), (99, 110, 120, 130), 3),
    ],
)
def test_most_validations_of_policies_that_have_moved(
    one: tuple[int, ...], other: tuple[int, ...], equal: int
) -> None:
    assert equal_validations(validations(*one), validations(*other)) == equal


def test_digits_that_nobody_sees_make_no_difference() -> None:
    one = validations(100, 110, 120, 130)
    assert equal_validations(one, validations(100, 110, 120, 130, turns=7.00000001)) == 3
    assert equal_validations(one, validations(100, 110, 120, 130, turns=7.01)) == 0


def test_numbers_that_can_be_anything_make_no_difference() -> None:
    """A score has any digits, a share of many turns differs by one turn, and -0.0 equals 0."""
    one = validations(100, 0, 110, 120)
    lines = [start_line()]
    for update, count in enumerate((100, 0, 110, 120)):
        line = validation_line(update, count, turns=7.0, score=0.3 + update / 7, format_ok=0.969)
        line["success"] = line["success"] or -0.0
        lines.append(line)
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    other = validated(parse_training_log(content, Path("l")))
    assert one == other
    assert equal_validations(one, other) == 2


def update(*numbers: tuple[int, int]) -> Hashes:
    """Hashes of numbers with their names."""
    return np.array([(name << 48) | value for name, value in numbers], np.int64)


numbers = st.lists(
    st.tuples(st.integers(1, 8), st.integers(0, 3)), min_size=FRACTIONS, max_size=9, unique=True
)
logs = st.lists(numbers.map(lambda each: update(*each)), max_size=5)


def one_by_one(mine: Sequence[Hashes], theirs: Hashes) -> int:
    """A reference for `equal_updates`, by sets."""
    known, there = {int(each) >> 48 for each in theirs}, set(theirs.tolist())
    measured = [[each for each in line.tolist() if each >> 48 in known] for line in mine]
    equal = sum(
        len(line) >= FRACTIONS and sum(each in there for each in line) >= EQUAL_NUMBERS * len(line)
        for line in measured
    )
    return equal if equal > 0.5 * len(mine) else 0


@given(logs, logs)
def test_updates_are_compared_by_what_both_logs_measure(
    mine: list[Hashes], theirs: list[Hashes]
) -> None:
    assert equal_updates(mine, all_hashes(theirs)) == one_by_one(mine, all_hashes(theirs))


def test_many_updates_are_compared_at_once() -> None:
    """One at a time, a log of 32 MiB took more than an hour per compared log."""
    mine = [update(*((name, number) for name in range(1, 6))) for number in range(50_000)]
    theirs = [each + 100_000 for each in mine]
    began = time.process_time()
    assert equal_updates(mine, all_hashes(theirs)) == 0
    assert equal_updates(mine, all_hashes(mine)) == len(mine)
    assert time.process_time() - began < 10
