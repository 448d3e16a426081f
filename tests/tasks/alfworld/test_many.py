"""Many environments in one process, in one thread or several, do not affect each other."""

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tasks.alfworld.engine.game import Game
from tasks.alfworld.env import AlfworldEnv, Shown
from tasks.alfworld.goals import task_texts
from tasks.alfworld.problem import problem_text
from tasks.alfworld.stream import training_household

WORLDS, STEPS = 64, 20


def _games() -> list[Game]:
    """16 games for 64 environments: those in a group share one."""
    games = []
    for index in range(WORLDS // 4):
        one = training_household(index, seed=4)
        texts = task_texts(one.task_type, one.target, one.destination)
        games += [Game(problem_text(one), texts[one.text])] * 4
    return games


def _play(number: int, game: Game) -> list[Shown]:
    world, rng = AlfworldEnv(game), random.Random(number)
    seen = [world.reset()]
    for _ in range(STEPS):
        seen.append(world.step(rng.choice(seen[-1].admissible)))
    return seen


@pytest.mark.slow
def test_interleaved_threaded_and_sequential_worlds_are_equal() -> None:
    alone = [_play(number, game) for number, game in enumerate(_games())]
    worlds = [AlfworldEnv(game) for game in _games()]
    draws = [random.Random(number) for number in range(WORLDS)]
    together = [[world.reset()] for world in worlds]
    for _ in range(STEPS):
        for world, rng, seen in zip(worlds, draws, together, strict=True):
            seen.append(world.step(rng.choice(seen[-1].admissible)))
    assert together == alone
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(_play, range(WORLDS), _games())) == alone
    assert len({seen[-1].text for seen in alone}) > 15
