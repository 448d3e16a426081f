"""Decides which processes play: all of them, each with its own engine, or only the main one."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Never, TypeVar

from accelerate import Accelerator
from accelerate.utils import gather_object

from benchmark.engines.core.base import Engine, EngineDown, Request

Item = TypeVar("Item")
Count = Callable[[int, int], None]
"""Called with the finished and the total episodes of this process's share."""


def no_progress(done: int, total: int) -> None:
    """Ignore progress."""
    del done, total


class Stopped(Exception):
    """A process was asked to stop; all processes raise this at the same point."""


class EngineLost(EngineDown):
    """The engine of a process is down; all processes raise this at the same point."""


class ProcessShards:
    """Splits episodes over processes, and shares what was played with all of them.

    Args:
        accelerator: The processes; every one must create this object.
        engine: This process's engine; None if the main process's engine serves all.

    Attributes:
        engine: The engine; without one, a placeholder that must not be called.
        main_alone: The main process's engine serves all.
        stopping: Set when this process is asked to stop.
    """

    def __init__(self, accelerator: Accelerator, engine: Engine | None) -> None:
        self._accelerator = accelerator
        self.engine = engine or _Elsewhere()
        self.stopping = asyncio.Event()
        self.main_alone = False
        if accelerator.num_processes > 1:
            self.main_alone = any(gather_object([engine is None]))

    @property
    def count(self) -> int:
        """Number of processes that play."""
        return 1 if self.main_alone else self._accelerator.num_processes

    @property
    def here(self) -> int:
        """Number of them on this machine, according to torch's launcher."""
        return 1 if self.main_alone else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

    def mine(self, items: Sequence[Item]) -> Sequence[Item]:
        """This process's share."""
        if self.main_alone:
            return items if self._accelerator.is_main_process else items[:0]
        return items[self._accelerator.process_index :: self._accelerator.num_processes]

    async def unless_stopped(self, awaited: Awaitable[Item]) -> Item | None:
        """Wait for a result; return None immediately if this process has to stop."""
        mine, asked = asyncio.ensure_future(awaited), asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait((mine, asked), return_when=asyncio.FIRST_COMPLETED)
            return None if self.stopping.is_set() else await mine
        finally:
            for task in (mine, asked):
                task.cancel()
            await asyncio.wait((mine, asked))

    async def together_unless_stopped(self, playing: Awaitable[list[Item]]) -> list[Item]:
        """Gather what all processes played; drop episodes in flight when one has to stop.

        Raises:
            EngineLost: The engine of a process is down.
            Stopped: A process was asked to stop, before or during the rollout.
        """
        shares = await self.with_engines(self.unless_stopped(playing))
        if any(share is None for share in shares):
            raise Stopped
        return [item for share in shares if share is not None for item in share]

    async def with_engines(self, mine: Awaitable[Item]) -> list[Item]:
        """Gather what the engines of all processes answer.

        Raises:
            EngineLost: The engine of a process is down.
            Stopped: Likewise, after a process was asked to stop: a scheduler's signal also reaches
                the servers.
        """
        answer: Item | EngineDown
        try:
            answer = await mine
        except EngineDown as error:
            answer = error
        answers: list[Item] = []
        down: EngineDown | None = None
        asked = False
        for one, asked_there in self.together([(answer, self.stopping.is_set())]):
            asked = asked or asked_there
            if isinstance(one, EngineDown):
                down = down or one
            else:
                answers.append(one)
        if down is not None:
            raise Stopped if asked else EngineLost(*down.args) from down
        return answers

    def together(self, mine: list[Item]) -> list[Item]:
        """Gather the items of all processes; waits for the slowest."""
        if self._accelerator.num_processes == 1:
            return mine
        whole: list[Item] = gather_object(mine)
        return whole


class _Elsewhere(Engine):
    """Placeholder for a process without an engine; weights go to the main process's engine."""

    name = "elsewhere"

    async def generate(self, request: Request) -> Never:
        del request
        raise RuntimeError("this process has no engine: the main one plays for all")

    async def load_weights(self, weights: Any, version: int) -> None:
        del weights, version

    def describe(self) -> dict[str, Any]:
        return {"kind": self.name}
