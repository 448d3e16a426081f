"""ALFWorld's engine beside TextWorld's: the same commands in the same generated games."""

from functools import cache

import pytest

from tasks.alfworld.engine.game import Game, rules
from tasks.alfworld.env import AlfworldEnv
from tasks.alfworld.goals import task_texts
from tasks.alfworld.problem import problem_text
from tasks.alfworld.stream import training_household
from tests.benchmarks.conftest import Beside
from tests.tasks.alfworld.stock import stock_engine

pytestmark = pytest.mark.slow

ROUNDS = 5
"""TextWorld takes seconds."""


@cache
def game() -> tuple[str, str]:
    """A problem and its task; what is read once a process is read."""
    rules()
    house = training_household(0)
    task = task_texts(house.task_type, house.target, house.destination)[house.text]
    return problem_text(house), task


def test_alfworld_loads(beside: Beside) -> None:
    beside(
        lambda: AlfworldEnv(Game(*game())).reset(),
        lambda: stock_engine(*game()).reset(),
        "TextWorld, load and reset",
        ROUNDS,
    )


def test_alfworld_steps(beside: Beside) -> None:
    world, stock = AlfworldEnv(Game(*game())), stock_engine(*game())
    seen = world.reset()
    assert seen.text == stock.reset().feedback
    # From place to place: possible as often as one likes.
    commands = [command for command in seen.admissible if command.startswith("go to ")][:6]

    def ours() -> list[str]:
        return [world.step(command).text for command in commands]

    def theirs() -> list[str]:
        return [stock.step(command)[0].feedback for command in commands]

    assert ours() == theirs()
    beside(ours, theirs, "TextWorld's steps", ROUNDS)
