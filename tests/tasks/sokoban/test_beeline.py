"""The player without a plan."""

import random

import pytest

from tasks.registry import load_task
from tasks.sokoban.beeline import beeline

TASK = load_task("sokoban")


@pytest.mark.parametrize(
    ("board", "thought", "move"),
    [
        (["#####", "#@$.#", "#####"], "Push right from r1c1, so go right", "right"),
        (["#####", "#.$@#", "#####"], "Push left from r1c3, so go left", "left"),
        # The cell to push from is reached by walking past the box.
        (["#####", "#.$_#", "#@__#", "#####"], "Push left from r1c3, so go right", "right"),
        # Down and right are equally far, so rows come first. Walls are ignored.
        (
            ["#####", "#@#_#", "#_$_#", "#__.#", "#####"],
            "Push down from r1c2, so go right",
            "right",
        ),
        # A box on a target stays there.
        (["######", "#*@$.#", "######"], "Push right from r1c2, so go right", "right"),
    ],
)
def test_it_goes_straight(board: list[str], thought: str, move: str) -> None:
    assert beeline(board) == (thought, move)


def test_a_solved_board_is_an_error() -> None:
    with pytest.raises(ValueError, match="solved already"):
        beeline(["####", "#@*#", "####"])


def test_it_solves_few_levels() -> None:
    solved = 0
    for entry in TASK.panel("builtin").entries:
        episode = TASK.episode(entry, 15)
        episode.reset()
        outcome = None
        while outcome is None:
            response = TASK.mistaken_response(episode, random.Random(0))
            outcome = episode.step(response).outcome
        solved += outcome.success
    assert solved == 29
