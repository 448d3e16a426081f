"""The process that runs an episode affects no result: worker processes, their faults and exit."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.records import EpisodeRecord, record_of
from benchmark.evaluation.rollout import Job, Trajectory, play
from benchmark.hosts.base import LiveEpisode, WorkerDied, WorldError
from benchmark.hosts.choose import EnvPool, default_processes, parallel_map
from benchmark.hosts.processes import ProcessHost
from tasks.base import Task
from tasks.errors import UserError
from tasks.registry import load_task
from tests.support.runs.worker_tasks import (
    MARKS,
    Broken,
    Deadly,
    InlineBroken,
    Misbehaving,
    Once,
    WorkerSokoban,
    modules,
    process_of,
    refuse,
    square,
    unreadable,
    variable,
)

TASK = load_task("sokoban")
PANEL = TASK.panel("builtin")
PROTOCOL = PanelProtocol.of(TASK, PANEL)
MOVE = "<think></think><action>up</action>"


async def records(
    task: Task, count: int, processes: int, concurrency: int, policy: str = "random"
) -> list[EpisodeRecord]:
    """Play the panel's first episodes; returns records in the panel's order."""
    kept: dict[str, EpisodeRecord] = {}

    async def keep(trajectory: Trajectory) -> None:
        kept[trajectory.job.entry.id] = record_of(trajectory)

    jobs = [Job(task, entry, 0, PROTOCOL) for entry in PANEL.entries[:count]]
    async with EnvPool(processes) as hosts:
        await play(jobs, ScriptedEngine(policy), concurrency, keep, hosts)
        assert hosts.used_processes == task.info.worker_processes
    return [kept[job.entry.id] for job in jobs]


async def opened(host: ProcessHost, number: int = 0) -> LiveEpisode:
    return await host.open(Misbehaving(), PANEL.entries[number], 15)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def wait_until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["expert", "random"])
async def test_records_do_not_depend_on_where_episodes_live(policy: str) -> None:
    inline = await records(TASK, 128, 1, 16, policy)
    for processes, concurrency in ((1, 1), (1, 128), (2, 7), (3, 64)):
        assert await records(WorkerSokoban(), 128, processes, concurrency, policy) == inline


async def test_a_worker_imports_the_tasks_and_little_else() -> None:
    async with ProcessHost(1) as host:
        await host.open(WorkerSokoban(), PANEL.entries[0], 15)
        imported = set(await host.run(modules, WorkerSokoban()))
    heavy = {"torch", "vllm", "transformers", "pydantic", "numpy", "rich", "asyncio", "pytest"}
    assert not heavy & imported
    ours = {name for name in imported if name.startswith(("benchmark", "baselines"))}
    assert ours == {"benchmark", "benchmark.api", "benchmark.hosts", "benchmark.hosts.worker"}


@pytest.mark.slow
async def test_processes_are_started_when_they_are_needed_and_no_more() -> None:
    async with ProcessHost(3) as host:
        assert not host.used
        task = WorkerSokoban()
        # Sequential calls use a single process.
        first = [await host.run(process_of, task) for _ in range(3)]
        assert len(set(first)) == 1
        pids = await asyncio.gather(*(host.run(process_of, task, 0.1) for _ in range(9)))
        assert len(set(pids)) == 3
        assert sorted(pids.count(pid) for pid in set(pids)) == [3, 3, 3]
    assert not any(map(alive, pids))


async def test_an_unused_host_starts_nothing() -> None:
    async with EnvPool(2) as hosts:
        await hosts.open(TASK, PANEL.entries[0], 15)
        assert not hosts.used_processes


async def test_workers_get_the_environment_as_it_is_when_they_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_DATA", "/some/folder")
    async with ProcessHost(1) as host:
        assert await host.run(variable, WorkerSokoban(), "SOME_DATA") == "/some/folder"


@pytest.mark.slow
async def test_what_a_world_raises_is_recorded_as_if_it_lived_here() -> None:
    expected = await records(InlineBroken(), 8, 1, 4)
    assert await records(Broken(), 8, 2, 4) == expected
    assert [record.error for record in expected[:4]] == [
        "OSError: corrupt game file",
        "KeyError: 'room'",
        "ZeroDivisionError: world",
        None,
    ]
    assert expected[0].observation_hash is None
    assert len(expected[2].turns) == 1


async def test_an_episode_that_cannot_be_closed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with ProcessHost(1) as host:
        episode = await host.open(Broken(), PANEL.entries[3], 15)
        episode.close()
        await host.run(process_of, Broken())
    assert "an episode could not be closed: BrokenPipeError: no end" in caplog.text


async def test_errors_of_all_kinds() -> None:
    async with ProcessHost(1) as host:
        episode = await opened(host)
        with pytest.raises(WorldError, match=r"^RuntimeError: the episode is not running"):
            await episode.step(MOVE)
        await episode.reset()
        with pytest.raises(WorldError, match=r"^ZeroDivisionError: \ud800 \x00") as raised:
            await episode.step("raise \ud800 \x00")
        assert "worker_tasks.py" in raised.value.__notes__[0]
        with pytest.raises(WorldError, match="^SystemExit: bye"):
            await episode.step("sys.exit")
        with pytest.raises(UserError, match="^fetch the data$"):
            await episode.step("mistake fetch the data")
        with pytest.raises(WorldError, match="pickle"):
            await episode.step("unpicklable")
        # It continues after all of these errors.
        assert (await episode.step(MOVE)).format_ok

        class Local(WorkerSokoban):
            """A local class, which no worker can import."""

        with pytest.raises((AttributeError, WorldError), match="Local"):
            await host.open(Local(), PANEL.entries[0], 15)


async def test_a_call_that_cannot_be_sent_takes_no_other_call_s_answer() -> None:
    async with ProcessHost(1) as host:
        with pytest.raises(AttributeError, match="pickle"):
            await host.run(lambda task: None, TASK)
        assert await asyncio.wait_for(host.run(square, TASK, 7), 120) == 49


async def test_what_libraries_print_does_not_disturb(capfd: pytest.CaptureFixture[str]) -> None:
    async with ProcessHost(1) as host:
        episode = await opened(host)
        await episode.reset()
        assert not (await episode.step("print hello")).format_ok
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
async def test_long_messages_in_both_directions_at_once(tmp_path: Path) -> None:
    """More than a socket holds, from many episodes while the worker is busy."""
    text, go = "x" * 300_000, tmp_path / "go"
    async with ProcessHost(1) as host:
        episodes = [await opened(host, number) for number in range(16)]
        for episode in episodes:
            await episode.reset()
        busy = asyncio.create_task(episodes[0].step(f"wait {go}"))
        await asyncio.sleep(0)
        answer = f"<think>{text}</think><action>{text}</action>"
        steps = [asyncio.create_task(episode.step(answer)) for episode in episodes[1:]]
        await asyncio.sleep(0.01)
        # All are sent, nobody has read them, and the event loop goes on.
        assert not busy.done() and not any(step.done() for step in steps)
        go.touch()
        for step in await asyncio.gather(*steps):
            assert step.format_ok
        await busy


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "how"),
    [
        ("exit 3", "ended with exit code 3"),
        ("exit 0", "ended with exit code 0"),
        ("abort", r"was killed by signal 6 \(SIGABRT\)"),
    ],
)
async def test_a_worker_that_dies_says_how(order: str, how: str) -> None:
    async with ProcessHost(1) as host:
        episode = await opened(host)
        await episode.reset()
        with pytest.raises(WorkerDied, match=f"^the worker process of this episode {how}$"):
            await episode.step(order)
        episode.close()
        # A new process handles later calls.
        another = await opened(host)
        await another.reset()
        assert (await another.step(MOVE)).action_ok


async def test_the_others_of_a_dead_worker_go_on_where_they_were() -> None:
    async with ProcessHost(1) as host:
        alone = await opened(host, 1)
        views = [await alone.reset()]
        responses = [await alone.scripted("expert", 0) for _ in range(3)]
        steps = [await alone.step(response) for response in responses]
        expected = await alone.scripted("expert", 0), await alone.step(MOVE)

        bystander, culprit, waiting = [await opened(host, number) for number in (1, 2, 3)]
        assert await bystander.reset() == views[0]
        await culprit.reset()
        assert [await bystander.scripted("expert", 0) for _ in range(3)] == responses
        assert [await bystander.step(response) for response in responses] == steps
        death = asyncio.create_task(culprit.step("exit 1"))
        behind = asyncio.create_task(waiting.reset())
        with pytest.raises(WorkerDied):
            await death
        assert (await behind).admissible
        # Even the scripted player's memory is restored.
        assert await bystander.scripted("expert", 0) == expected[0]
        assert "<!-- 4 -->" in expected[0]
        assert await bystander.step(MOVE) == expected[1]


@pytest.mark.slow
async def test_an_episode_that_kills_its_worker_fails_alone() -> None:
    inline = await records(TASK, 64, 1, 1)
    for processes, concurrency in ((1, 1), (1, 64), (2, 16)):
        played = await records(Deadly(), 64, processes, concurrency)
        dead = played[1]
        assert dead.error is not None
        assert "was killed by signal 9 (SIGKILL)" in dead.error
        assert dead.error.startswith("WorkerDied: ")
        assert not dead.success
        assert dead.turns == inline[1].turns[:2]
        assert played[:1] + played[2:] == inline[:1] + inline[2:]


@pytest.mark.slow
async def test_workers_that_are_killed_once_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARKS, str(tmp_path))
    assert await records(Once(), 100, 2, 32) == await records(TASK, 100, 1, 1)
    assert len(os.listdir(tmp_path)) == 10  # noqa: PTH208


async def test_workers_leave_signals_to_their_parent() -> None:
    async with ProcessHost(1) as host:
        task = WorkerSokoban()
        pid = await host.run(process_of, task)
        assert os.getpgid(pid) != os.getpgid(0)
        os.kill(pid, signal.SIGINT)
        os.kill(pid, signal.SIGTERM)
        assert await host.run(process_of, task) == pid


@pytest.mark.slow
async def test_a_worker_that_does_not_end_is_ended() -> None:
    async with ProcessHost(1) as host:
        pid = await host.run(process_of, WorkerSokoban())
        episode = await opened(host)
        await episode.reset()
        spinning = asyncio.create_task(episode.step("spin"))
        await asyncio.sleep(0.05)
        spinning.cancel()
        episode.close()
    assert not alive(pid)


async def test_workers_that_cannot_start_are_one_message(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", ["/no/such/folder", *sys.path[1:2]])
    with pytest.raises(UserError, match="a worker process ended with exit code 1 before it could"):
        await records(WorkerSokoban(), 3, 1, 3)
    assert "Error" in capfd.readouterr().err


async def test_a_closed_host_starts_nothing() -> None:
    async with ProcessHost(1) as host:
        episode = await opened(host)
    with pytest.raises(RuntimeError, match="closed"):
        await episode.reset()


def test_processes_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = {(4, 1): 4, (256, 1): 32, (64, 8): 8, (256, 4): 32, (2, 8): 1}
    for (cores, players), share in shares.items():
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, cores=cores: set(range(cores)))
        assert default_processes(players) == EnvPool(None, players).processes == share
        assert EnvPool(5, players).processes == 5
    with pytest.raises(ValueError, match="at least one process"):
        ProcessHost(0)


@pytest.mark.slow
def test_spread_work_keeps_its_order() -> None:
    tasks: list[Task] = [WorkerSokoban(), TASK]
    numbers = [number for number in range(60) if number != 13]
    calls = ((tasks[number % 3 == 0], (number,)) for number in numbers)
    assert list(parallel_map(square, calls, 3)) == [number**2 for number in numbers]


def test_spread_work_is_only_a_little_ahead() -> None:
    asked = []

    def calls() -> object:
        for number in range(1000):
            asked.append(number)
            yield WorkerSokoban(), (number,)

    results = parallel_map(refuse, calls(), 2)  # type: ignore[arg-type]
    assert next(results) == 0
    results.close()
    assert len(asked) <= 10


async def test_an_answer_that_cannot_be_read_holds_nobody_up() -> None:
    async with ProcessHost(1) as host:
        with pytest.raises(WorldError, match="the answer cannot be read: TypeError: .*'two'"):
            await asyncio.wait_for(host.run(unreadable, WorkerSokoban()), 120)
        assert await asyncio.wait_for(host.run(square, WorkerSokoban(), 3), 120) == 9


@pytest.mark.slow
def test_spread_work_that_kills_its_process() -> None:
    calls = [(WorkerSokoban(), (number,)) for number in range(10, 16)]
    with pytest.raises(WorkerDied, match="exit code 1"):
        list(parallel_map(square, calls, 2))
    results = list(parallel_map(square, calls, 2, lambda error: -1))
    assert results == [100, 121, 144, -1, 196, 225]


def test_spread_work_that_fails() -> None:
    calls = [(WorkerSokoban(), (number,)) for number in range(10)]
    results = parallel_map(refuse, calls, 2)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(WorldError, match="^ValueError: five"):
        next(results)
