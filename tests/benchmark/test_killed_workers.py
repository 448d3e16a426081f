"""Workers that are killed from outside, and workers whose parent is."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from benchmark.hosts import process
from benchmark.hosts.processes import MOST_FAILED_STARTS, ProcessHost
from tasks.errors import UserError
from tests.benchmark.test_hosts import MOVE, PANEL, alive, wait_until
from tests.support.runs.worker_tasks import WorkerSokoban, process_of, square


async def killed(*pids: int) -> None:
    """Kill workers, and go on when their parent knows: it reaps them."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(120):
        while any(map(psutil.pid_exists, pids)):
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_a_worker_killed_from_outside_is_replaced() -> None:
    async with ProcessHost(2) as host:
        task = WorkerSokoban()
        pids = await asyncio.gather(*(host.run(process_of, task, 0.05) for _ in range(2)))
        episode = await host.open(task, PANEL.entries[0], 15)
        view = await episode.reset()
        await killed(*pids)
        assert (await episode.step(MOVE)).view.messages != view.messages
        again = await asyncio.gather(*(host.run(process_of, task, 0.05) for _ in range(2)))
        assert not set(again) & set(pids)


@pytest.mark.slow
async def test_a_worker_that_dies_as_it_starts_is_replaced_where_others_have_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where memory is short: it died over no episode."""
    async with ProcessHost(1) as host:
        task, mark = WorkerSokoban(), tmp_path / "mark"
        await killed(await host.run(process_of, task))
        once = f"import os, pathlib; mark = pathlib.Path({str(mark)!r})\n"
        once += "if not mark.exists(): mark.touch(); os._exit(7)\n"
        monkeypatch.setattr(process, "_START", once + process._START)
        assert await host.run(square, task, 7) == 49
        assert mark.exists()


@pytest.mark.slow
async def test_workers_that_all_die_as_they_start_end_the_run_where_others_have_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ProcessHost(1) as host:
        task = WorkerSokoban()
        await killed(await host.run(process_of, task))
        counts = (
            f"import os; os.close(os.open({str(tmp_path)!r} + f'/{{os.getpid()}}', os.O_CREAT))\n"
        )
        monkeypatch.setattr(process, "_START", f"{counts}os._exit(7)")
        with pytest.raises(UserError, match="ended with exit code 7 before it could start"):
            await host.run(square, task, 7)
        assert len(os.listdir(tmp_path)) == MOST_FAILED_STARTS + 1  # noqa: PTH208


PARENT = """
import asyncio, signal, sys
from benchmark.hosts.processes import ProcessHost
from tests.support.runs.worker_tasks import Misbehaving, WorkerSokoban, process_of

# A shell that runs the tests in the background has it ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

async def main():
    async with ProcessHost(2) as host:
        task = WorkerSokoban()
        pids = await asyncio.gather(*(host.run(process_of, task, 0.05) for _ in range(2)))
        entry = task.panel("builtin").entries[0]
        episode = await host.open(Misbehaving(), entry, 15)
        await episode.reset()
        step = asyncio.ensure_future(episode.step(sys.argv[1]))
        await asyncio.sleep(0.1)
        print(*pids, flush=True)
        await asyncio.sleep(60)

try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", [MOVE, "spin"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_its_parent(order: str, number: signal.Signals) -> None:
    """Idle or in the middle of a call, and whether or not the parent can say so."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, order], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2
    assert all(map(alive, pids))
    parent.send_signal(number)
    _, errors = parent.communicate(timeout=120)
    assert parent.returncode == (130 if number == signal.SIGINT else -number)
    wait_until(lambda: not any(map(alive, pids)))
    assert errors == b""
