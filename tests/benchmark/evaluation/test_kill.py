"""A run killed at random moments and restarted equals one that was never interrupted.

Set `EVAL_KILLS=20` for 20 kills (default: 6).
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.runs.held import HELD

KILLS = int(os.environ.get("EVAL_KILLS", "6"))
REPEATS = max(2, KILLS // 3)
EPISODES = 256 * REPEATS


CLI = f"{HELD}\nfrom benchmark.cli.main import main\nsys.exit(main(sys.argv[1:]))"


def start(out: Path, limit: int = EPISODES) -> "subprocess.Popen[bytes]":
    """Start the run, which waits when it has so many records."""
    arguments = ["eval", "--engine", "random", "--task", "sokoban", "--out", str(out)]
    command = [sys.executable, "-c", CLI, str(limit), *arguments, "--repeats", str(REPEATS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def lines(out: Path) -> int:
    file = out / "episodes.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def kill_at_random(out: Path, kill: int, rng: random.Random) -> None:
    """Start the run and kill it: every third time at any moment, otherwise while it plays."""
    before = lines(out)
    # Leave the later kills something to interrupt.
    most = EPISODES - 2 * (KILLS - kill)
    target = before + rng.randrange(1, max(2, 2 * (EPISODES - before) // (KILLS - kill + 2)))
    target = min(target, most)
    anywhere = time.monotonic() + rng.uniform(0.0, 1.5) if kill % 3 == 0 else None
    process = start(out, min(target + 25, most))
    while lines(out) < target and (anywhere is None or time.monotonic() < anywhere):
        assert process.poll() is None, process.stdout and process.stdout.read()
        time.sleep(0.001)
    time.sleep(rng.random() * 0.02)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert lines(out) < EPISODES


@pytest.mark.slow
def test_kills_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    seed = time.time_ns()
    (tmp_path / "seed").write_text(str(seed))
    rng = random.Random(seed)
    out, undisturbed = tmp_path / "killed", tmp_path / "undisturbed"
    kept: dict[tuple[str, int], bytes] = {}
    for kill in range(KILLS):
        kill_at_random(out, kill, rng)
        records = out / "episodes.jsonl"
        whole = records.read_bytes().split(b"\n")[:-1] if records.exists() else []
        found = {(r["episode"], r["repeat"]): line for line in whole for r in [json.loads(line)]}
        # There are no duplicates, and everything stored before still exists.
        assert len(found) == len(whole)
        assert kept.items() <= found.items()
        kept = found
    assert kept
    for folder in (out, undisturbed):
        process = start(folder)
        output, _ = process.communicate()
        assert process.returncode == 0, output.decode()
    assert lines(out) == EPISODES
    for name in ("episodes.jsonl", "summary.json"):
        assert (out / name).read_bytes() == (undisturbed / name).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_orderly_stop_says_how_to_resume(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, 50)
    while lines(tmp_path) < 5:
        assert process.poll() is None, process.stdout and process.stdout.read()
        time.sleep(0.001)
    process.send_signal(number)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "run the same command again to resume" in output.decode()
    assert "Traceback" not in output.decode()
    # Every line is complete.
    content = (tmp_path / "episodes.jsonl").read_bytes()
    assert content.endswith(b"\n")
    assert len([json.loads(line) for line in content.splitlines()]) >= 5
    (session,) = (tmp_path / "sessions.jsonl").read_text().splitlines()
    assert json.loads(session)["ended"] == "interrupted"
