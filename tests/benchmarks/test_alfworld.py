"""ALFWorld's engine beside TextWorld's: the same commands in the same generated games."""

from functools import cache
from typing import Any

from tasks.alfworld.engine.game import Game, rules
from tasks.alfworld.env import AlfworldEnv
from tasks.alfworld.goals import task_texts
from tasks.alfworld.problem import problem_text
from tasks.alfworld.stream import training_household
from tests.benchmarks.conftest import Beside
from tests.tasks.alfworld.stock import stock_engine

ROUNDS = 5
"""TextWorld takes seconds."""


@cache
def game() -> tuple[str, str, tuple[str, ...]]:
    """Problem, task and the first commands of a solution; what is read once a process is read."""
    rules()
    house = training_household(0)
    task = task_texts(house.task_type, house.target, house.destination)[house.text]
    return problem_text(house), task, tuple(house.walkthrough[:8])


def played(world: Any) -> list[str]:
    """What our world says to the walkthrough."""
    return [world.reset().text, *(world.step(command).text for command in game()[2])]


def test_alfworld_loads(beside: Beside) -> None:
    problem, task, _ = game()
    beside(
        lambda: AlfworldEnv(Game(problem, task)).reset(),
        lambda: stock_engine(problem, task).reset(),
        "TextWorld, load and reset",
        ROUNDS,
    )


def test_alfworld_steps(beside: Beside) -> None:
    problem, task, walkthrough = game()
    ours, stock = AlfworldEnv(Game(problem, task)), stock_engine(problem, task)

    def theirs() -> list[str]:
        seen = [stock.reset().feedback]
        return seen + [stock.step(command)[0].feedback for command in walkthrough]

    assert played(ours) == theirs()
    beside(lambda: played(ours), theirs, "TextWorld, reset and steps", ROUNDS)
