"""Asynchronous rollouts beside synchronous ones, in wall time of a whole run.

    python -m tests.benchmarks.scripts.async_speed [--track all-standard] [--staleness 1 4]
        [--updates 6] [--rounds 2]

The same track is trained with and without them, in turn, each run in a process of its own with one
thread for a computation, from the first episode to the last weights, without validation. A run's
start and end count: an asynchronous one has nothing to learn at first, and nothing to play at last.
It only says something on a machine that does nothing else, which is why a run's processor time is
printed beside its wall time. Ratios are taken within a round.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.logs.training_log import LOG, read_training_log
from tasks.texts import plural


@dataclass(frozen=True, slots=True)
class Run:
    """What one training took.

    Attributes:
        wall: Seconds of its updates.
        cpu: CPU seconds of its process, of its start, and of all that it started.
        tokens: Response tokens that were learned from.
    """

    wall: float
    cpu: float
    tokens: int


def train(track: str, staleness: int | None, updates: int) -> Run:
    """Train in a process of its own."""
    settings = [f"optimization.updates={updates}", "validation.every=null", "checkpoint_every=1000"]
    if staleness is not None:
        # As on the asynchronous tracks: tokens are weighted by trainer over engine.
        settings += [f"rollout.max_staleness={staleness}", "tis_cap=2.0"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "benchmark.cli", "train", "--recipe", "grpo"]
        command += ["--track", track, "--seed", "0", "--out", str(out), "--env-processes", "1"]
        command += [word for setting in settings for word in ("--set", setting)]
        before = os.times()
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        after = os.times()
        lines = read_training_log(out / LOG).updates
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    tokens = [int(line.values["tokens/trained"]) for line in lines]
    return Run(lines[-1].seconds_total, cpu, sum(tokens))


def main(words: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--track", default="all-standard")
    parser.add_argument("--staleness", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--updates", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args(words)
    ratios: dict[int, list[float]] = {each: [] for each in arguments.staleness}
    for number in range(1, arguments.rounds + 1):
        plain = train(arguments.track, None, arguments.updates)
        report(f"round {number}, synchronous", plain)
        for staleness, found in ratios.items():
            run = train(arguments.track, staleness, arguments.updates)
            report(f"round {number}, at most {staleness} updates old", run)
            found.append(run.wall / plain.wall)
    for staleness, found in ratios.items():
        rounds = f"{len(found)} {plural(len(found), 'round')}"
        print(
            f"at most {staleness} updates old: {statistics.median(found):.2f} of the synchronous "
            f"wall time ({min(found):.2f} to {max(found):.2f}, {rounds})"
        )


def report(what: str, run: Run) -> None:
    """Print what a run took."""
    print(
        f"{what}: {run.wall:.0f} s, {run.cpu:.0f} CPU s, {run.tokens:,} tokens trained", flush=True
    )


if __name__ == "__main__":
    main(sys.argv[1:])
