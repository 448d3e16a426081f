"""Validations that two logs have in common."""

import json
from pathlib import Path

import pytest

from benchmark.logs.training_log import parse_training_log
from benchmark.submissions.training_logs.likeness import Validations, equal_validations, validated
from tests.support.training.logs import start_line, validation_line


def validations(*solved: int, turns: float = 7.0) -> Validations:
    """After updates 0, 1, 2 and so on, with so many of 256 solved."""
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
        # Nothing is solved, or nothing was learned: there is nothing to differ in.
        ((100, 0, 0, 0), (100, 0, 0, 0), 0),
        ((100, 100, 100, 100), (100, 100, 100, 100), 0),
        ((100, 100, 110, 120), (100, 100, 110, 120), 2),
        # The init's is no evidence, as it is everybody's; a changed one hides nothing.
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
