"""Episodes in worker processes."""

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any, Final, TypeVar

from benchmark.hosts.base import EnvHost, LiveEpisode, WorkerDied
from benchmark.hosts.process import WorkerLost, WorkerProcess
from benchmark.hosts.worker import Act, Action, Close, FunctionCall, Open
from tasks.base import Task
from tasks.episode import Step, View
from tasks.panels import PanelEntry

T = TypeVar("T")

MOST_FAILED_STARTS: Final = 10
"""Workers that may die in a row before they have started, where others have: memory may be short
for a moment."""

log = logging.getLogger(__name__)


class WorkerEpisode(LiveEpisode):
    """An episode of a worker process; it stays there for as long as the process lives.

    If the process dies over another episode, this one is brought to where it was in another
    process, by doing again what it has done: worlds are deterministic. So it is not worse off for
    the company that it happened to be in.
    """

    def __init__(self, host: "ProcessHost", task: Task, entry: PanelEntry, max_turns: int) -> None:
        self._host = host
        self._what = task, entry, max_turns
        self._past: list[Action] = []
        self._worker: WorkerProcess | None = None
        self._number = -1

    async def open(self) -> None:
        """Open the episode in the least loaded process."""
        while True:
            self._leave()
            self._worker = self._host.least_loaded()
            self._worker.load += 1
            self._number = self._host.next_number()
            try:
                await self._worker.ask(Open(self._number, *self._what, tuple(self._past)))
                return
            except WorkerLost:
                continue

    async def reset(self) -> View:
        """Ask the process."""
        view: View = await self._ask("reset")
        return view

    async def step(self, response: str) -> Step:
        """Ask the process."""
        step: Step = await self._ask("step", response)
        return step

    async def scripted(self, policy: str, seed: int) -> str:
        """Ask the process."""
        text: str = await self._ask("scripted", policy, seed)
        return text

    def close(self) -> None:
        """Tell the process; what goes wrong there is logged."""
        worker = self._worker
        if worker is not None and not worker.dead:
            worker.ask(Close(self._number)).add_done_callback(_log_failed_close)
        self._leave()

    async def _ask(self, verb: str, *arguments: Any) -> Any:
        action = verb, arguments
        while True:
            assert self._worker is not None, "the episode is not open"
            try:
                answer = await self._worker.ask(Act(self._number, action))
            except WorkerLost:
                await self.open()
                continue
            self._past.append(action)
            return answer

    def _leave(self) -> None:
        if self._worker is not None:
            self._worker.load -= 1
            self._worker = None


def _log_failed_close(closing: "asyncio.Future[Any]") -> None:
    error = None if closing.cancelled() else closing.exception()
    if error is not None and not isinstance(error, WorkerLost | WorkerDied):
        log.error("an episode could not be closed: %s", error)


class ProcessHost(EnvHost):
    """Episodes of worker processes, which are started when they are first needed.

    Args:
        processes: How many, at most.
    """

    def __init__(self, processes: int) -> None:
        if processes < 1:
            raise ValueError(f"there must be at least one process, not {processes}")
        self.processes = processes
        self._workers: list[WorkerProcess] = []
        self._numbers = itertools.count()
        self._starting: list[WorkerProcess] = []
        self._retries = 0
        self._closed = False
        self.used = False
        """Whether a process was ever started."""

    async def open(self, task: Task, entry: PanelEntry, max_turns: int) -> LiveEpisode:
        """Open an episode in the process with the fewest open ones."""
        episode = WorkerEpisode(self, task, entry, max_turns)
        try:
            await episode.open()
        except BaseException:
            episode.close()
            raise
        return episode

    async def run(self, function: Callable[..., T], task: Task, *arguments: Any) -> T:
        """Call `function(task, *arguments)` in a process; the function must be a module's own.

        Raises:
            WorldError: What the function raised.
            WorkerDied: The process died over this call.
        """
        while True:
            worker = self.least_loaded()
            worker.load += 1
            try:
                value: T = await worker.ask(FunctionCall(function, task, arguments))
                return value
            except WorkerLost:
                continue
            finally:
                worker.load -= 1

    def least_loaded(self) -> WorkerProcess:
        """The process with the least to do; a new one before any has two things to do."""
        if self._closed:
            raise RuntimeError("the host was closed")
        self._count_starts()
        self._workers = [worker for worker in self._workers if not worker.dead]
        if self._workers:
            chosen = min(self._workers, key=lambda worker: worker.load)
            if not chosen.load or len(self._workers) == self.processes:
                return chosen
        worker = WorkerProcess(start_is_retried=self._retries > 0)
        self._workers.append(worker)
        self._starting.append(worker)
        self.used = True
        return worker

    def _count_starts(self) -> None:
        """Count how many more workers may die before they have started; none before one has."""
        for worker in self._starting:
            if worker.ready:
                self._retries = MOST_FAILED_STARTS
            elif worker.dead:
                self._retries -= 1
        self._starting = [each for each in self._starting if not (each.ready or each.dead)]

    def next_number(self) -> int:
        """A number that no other episode of this host has."""
        return next(self._numbers)

    async def __aexit__(self, *_: object) -> None:
        """End all processes."""
        self._closed = True
        await asyncio.gather(*(worker.stop() for worker in self._workers))
