"""ALFWorld: our engine beside TextWorld's, game by game in one run, and 64 games in one process.

Prints CPU seconds of a load, a reset and a step of both, their ratios, and what 64 episodes in one
process do and need. Games are real ones where $ALFWORLD_DATA has `valid_unseen`, else generated.
Both engines are given the same commands; their texts are compared on the way.

    python -m tests.benchmarks.alfworld_speed [--games N] [--steps N]
"""

import argparse
import random
import resource
import time
from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import TypeVar

from tasks.alfworld.engine.game import Game, rules
from tasks.alfworld.env import AlfworldEnv
from tasks.alfworld.games import RealGame, read_game
from tasks.alfworld.goals import task_texts
from tasks.alfworld.problem import problem_text
from tasks.alfworld.stream import training_household
from tasks.alfworld.task import AlfworldTask
from tests.tasks.alfworld.stock import stock_engine

EPISODES = 64
T = TypeVar("T")

Source = tuple[str, str]
"""A PDDL problem and the task's text."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--games", type=int, default=8)
    parser.add_argument("--steps", type=int, default=15)
    arguments = parser.parse_args()
    kind, sources = _sources()
    # What is read once a process does not count: our rules, the stock engine's modules.
    rules()
    # First, as what the stock engine takes would hide what these take.
    _many(sources[:EPISODES])
    stock_engine(*sources[0])
    print(f"{arguments.games} {kind} games, {arguments.steps} steps each, CPU milliseconds")
    _compare(sources[:: len(sources) // arguments.games][: arguments.games], arguments.steps)


def _sources() -> tuple[str, list[Source]]:
    task = AlfworldTask()
    if task.available("valid_unseen"):
        entries = task.panel("valid_unseen").entries
        return "real", [read_game(RealGame.of(entry)) for entry in entries]
    households = [training_household(index) for index in range(2 * EPISODES)]
    return "generated", [
        (problem_text(one), task_texts(one.task_type, one.target, one.destination)[one.text])
        for one in households
    ]


def _compare(sources: Sequence[Source], steps: int) -> None:
    times: dict[str, list[tuple[float, float]]] = {"load": [], "reset": [], "step": []}
    for number, (problem, task) in enumerate(sources):
        stock, stock_load = _timed(lambda p=problem, t=task: stock_engine(p, t))  # type: ignore[misc]
        world, our_load = _timed(lambda p=problem, t=task: AlfworldEnv(Game(p, t)))  # type: ignore[misc]
        times["load"].append((stock_load, our_load))
        state, stock_reset = _timed(stock.reset)
        seen, our_reset = _timed(world.reset)
        times["reset"].append((stock_reset, our_reset))
        rng = random.Random(number)
        for _ in range(steps):
            assert (seen.text, list(seen.admissible)) == (state.feedback, state.admissible_commands)
            command = rng.choice(seen.admissible)
            (state, _, _), stock_step = _timed(lambda c=command, s=stock: s.step(c))  # type: ignore[misc]
            seen, our_step = _timed(lambda c=command, w=world: w.step(c))  # type: ignore[misc]
            times["step"].append((stock_step, our_step))
    for name, pairs in times.items():
        ratios = [theirs / ours for theirs, ours in pairs]
        print(
            f"{name:6} stock {mean(theirs for theirs, _ in pairs) * 1e3:8.2f}"
            f"  ours {mean(ours for _, ours in pairs) * 1e3:7.3f}"
            f"  ratio of means {sum(t for t, _ in pairs) / sum(o for _, o in pairs):6.0f}"
            f"  (single: median {median(ratios):.0f}, lowest {min(ratios):.0f})"
        )


def _many(sources: Sequence[Source]) -> None:
    """64 episodes of as many games in this process, one command each in turn."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worlds = [AlfworldEnv(Game(*source)) for source in sources]
    seen = [world.reset() for world in worlds]
    rng = random.Random(0)
    began, steps = time.process_time(), 0
    for _ in range(50):
        for index, world in enumerate(worlds):
            seen[index] = world.step(rng.choice(seen[index].admissible))
            steps += 1
    spent = time.process_time() - began
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / len(worlds)
    print(
        f"{len(worlds)} episodes in one process: {steps / spent:,.0f} steps per CPU second, "
        f"at most {used:,.0f} KiB each (game included)"
    )


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    began = time.process_time()
    result = call()
    return result, time.process_time() - began


if __name__ == "__main__":
    main()
