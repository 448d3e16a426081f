"""Time for the stability of many training logs: `python -m tests.benchmarks.stability_speed`.

One process, CPU time, one log after another: it is read from the disk with every check, made into
curves, and those into the numbers of the run. The numbers of recipes of five seeds, with their
bootstrap intervals, come on top. As in real logs of runs on a CPU, all metrics but five have a
number in every line; here each with all its digits.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmark.logs.curves import run_curves_of
from benchmark.logs.metrics import METRICS
from benchmark.logs.training_log import read_training_log
from benchmark.stability.runs import run_stability
from benchmark.stability.seeds import recipe_stability
from tests.support.training_logs import start_line, update_line, validation_line

SEEDS = 5
EVERY = 10
NULL = {"critic/loss", "critic/explained_variance", "seconds/checkpoint", "memory/gpu_gib"}
PARTS = ("reading and checking", "curves", "numbers of the runs")


def write_log(path: Path, seed: int, lines: int) -> None:
    """A run that learns, with a validation every ten updates, of so many lines."""
    rng = random.Random(seed)
    content: list[dict[str, Any]] = [start_line(seed=seed), validation_line(0, solved=100)]
    update = 0
    while len(content) < lines:
        update += 1
        values: dict[str, float | None] = {
            name: rng.randrange(1000) if metric.unit == "count" else rng.random()
            for name, metric in METRICS.items()
        }
        values |= dict.fromkeys(NULL) | (
            {} if update % EVERY == 0 else {"seconds/validation": None}
        )
        content.append(update_line(update, values))
        if update % EVERY == 0 and len(content) < lines:
            solved = min(256, 100 + update // 8 + rng.randrange(20))
            content.append(validation_line(update, solved=solved))
    texts = (json.dumps(line, separators=(",", ":")) + "\n" for line in content)
    path.write_text("".join(texts), "utf-8")


def measure(paths: list[Path]) -> dict[str, float]:
    """CPU seconds of each part, over all logs."""
    totals = dict.fromkeys(PARTS, 0.0)
    runs = []
    for path in paths:
        times = [time.process_time()]
        log = read_training_log(path)
        times.append(time.process_time())
        run = run_curves_of(log)
        times.append(time.process_time())
        run_stability(run)
        times.append(time.process_time())
        runs.append(run)
        for part, (began, ended) in zip(PARTS, pairwise(times), strict=True):
            totals[part] += ended - began
    began = time.process_time()
    for at in range(0, len(runs), SEEDS):
        recipe_stability(runs[at : at + SEEDS])
    recipes = time.process_time() - began
    return totals | {"together": sum(totals.values()), "recipes of five seeds": recipes}


def json_alone(paths: list[Path]) -> float:
    """CPU seconds of the standard library's parser, which checks no schema."""
    began = time.process_time()
    for path in paths:
        for line in path.read_bytes().splitlines():
            json.loads(line)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{seed}.jsonl" for seed in range(arguments.logs)]
        for seed, path in enumerate(paths):
            write_log(path, seed, arguments.lines)
        size = sum(path.stat().st_size for path in paths)
        rounds = [measure(paths) for _ in range(arguments.repeats)]
        floor = json_alone(paths)
    print(f"{len(paths)} logs of {arguments.lines} lines, {size / 2**20:.0f} MiB; CPU seconds")
    for part in rounds[0]:
        print(f"{part:26} {statistics.median(times[part] for times in rounds):6.2f}")
    print(f"{'json.loads, for scale':26} {floor:6.2f}")


if __name__ == "__main__":
    main()
