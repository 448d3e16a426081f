"""Sokoban steps a second beside gym-sokoban: `python -m tests.benchmarks.sokoban_steps`.

One core, one process, interleaved and repeated. Ours builds the observation text at every step; the
original is measured without any rendering and with its small image (`tiny_rgb_array`). All play the
same random moves in 6x6 rooms with one box and start over when an episode ends. Needs the extra
`benchmarks`.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from tasks.registry import load_task
from tasks.response import format_response
from tasks.sokoban.env import DIRECTIONS, SokobanEnv

MAX_TURNS = 15
TASK = load_task("sokoban")
ENTRIES = TASK.panel("builtin").entries


def ours(moves: list[str]) -> None:
    """The world with its observation text."""
    boards = [entry.data["board"] for entry in ENTRIES]
    world, turn, episode = SokobanEnv(boards[0]), 0, 0
    for move in moves:
        world.move(move)
        world.observation()
        turn += 1
        if turn == MAX_TURNS or world.solved:
            turn, episode = 0, episode + 1
            world = SokobanEnv(boards[episode % len(boards)])


def ours_with_prompts(moves: list[str]) -> None:
    """Whole episodes: parsing the response, the step, and the next prompt."""
    responses = {
        move: format_response("Push right from r1c1, so go up", move) for move in DIRECTIONS
    }
    number = 0
    episode = TASK.episode(ENTRIES[0], MAX_TURNS)
    episode.reset()
    for move in moves:
        if episode.step(responses[move]).outcome is not None:
            number += 1
            episode = TASK.episode(ENTRIES[number % len(ENTRIES)], MAX_TURNS)
            episode.reset()


def theirs(mode: str) -> Callable[[list[str]], None]:
    """gym-sokoban's own steps; levels are put back to their start, not generated again."""
    from gym_sokoban.envs.sokoban_env import SokobanEnv

    environment: Any = SokobanEnv(dim_room=(6, 6), max_steps=MAX_TURNS, num_boxes=1)
    start = environment.room_state.copy(), environment.player_position.copy()
    if mode == "none":
        environment.render = lambda **_: None

    def play(moves: list[str]) -> None:
        numbers = {move: number for number, move in enumerate(DIRECTIONS, 1)}
        for move in moves:
            if environment.step(numbers[move], observation_mode="tiny_rgb_array")[2]:
                environment.room_state, environment.player_position = (x.copy() for x in start)
                environment.num_env_steps = environment.boxes_on_target = 0

    return play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    rng = random.Random(0)
    moves = [rng.choice(DIRECTIONS) for _ in range(arguments.steps)]
    players = {
        "ours, observation text": ours,
        "ours, whole turns with prompts": ours_with_prompts,
        "gym-sokoban, no rendering": theirs("none"),
        "gym-sokoban, small image": theirs("tiny"),
    }
    rates: dict[str, list[float]] = {name: [] for name in players}
    for _ in range(arguments.repeats):
        for name, play in players.items():
            began = time.process_time()
            play(moves)
            rates[name].append(len(moves) / (time.process_time() - began))
    base = statistics.median(rates["gym-sokoban, no rendering"])
    print(f"{'':32} steps/CPU-s   over gym-sokoban without rendering")
    for name, values in rates.items():
        median = statistics.median(values)
        print(f"{name:32} {median:11,.0f}   {median / base:.2f}")


if __name__ == "__main__":
    main()
