"""Chooses the host of an episode, and spreads work over worker processes."""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any, TypeVar

from benchmark.hosts.base import EnvHost, LiveEpisode, WorkerDied
from benchmark.hosts.inline import InlineHost
from benchmark.hosts.processes import ProcessHost
from tasks.base import Task
from tasks.panels import PanelEntry

MOST_DEFAULT_PROCESSES = 32
AHEAD = 4
"""Calls for each process that are under way or done before their turn has come."""
ATTEMPTS = 2
"""Calls of a function before the death of its process is its result."""

T = TypeVar("T")


def default_processes(players: int = 1) -> int:
    """Worker processes where nobody says how many: one for each usable core, but few.

    Args:
        players: Processes of this machine that each have as many, and share its cores.
    """
    share = len(os.sched_getaffinity(0)) // players
    return max(min(share, MOST_DEFAULT_PROCESSES), 1)


class EnvPool(EnvHost):
    """Every episode where its task wants it (`TaskInfo.worker_processes`).

    Args:
        processes: Worker processes, at most; None for `default_processes(players)`.
        players: Processes of this machine that have such a pool.
    """

    def __init__(self, processes: int | None = None, players: int = 1) -> None:
        self.processes = default_processes(players) if processes is None else processes
        self._inline = InlineHost()
        self.workers = ProcessHost(self.processes)

    @property
    def used_processes(self) -> bool:
        """Whether a worker process was ever started."""
        return self.workers.used

    async def open(self, task: Task, entry: PanelEntry, max_turns: int) -> LiveEpisode:
        """Open an episode."""
        host = self.workers if task.info.worker_processes else self._inline
        return await host.open(task, entry, max_turns)

    async def __aexit__(self, *exc: object) -> None:
        """End all processes."""
        await self.workers.__aexit__(*exc)


def parallel_map(
    function: Callable[..., T],
    calls: Iterable[tuple[Task, tuple[Any, ...]]],
    processes: int | None = None,
    died: Callable[[WorkerDied], T] | None = None,
) -> Generator[T]:
    """Call `function(task, *arguments)` for every (task, arguments), and yield in order.

    Calls for tasks that want worker processes run there, in parallel; a few are ahead of what has
    been yielded. The others run here when their turn comes. For code outside of an event loop.

    Args:
        function: A function of a module.
        calls: What to call it with.
        processes: Worker processes, at most; None for `default_processes()`.
        died: What stands for a call over which its process died; None to raise it.

    Raises:
        WorldError: What the function raised in a process.
        WorkerDied: A process died over a call, and over the same call again.
    """
    host = ProcessHost(default_processes() if processes is None else processes)
    ahead = AHEAD * host.processes
    waiting: deque[Callable[[], T]] = deque()
    tasks: set[asyncio.Task[T]] = set()
    # Without `with` it makes its loop when it is first asked for one: where all calls are carried
    # out here, another loop may be running already.
    runner = asyncio.Runner()
    try:
        for task, arguments in calls:
            if task.info.worker_processes:
                call = _persistent(host, died, function, task, arguments)
                running = runner.get_loop().create_task(call)
                tasks.add(running)
                running.add_done_callback(tasks.discard)
                waiting.append(partial(_result, runner, running))
            elif waiting:
                waiting.append(partial(function, task, *arguments))
            else:
                yield function(task, *arguments)
            while len(waiting) > ahead:
                yield waiting.popleft()()
        while waiting:
            yield waiting.popleft()()
    finally:
        for running in tasks:
            running.cancel()
        if host.used:
            runner.run(host.__aexit__(None, None, None))
        runner.close()


async def _persistent(
    host: ProcessHost,
    died: Callable[[WorkerDied], T] | None,
    function: Callable[..., T],
    task: Task,
    arguments: tuple[Any, ...],
) -> T:
    for _ in range(ATTEMPTS - 1):
        try:
            return await host.run(function, task, *arguments)
        except WorkerDied:
            continue  # it may have been killed from outside
    try:
        return await host.run(function, task, *arguments)
    except WorkerDied as error:
        if died is None:
            raise
        return died(error)


def _result(runner: asyncio.Runner, running: "asyncio.Task[T]") -> T:
    async def wait() -> T:
        return await running

    return runner.run(wait())
