"""CPU seconds of an update, here and at an earlier commit, from each shipped init.

    python -m tests.benchmarks.scripts.update_cost --before COMMIT
        [--inits tiny-sokoban ...] [--rounds 2]

Both checkouts train in turn, each run in a process of its own on one thread, from that checkout's
own inits and prompts: GRPO, 64 episodes an update, no validation. An update costs what a run of
`1 + UPDATES` updates costs more than a run of one, programs in sandboxes included. A ratio is taken
within a round; printed are the medians of all rounds, the least and the greatest ratio, and how far
success, loss and gradient norm of the same updates are apart.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
INITS = ("tiny-sokoban", "tiny-tir-math", "tiny-alfworld", "tiny-webshop")
COMPARED = ("rollout/success", "policy/loss", "policy/grad_norm")


@dataclass(frozen=True, slots=True)
class Run:
    """One training run.

    Attributes:
        cpu: CPU seconds of its process and of all that it started.
        lines: The update lines of its log.
    """

    cpu: float
    lines: tuple[Mapping[str, Any], ...]


def train(checkout: Path, init: str, updates: int) -> Run:
    """Train in a process of its own, with the code and the inits of a checkout."""
    with tempfile.TemporaryDirectory() as out:
        # As that checkout spells it: the older spelling is that of one flat file.
        flat = checkout / "baselines" / "train_config.py"
        old = flat.exists() and "optimization:" not in flat.read_text("utf-8")
        part = "optimisation" if old else "optimization"
        settings = [f"{part}.updates={updates}", "validation.every=null"]
        settings += ["rollout.groups=16", "rollout.group_size=4", "checkpoint_every=1000"]
        command = [sys.executable, "-m", "benchmark.cli", "train", "--recipe", "grpo"]
        command += ["--init", init, "--scale", "tiny", "--out", f"{out}/run"]
        command += [part for setting in settings for part in ("--set", setting)]
        before = os.times()
        subprocess.run(
            command,
            check=True,
            cwd=checkout,
            env={**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        after = os.times()
        text = Path(out, "run", "training_log.jsonl").read_text("utf-8")
    lines = [json.loads(line) for line in text.splitlines()]
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return Run(cpu, tuple(line for line in lines if line["kind"] == "update"))


def cost(checkout: Path, init: str, updates: int) -> Run:
    """CPU seconds of one update, and the lines of the longer run."""
    short, long = train(checkout, init, 1), train(checkout, init, 1 + updates)
    return Run((long.cpu - short.cpu) / updates, long.lines)


def apart(one: Run, other: Run) -> str:
    """The largest relative difference of each compared number over the updates."""
    found = []
    for name in COMPARED:
        pairs = [
            (a[name], b[name])
            for a, b in zip(one.lines, other.lines, strict=True)
            if a[name] is not None and b[name] is not None
        ]
        most = max((abs(a - b) / max(abs(a), 1e-12) for a, b in pairs), default=0.0)
        found.append(f"{name} {most:.1e}")
    return ", ".join(found)


def report(init: str, before: Sequence[Run], now: Sequence[Run]) -> None:
    """Print what came out for one init."""
    ratios = sorted(b.cpu / a.cpu for a, b in zip(before, now, strict=True))
    print(
        f"{init:14} before {statistics.median(run.cpu for run in before):6.2f} s, now "
        f"{statistics.median(run.cpu for run in now):6.2f} s an update: "
        f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}); "
        f"apart by {apart(before[0], now[0])}",
        flush=True,
    )


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--before", default="HEAD~1", help="commit that is compared with")
    parser.add_argument("--inits", nargs="+", default=INITS)
    parser.add_argument("--updates", type=int, default=2, help="after the first of a run")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        earlier = Path(folder, "before")
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", earlier, options.before], check=True)
        try:
            for init in options.inits:
                pairs = []
                for round_ in range(options.rounds):
                    order = (earlier, ROOT) if round_ % 2 == 0 else (ROOT, earlier)
                    made = {path: cost(path, init, options.updates) for path in order}
                    pairs.append((made[earlier], made[ROOT]))
                report(init, [one for one, _ in pairs], [other for _, other in pairs])
        finally:
            subprocess.run([*git, "remove", "--force", earlier], check=True)


if __name__ == "__main__":
    main()
