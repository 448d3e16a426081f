"""Complete logs are accepted as written; shortened ones and those with gaps are detected."""

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.archive import read_compressed
from benchmark.logs.training_log import TrainingLog, parse_training_log
from benchmark.stability.run_end import UpdateSchedule, early_stop, schedule_of
from benchmark.submissions.reading.folder import read_submission
from benchmark.submissions.training_logs.counts import check_counts
from benchmark.submissions.training_logs.likeness import equal_updates, traced
from benchmark.submissions.training_logs.schedule import check_schedule
from tests.support.submissions.small import trainer_line
from tests.support.training.logs import (
    Line,
    measured_line,
    start_line,
    update_line,
    validation_line,
)

SUBMISSIONS = Path(__file__).parents[4] / "submissions"
LOGS = sorted(SUBMISSIONS.glob("*/training/*.zst"))


def log_of(lines: list[Line]) -> TrainingLog:
    return parse_training_log(
        "".join(json.dumps(line) + "\n" for line in lines).encode(), Path("l")
    )


def lines_until(lines: list[Line], last: int) -> list[Line]:
    """A copy of a log's lines up to an update."""
    return copy.deepcopy([line for line in lines if line.get("update", 0) <= last])


def own_log(path: Path) -> list[Line]:
    """The lines of a log of one of this project's entries."""
    stored = read_submission(path.parents[1]).files
    (size,) = (f.content_bytes for f in stored if f.path == f"training/{path.name}")
    assert size is not None
    return [json.loads(line) for line in read_compressed(path, size).splitlines()]


def problems(log: TrainingLog) -> list[str]:
    return [finding.text for finding in (*check_counts(log), *check_schedule(log))]


def exact(update: int, **changes: Any) -> Line:
    """A validation with shares that are possible for turns."""
    return validation_line(update, format_ok=1.0, action_ok=1.0, **changes)


def trained(last: int, every: int | None, validated: set[int], updates: int = 20) -> TrainingLog:
    """A run of this project's trainer, with its last update and its validated updates."""
    lines = [trainer_line(start_line(), updates, every)]
    for number in range(last + 1):
        lines += [measured_line(number, {"policy/entropy": 0.1})] if number else []
        lines += [exact(number)] if number in validated else []
    return log_of(lines)


COLLAPSED = [
    trainer_line(start_line(), updates=15, every=3),
    exact(0, solved=137),
    *(
        line
        for number in range(1, 16)
        for line in (
            measured_line(number, {"policy/entropy": 0.1}),
            *([exact(number, solved={3: 70, 6: 1, 9: 2}.get(number, 0))] * (number % 3 == 0)),
        )
    ),
]
"""It has 15 updates, validations every 3, and success 53.5, 27.3, 0.4, 0.8, 0 and 0%. Smoothed, it
is below half of 53.5% for the first time after update 9: (27.3 + 0.4 + 0.8) / 3."""


@pytest.mark.parametrize("path", LOGS, ids=lambda path: f"{path.parents[1].name}-{path.stem}")
def test_the_logs_of_our_own_entries_are_whole(path: Path) -> None:
    log = log_of(own_log(path))
    assert schedule_of(log) is not None
    assert problems(log) == []
    assert early_stop(log) is None


def test_a_run_that_was_stopped_for_its_collapse() -> None:
    log = log_of(lines_until(COLLAPSED, 9))
    assert problems(log) == []
    reason = early_stop(log)
    assert reason is not None
    assert reason.startswith("success collapsed at validation 3: 9.5% over the last 3, 53.5% at")


def test_a_run_that_was_stopped_between_two_validations() -> None:
    """The spread of returns within groups is nearly 0 for ten updates after the first ten."""
    lines = [trainer_line(start_line(), 30, 50), exact(0)]
    for number in range(1, 21):
        lines.append(measured_line(number, {"rollout/group_std": 1.0 if number <= 10 else 0.05}))
    assert problems(log_of(lines)) == []
    assert (early_stop(log_of(lines)) or "").startswith("returns within groups hardly differ")
    assert "ends at update 19" in problems(log_of(lines[:-1]))[0]


@pytest.mark.parametrize(
    ("skipped", "loss", "ended"), [(4, None, True), (3, None, False), (4, 0.5, False)]
)
def test_a_run_that_was_stopped_for_its_critic(
    skipped: int, loss: float | None, ended: bool
) -> None:
    """Its policy takes all its steps; the limit is 8 consecutive steps, over two updates."""
    start = trainer_line(start_line(), 20, None)
    start["configuration"]["optimization"]["max_skipped"] = 8
    start["configuration"]["advantage"] = {"name": "gae"}
    critic = {"critic/loss": loss, "critic/skipped_steps": skipped}
    lines = [start, measured_line(1, {"critic/loss": 0.5, "critic/skipped_steps": 0})]
    lines += [measured_line(number, critic) for number in (2, 3)]
    assert (early_stop(log_of(lines)) is not None) == ended
    assert bool(problems(log_of(lines))) == (not ended)
    # Without a critic, no trainer would have written this number.
    start["configuration"]["advantage"] = {"name": "grpo"}
    assert early_stop(log_of(lines)) is None


def test_a_run_that_was_cut_before_its_collapse() -> None:
    log = log_of(lines_until(COLLAPSED, 8))
    (problem,) = problems(log)
    assert problem.startswith("l, updates: ends at update 8, but the configuration says 15, and")
    assert early_stop(log) is None


@pytest.mark.slow
def test_every_log_of_our_entries_cut_anywhere_is_seen_or_has_collapsed() -> None:
    for path in LOGS:
        whole = log_of(own_log(path))
        for last in range(1, whole.updates[-1].update):
            log = replace(
                whole,
                updates=tuple(line for line in whole.updates if line.update <= last),
                validations=tuple(line for line in whole.validations if line.update <= last),
            )
            assert bool(problems(log)) == (early_stop(log) is None)


def test_the_last_validation_stands_at_the_end_where_the_interval_does_not() -> None:
    assert problems(trained(20, 3, {0, 3, 6, 9, 12, 15, 18, 20})) == []
    assert problems(trained(20, 50, {0, 20})) == []


def test_a_run_that_is_longer_than_its_configuration_is_refused() -> None:
    """Validations after the stated end, or their absence, would be a choice."""
    for validated in ({0, 7, 14, 20, 21, 28, 30}, {0, 30}, {0, 20}):
        (problem,) = problems(trained(30, 7, validated))
        assert "ends at update 30, but the configuration says 20" in problem


def test_a_run_without_validations_is_whole_if_its_configuration_says_so() -> None:
    assert problems(trained(20, None, set())) == []
    assert "ends at update 19" in problems(trained(19, None, set()))[0]


def test_every_panel_must_have_all_validations() -> None:
    lines = [trainer_line(start_line(), 4, 2)]
    for number in range(5):
        lines += [measured_line(number, {"policy/entropy": 0.1})] if number else []
        panels = ("a", "b") if number in (0, 4) else ("a",) if number == 2 else ()
        lines += [exact(number, panel=panel) for panel in panels]
    assert "there is none of b at update 2" in problems(log_of(lines))[0]


def test_a_log_that_does_not_say_how_long_it_is_could_be_cut_anywhere() -> None:
    """Without these settings nobody notices that the collapse is missing."""
    cut = lines_until(COLLAPSED, 3)
    for name in ("optimization", "validation"):
        del cut[0]["configuration"][name]
    assert schedule_of(log_of(cut)) is None
    (problem,) = problems(log_of(cut))
    assert "does not say how many updates were planned" in problem


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"optimization": [], "validation": {"every": 1}},
        {"optimization": {"updates": 20}, "validation": None},
        {"optimization": {"updates": 20}, "validation": {}},
        {"optimization": {"updates": True}, "validation": {"every": 1}},
        {"optimization": {"updates": 20.0}, "validation": {"every": 1}},
        {"optimization": {"updates": 20}, "validation": {"every": 0}},
        {"optimization": {"updates": 20}, "validation": {"every": "5"}},
    ],
)
def test_what_is_no_configuration_of_this_trainer_is_nobody_s(configuration: Line) -> None:
    assert schedule_of(log_of([start_line(configuration=configuration)])) is None


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 70))
def test_validations_are_due_where_the_trainer_makes_them(
    updates: int, every: int, last: int
) -> None:
    """The trainer validates before the first update, at a fixed interval, and after the last."""
    last = min(last, updates)
    made = {0} | {n for n in range(1, last + 1) if n == updates or n % every == 0}
    assert UpdateSchedule(updates, every).due(last) == made


def test_updates_with_few_numbers_are_not_compared() -> None:
    """Whole numbers can be equal by chance, and so can a few fractions."""
    names = ["rollout/success", "rollout/return", "policy/entropy", "policy/grad_norm", "ratio/ess"]

    def numbers(value: float, count: int) -> list[list[int]]:
        values = {"rollout/episodes": 64, "seconds/total": 0.5} | dict.fromkeys(
            names[:count], value
        )
        return [each.tolist() for each in traced(log_of([start_line(), update_line(1, values)]))]

    assert [len(numbers(0.5, count)) for count in (0, 4, 5)] == [0, 0, 1]
    assert numbers(1.0, 5) == []
    assert numbers(0.5, 5) != numbers(0.25, 5)


def test_most_equal_updates_are_a_copy() -> None:
    mine = [np.arange(start, start + 5) for start in (0, 10, 20, 30)]
    # In three updates, four of five numbers.
    assert equal_updates(mine, np.array([0, 1, 2, 3, 10, 11, 12, 14, 21, 22, 23, 24, 30])) == 3
    assert equal_updates(mine, np.array([0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 30, 31])) == 0
    assert equal_updates([], np.array([1])) == 0
