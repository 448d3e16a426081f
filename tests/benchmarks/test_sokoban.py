"""Sokoban beside gym-sokoban: the same random moves in 6x6 rooms with one box."""

import random
from itertools import count
from typing import Any

import pytest

from tasks.registry import load_task
from tasks.response import format_response
from tasks.sokoban.env import DIRECTIONS, SokobanEnv
from tests.benchmarks.conftest import Beside

pytestmark = pytest.mark.filterwarnings("ignore:::gym", "ignore:::gym_sokoban")
MAX_TURNS = 15
TASK = load_task("sokoban")
MOVES = random.Random(0).choices(DIRECTIONS, k=600)


def gym_world() -> Any:
    """gym-sokoban's world; skips where the package is not there."""
    world = pytest.importorskip(
        "gym_sokoban.envs.sokoban_env", reason="needs gym-sokoban, of the extra benchmarks"
    )
    return world.SokobanEnv(dim_room=(6, 6), max_steps=MAX_TURNS, num_boxes=1)


def gym_steps(render: bool) -> Any:
    """Its steps; levels are put back to their start, not generated again."""
    world = gym_world()
    start = world.room_state.copy(), world.player_position.copy()
    numbers = {move: number for number, move in enumerate(DIRECTIONS, 1)}
    if not render:
        world.render = lambda **_: None

    def play() -> None:
        for move in MOVES:
            if world.step(numbers[move], observation_mode="tiny_rgb_array")[2]:
                world.room_state, world.player_position = (part.copy() for part in start)
                world.num_env_steps = world.boxes_on_target = 0

    return play


def test_sokoban_steps(beside: Beside) -> None:
    boards = [entry.data["board"] for entry in TASK.panel("builtin").entries]

    def play() -> None:
        """The world with its observation text."""
        world, turn, episode = SokobanEnv(boards[0]), 0, 0
        for move in MOVES:
            world.move(move)
            world.observation()
            turn += 1
            if turn == MAX_TURNS or world.solved:
                turn, episode = 0, episode + 1
                world = SokobanEnv(boards[episode])

    beside(play, gym_steps(render=False), "gym-sokoban, no rendering")


def test_sokoban_turns(beside: Beside) -> None:
    entries = TASK.panel("builtin").entries
    responses = [format_response("Push right from r1c1, so go up", move) for move in MOVES]

    def play() -> None:
        """Whole turns: the response is read, the world steps, the next prompt is written."""
        number = 0
        episode = TASK.episode(entries[0], MAX_TURNS)
        episode.reset()
        for response in responses:
            if episode.step(response).outcome is not None:
                number += 1
                episode = TASK.episode(entries[number], MAX_TURNS)
                episode.reset()

    beside(play, gym_steps(render=True), "gym-sokoban, small image")


def test_sokoban_new_levels(beside: Beside) -> None:
    world, numbers = gym_world(), count()

    def ours() -> None:
        for _ in range(4):
            entry = TASK.training_entry(next(numbers))
            TASK.episode(entry, MAX_TURNS).reset()

    def theirs() -> None:
        for _ in range(4):
            world.reset()

    beside(ours, theirs, "gym-sokoban, reset")
