"""Rollouts that fall while validations do not are reported to reviewers."""

import json
from pathlib import Path

import pytest

from benchmark.logs.training_log import TrainingLog, parse_training_log
from benchmark.submissions.training_logs.rollouts import hidden_fall
from tests.benchmark.submissions.conftest import Copies
from tests.support.submissions.small import check
from tests.support.training.logs import Line, start_line, update_line, validation_line

SOLVED = [0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.4, 0.4]
"""The mean over five updates rises to 0.8 and ends at 0.4, exactly half."""


def log_of(rollouts: list[float], validations: list[int]) -> TrainingLog:
    """A log that validates every third update, with these numbers of 256 solved."""
    lines: list[Line] = [start_line(), validation_line(0, 64)]
    for update, success in enumerate(rollouts, 1):
        lines.append(update_line(update, {"rollout/success": success}))
        if update % 3 == 0 and update // 3 <= len(validations):
            lines.append(validation_line(update, validations[update // 3 - 1]))
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return parse_training_log(content, Path("training/s0.jsonl.zst"))


def test_a_fall_that_no_validation_shows_is_named() -> None:
    assert hidden_fall(log_of(SOLVED, [100, 150, 160, 165])) == (
        "training/s0.jsonl.zst: its rollouts fall from 80.0% to 40.0% success, but its validations "
        "show no collapse; reviewers may ask about it"
    )


@pytest.mark.parametrize(
    ("rollouts", "validations"),
    [
        ([*SOLVED[:-5], *[0.41] * 5], [100, 150, 160, 165]),  # not half of it
        ([0.1 * each for each in SOLVED], [100, 150, 160, 165]),  # never above 0.10
        (SOLVED[-9:], [100, 150, 160]),  # nine updates are too few
        (SOLVED, [150, 180, 60, 50]),  # the validations show it
        (SOLVED, [150, 180, 180, 80]),  # the last one has halved
    ],
)
def test_nothing_is_said_otherwise(rollouts: list[float], validations: list[int]) -> None:
    assert hidden_fall(log_of(rollouts, validations)) is None


def test_it_is_a_note_of_the_check(copies: Copies) -> None:
    copy = copies("trained")

    def change(lines: list[Line]) -> None:
        for line in lines:
            if line["kind"] == "update" and line["update"] > 12:
                line["rollout/success"] = 0.0

    copy.log(change)
    verdict = check(copy.folder)
    assert verdict.accepted
    (note,) = verdict.notes
    assert note.startswith("training/s0.jsonl.zst: its rollouts fall from ")
