"""What was played as in another run: that takes at least 50 episodes, ten failures among them."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.models import ModelIdentity
from benchmark.submissions.check import read_accepted
from benchmark.submissions.checks.copies import check_run
from benchmark.submissions.checks.known import KnownRun, Play
from tasks.seeding import sha256_text
from tests.benchmark.submissions.conftest import Copies
from tests.benchmark.submissions.stolen import other_logs, other_numbers, problems, renamed


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda _: -5e-5,
        lambda _: -2.0,
        lambda value: value * 1.00002,
        lambda value: value - 0.5,
        lambda value: value * 3,
        lambda value: math.floor(10 * value) / 10,
    ],
    ids=["tiny", "one value", "scaled a little", "moved", "scaled", "rounded"],
)
def test_what_was_played_is_a_copy_whatever_the_numbers_say(
    copies: Copies, trained: Path, change: Callable[[float], float]
) -> None:
    copy = copies("trained")
    renamed(copy)
    other_logs(copy)
    other_numbers(copy, change)
    found = problems(copy, trained)
    assert sum("failures among them, were played as in" in problem for problem in found) == 2


@pytest.mark.parametrize("answer", ["{} ", "So: {}", "{}\n"])
def test_other_words_for_the_same_actions_are_a_copy(
    copies: Copies, trained: Path, answer: str
) -> None:
    copy = copies("trained")
    renamed(copy)
    other_logs(copy)
    entry = read_accepted(trained)
    mine = [KnownRun.of(run) for run in entry.runs]
    (first,) = {run.path: run for run in mine if run.path == "runs/r0"}.values()

    def reworded(play: Play) -> Play:
        return play._replace(answers=hash((answer, play.answers)))

    other = replace(
        first,
        model=first.model.model_copy(update={"sha256": sha256_text("another")}),
        traces={},
        plays={key: reworded(play) for key, play in first.plays.items()},
    )
    (found,) = check_run(other, first, "x/runs/r0")
    assert "failures among them, were played as in x/runs/r0" in found.problem


def run_with(plays: list[Play], name: str) -> KnownRun:
    model = ModelIdentity(name=name, kind="folder", sha256=sha256_text(name))
    keys = [("sokoban", "builtin", str(number), 0) for number in range(len(plays))]
    return KnownRun(f"runs/{name}", model, {}, dict(zip(keys, plays, strict=True)))


@pytest.mark.parametrize(
    ("alike", "failed_alike", "copied"),
    [(100, 20, True), (85, 17, True), (84, 17, False), (90, 16, False), (72, 11, False)],
)
def test_likeness_is_of_episodes_and_of_failures(
    alike: int, failed_alike: int, copied: bool
) -> None:
    """Of 100 episodes, 20 of them failures, so many are as in another run."""
    solved = [Play(number, number, True) for number in range(80)]
    failed = [Play(number, number, False) for number in range(80, 100)]
    changed = {*range(80 - (alike - failed_alike)), *range(80, 100 - failed_alike)}
    other = [
        Play(-1 - play.answers, -1 - play.answers, True) if play.answers in changed else play
        for play in (*solved, *failed)
    ]
    found = list(check_run(run_with([*solved, *failed], "a"), run_with(other, "b"), "b"))
    assert bool(found) == copied


def test_success_alone_is_no_copy() -> None:
    """Two strong models go the shortest way; nine failures are too few to tell them apart by."""
    solved = [Play(number, number, True) for number in range(91)]
    failed = [Play(number, number, False) for number in range(91, 100)]
    one, other = run_with([*solved, *failed], "a"), run_with([*solved, *failed], "b")
    assert list(check_run(one, other, "b")) == []
