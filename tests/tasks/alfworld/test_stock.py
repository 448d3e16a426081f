"""Our engine versus TextWorld's: recorded steps in real games, lockstep in generated ones."""

import hashlib
import json
import random

import pytest

from tasks.alfworld.engine.game import Game
from tasks.alfworld.env import AlfworldEnv, Shown
from tasks.alfworld.goals import task_texts
from tasks.alfworld.problem import problem_text
from tasks.alfworld.stream import training_household
from tests.tasks.alfworld.data import data_folder, transitions
from tests.tasks.alfworld.stock import stock_engine

GAMES, STEPS = 12, 25
_RARE = {"look", "inventory", "examine", "close", "help"}
_ODD = ("", "dance", "GO TO SHELF 1", "take unicorn 1 from shelf 1", "  look ", "go to shelf 99")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_recorded_transitions_of_real_games() -> None:
    rows, folder = transitions(), data_folder()
    assert len(rows) == 22
    assert sum(len(row["actions"]) for row in rows) == 398
    for row in rows:
        content = json.loads((folder / row["game"]).read_text("utf-8"))
        world = AlfworldEnv(Game(content["pddl_problem"], row["task"]))
        for number, seen in enumerate(_play(world, row["actions"])):
            where = (row["game"], number)
            assert seen.text == row["obs"][number], where
            assert _sha(seen.text) == row["obs_sha"][number], where
            assert _sha("\n".join(seen.admissible)) == row["admissible_sha"][number], where
            assert seen.won == row["won"][number] == row["done"][number], where
            assert int(seen.won) == row["score"][number], where


def _play(world: AlfworldEnv, actions: list[str]) -> list[Shown]:
    return [world.reset(), *(world.step(action) for action in actions)]


@pytest.mark.usefixtures("kept_parses")
@pytest.mark.slow
@pytest.mark.parametrize("index", range(GAMES))
def test_lockstep_in_generated_games(index: int) -> None:
    household = training_household(index, seed=11)
    problem = problem_text(household)
    texts = task_texts(household.task_type, household.target, household.destination)
    task = texts[household.text]
    world, stock = AlfworldEnv(Game(problem, task)), stock_engine(problem, task)
    seen, state = world.reset(), stock.reset()
    rng = random.Random(index)
    solution = list(household.walkthrough)
    for turn in range(STEPS + 1):
        assert seen.text == state.feedback
        assert list(seen.admissible) == state.admissible_commands
        assert seen.won == state.won
        if turn == STEPS or seen.won:
            break
        # Half of the games continue at random, half are solved with detours.
        if solution and index % 2 and rng.random() < 0.6:
            command = solution.pop(0)
        else:
            command = _draw(seen.admissible, rng)
        seen = world.step(command)
        state, score, done = stock.step(command)
        assert (score, done) == (int(seen.won), seen.won)


def _draw(admissible: tuple[str, ...], rng: random.Random) -> str:
    """A command, rarely an odd or passive one, because commands with large effects are rare."""
    if rng.random() < 0.08:
        return rng.choice(_ODD)
    verbs: dict[str, list[str]] = {}
    for command in admissible:
        verbs.setdefault(command.split()[0], []).append(command)
    weights = [0.2 if verb in _RARE else 1.0 for verb in verbs]
    return rng.choice(verbs[rng.choices(list(verbs), weights)[0]])
