"""Time of replays and checks: `python -m tests.benchmarks.submit_speed [--processes 2]`.

The expert plays, a submission is made of its runs, and what CI does with it is timed: the replay
of the 256 episodes of sokoban/builtin (wanted: under 2 s), and the whole check of a submission over
all built-in panels (wanted: under 60 s on two cores). Best of the repeats, as a busy machine only
adds time; the processor time is that of all processes.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmark.evaluation.evaluate import Plan
from benchmark.evaluation.replay import replay_run
from benchmark.evaluation.run_folder import read_run
from benchmark.submissions.check import check_submission
from benchmark.submissions.checks.context import Context
from tasks.registry import task_names
from tests.support.submissions import PLAN, play_policy, policy_submission


def main() -> None:
    """Play, then time."""
    parser = argparse.ArgumentParser(description="Time replays and checks of submissions.")
    parser.add_argument("--processes", type=int, default=2, help="worker processes")
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    everything = Plan.of([(task, "builtin") for task in task_names()])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        run = play_policy(root / "one", "expert", PLAN)
        print("sokoban/builtin, replay of 256 episodes:", end=" ", flush=True)
        print(best(lambda: replay(run, arguments.processes), arguments.repeats))
        began = time.perf_counter()
        run = play_policy(root / "all", "expert", everything)
        print(f"(the expert plays all built-in panels in {time.perf_counter() - began:.1f} s)")
        submission = policy_submission(root, run)
        print("all built-in panels, whole check:", end=" ", flush=True)
        print(best(lambda: check(submission, arguments.processes), arguments.repeats))


def replay(run: Path, processes: int) -> None:
    """Replay a run that holds."""
    manifest, records = read_run(run)
    assert not any(replay.differences for replay in replay_run(manifest, records, processes))


def check(folder: Path, processes: int) -> None:
    """Check a submission that is accepted."""
    verdict = check_submission(folder, Context({}, env_processes=processes))
    assert verdict.accepted, verdict.findings


def best(call: Callable[[], None], repeats: int) -> str:
    """Seconds of a call: on the clock, and of processor time, worker processes included."""
    times = []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), sum(os.times()[:4])
        call()
        times.append((time.perf_counter() - wall, sum(os.times()[:4]) - cpu))
    wall, cpu = min(times)
    return f"{wall:.2f} s ({cpu:.2f} s of CPU)"


if __name__ == "__main__":
    main()
