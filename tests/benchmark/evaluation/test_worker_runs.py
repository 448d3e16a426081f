"""Commands with episodes in worker processes write the same files as with inline episodes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from baselines.cloning.demonstrations import demonstrate
from benchmark.cli.main import main
from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.evaluation.records import EpisodeRecord, record_of
from benchmark.evaluation.replay import replay_run
from benchmark.evaluation.rollout import Trajectory, play
from benchmark.evaluation.run_folder import RECORDS, read_run
from benchmark.hosts.processes import ProcessHost
from benchmark.task_checks.validate import validate
from tasks.panels import PanelInfo
from tasks.registry import load_task
from tasks.sokoban.task import SokobanTask
from tests.benchmark.evaluation.test_run_folder import PLAN
from tests.benchmark.test_hosts import alive, wait_until
from tests.support.runs.held import HELD
from tests.support.runs.worker_tasks import Misbehaving, WorkerSokoban

pytestmark = pytest.mark.slow

COMPARED = (RECORDS, "summary.json")

CLI = f"""{HELD}
import dataclasses
from tasks.sokoban.task import SokobanTask
SokobanTask.info = dataclasses.replace(SokobanTask.info, worker_processes=True)
from benchmark.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The command line, with Sokoban in worker processes; its first argument is for `HELD`."""


@pytest.fixture
def _in_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run Sokoban's episodes in worker processes."""
    monkeypatch.setattr(SokobanTask, "info", replace(SokobanTask.info, worker_processes=True))


@pytest.fixture(scope="module")
def inline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the random policy with episodes in this process."""
    path: Path = tmp_path_factory.mktemp("inline")
    assert evaluate(path) == 0
    return path


def evaluate(out: Path, *options: str) -> int:
    return main(
        ["eval", "--engine", "random", "--task", "sokoban/builtin", "--out", str(out), *options]
    )


def started_processes(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


@pytest.mark.usefixtures("_in_workers")
def test_a_run_is_byte_identical(inline: Path, tmp_path: Path) -> None:
    """`test_hosts.py` covers other numbers of processes."""
    assert evaluate(tmp_path, "--env-processes", "3", "--concurrency", "64") == 0
    for name in COMPARED:
        assert (tmp_path / name).read_bytes() == (inline / name).read_bytes()
    (here,) = (json.loads(line) for line in (inline / "sessions.jsonl").read_text().splitlines())
    (there,) = (json.loads(line) for line in (tmp_path / "sessions.jsonl").read_text().splitlines())
    assert (here["env_processes"], there["env_processes"]) == (None, 3)
    fingerprints = [json.loads((p / "run.json").read_text()) for p in (inline, tmp_path)]
    assert fingerprints[0]["panels"] == fingerprints[1]["panels"]
    # Its report replays the episodes that it shows in these processes.
    for run in (inline, tmp_path):
        assert "256 episodes replayed, none with differences" in " ".join(
            (run / "report.html").read_text().split()
        )


def test_replays_are_the_same_in_workers(
    inline: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, records = read_run(inline)
    changed: list[EpisodeRecord] = []
    for number, record in enumerate(records):
        document = json.loads(record.model_dump_json())
        if number % 5 == 0:
            document["turns"][1]["reward"] += 1
        if number % 7 == 0:
            document["turns"].pop()
        if number % 11 == 0:
            document["observation_hash"] = None
        if number % 13 == 0:
            document["error"] = "EngineError: x"
        changed.append(EpisodeRecord.model_validate_json(json.dumps(document)))
    expected = list(replay_run(run, changed))
    monkeypatch.setattr(SokobanTask, "info", replace(SokobanTask.info, worker_processes=True))
    for processes in (1, 3):
        assert list(replay_run(run, iter(changed), processes)) == expected
    assert sum(bool(replay.differences) for replay in expected) == sum(
        not (number % 5 and number % 7 and number % 11 and number % 13) for number in range(256)
    )


def test_what_a_tampered_response_makes_a_world_do_is_a_difference(
    inline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, records = read_run(inline)
    orders = ["exit 4", "raise oh", "nan", "sys.exit", "mistake of the user's"]
    changed = []
    for record, order in zip(records, orders, strict=False):
        turns = list(record.turns)
        turns[2] = turns[2].model_copy(update={"response": order})
        changed.append(record.model_copy(update={"turns": tuple(turns)}))
    monkeypatch.setattr("benchmark.evaluation.replay.load_task", lambda name: Misbehaving())
    replays = list(replay_run(run, [*changed, records[5]], 2))
    found = [str(replay.differences[0]) for replay in replays[:5]]
    died = "WorkerDied: the worker process of this episode ended with exit code 4"
    assert found == [
        f"turn 1, error: recorded None, replayed '{died}'",
        "turn 3, error: recorded None, replayed 'ZeroDivisionError: oh'",
        *found[2:3],
        "turn 3, error: recorded None, replayed 'SystemExit: bye'",
        'turn 3, error: recorded None, replayed "UserError: of the user\'s"',
    ]
    assert any("not JSON: Out of range float" in str(d) for d in replays[2].differences)
    assert not replays[5].differences


@pytest.mark.usefixtures("_in_workers")
def test_validation_holds_in_workers() -> None:
    checks = list(validate(load_task("sokoban"), "builtin", 30, 2))
    assert all(check.ok for check in checks), checks
    assert len(checks) == 26


@pytest.mark.usefixtures("_in_workers")
def test_demonstrations_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    there = demonstrate(load_task("sokoban"), 40, 7, 2)
    monkeypatch.setattr(SokobanTask, "info", replace(SokobanTask.info, worker_processes=False))
    assert there == demonstrate(load_task("sokoban"), 40, 7)


def test_what_is_not_pinned_is_measured_and_said() -> None:
    class Unpinned(SokobanTask):
        def panels(self) -> Mapping[str, PanelInfo]:
            nothing: dict[str, Any] = dict.fromkeys(
                ("random_success", "expert_success", "trace_sha256")
            )
            return {k: replace(v, **nothing) for k, v in super().panels().items()}

    task = Unpinned()
    pinned = SokobanTask().panels()["builtin"]
    panel = replace(SokobanTask().panel("builtin"), info=task.panels()["builtin"])
    task.panel = lambda name: panel  # type: ignore[method-assign]
    checks = {check.name: check for check in validate(task, "builtin", 30)}
    assert all(check.ok for check in checks.values())
    assert checks["expert wins"].detail == "100.0%, not pinned"
    assert checks["random policy stays in its band"].detail.endswith("%, not pinned")
    assert pinned.trace_sha256 is not None
    trace = checks["texts, rewards and outcomes match this version"].detail
    assert trace == f"trace {pinned.trace_sha256[:12]}..., not pinned"


@pytest.mark.parametrize(
    ("number", "whole_group"),
    [
        (signal.SIGINT, True),
        (signal.SIGINT, False),
        (signal.SIGTERM, False),
        (signal.SIGKILL, False),
    ],
)
def test_a_stopped_run_leaves_no_process_and_goes_on(
    inline: Path, tmp_path: Path, number: signal.Signals, whole_group: bool
) -> None:
    out = tmp_path / "run"
    arguments = ["eval", "--engine", "random", "--task", "sokoban/builtin", "--out", str(out)]
    processes = ["--env-processes", "2"]
    process = subprocess.Popen(
        [sys.executable, "-c", CLI, "100", *arguments, *processes, "--concurrency", "8"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    records = out / RECORDS
    wait_until(lambda: records.exists() and records.read_bytes().count(b"\n") > 20)
    workers = started_processes(process.pid)
    assert len(workers) == 2
    if whole_group:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.send_signal(number)
    output = process.communicate(timeout=120)[0].decode()
    wait_until(lambda: not any(map(alive, workers)))
    assert "Traceback" not in output
    if number == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130
        assert "run the same command again to resume" in output
    kept = [json.loads(line) for line in records.read_bytes().splitlines(keepends=True)[:-1]]
    assert not any(record["error"] for record in kept)
    assert evaluate(out) == 0
    assert records.read_bytes() == (inline / RECORDS).read_bytes()


async def test_a_host_that_stays_serves_many_calls_of_play() -> None:
    """As in training, where processes outlive an update."""
    kept: list[EpisodeRecord] = []

    async def keep(trajectory: Trajectory) -> None:
        kept.append(record_of(trajectory))

    jobs = [replace(job, task=WorkerSokoban()) for job in PLAN.jobs()[:16]]
    async with ProcessHost(2) as host:
        for _ in range(3):
            await play(jobs, ScriptedEngine("random"), 8, keep, host)
    assert len({record.model_dump_json() for record in kept}) == 16
    assert len(kept) == 48
