"""Which processes play: all of them, each with its own engine, or only the main one."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Never, TypeVar

from accelerate import Accelerator
from accelerate.utils import gather_object

from benchmark.engines.core.base import Engine, Request

Item = TypeVar("Item")
Count = Callable[[int, int], None]
"""Told how many episodes of this process's share have ended, of how many."""


def no_progress(done: int, total: int) -> None:
    """Nobody wants to know."""
    del done, total


class Stopped(Exception):
    """A process was asked to stop while it played; all of them have this at the same place."""


class ProcessShards:
    """Deals what is to be played to processes, and what was played to all of them.

    Args:
        accelerator: The processes; all must make one.
        engine: This process's engine; None where the main process's answers for all.

    Attributes:
        engine: The engine; one that must not be asked anything where there is none.
        main_alone: The main process's engine answers for all.
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
        """Processes that play."""
        return 1 if self.main_alone else self._accelerator.num_processes

    @property
    def here(self) -> int:
        """Those of this machine, as torch's launcher says."""
        return 1 if self.main_alone else int(os.environ.get("LOCAL_WORLD_SIZE", "1"))

    def mine(self, items: Sequence[Item]) -> Sequence[Item]:
        """This process's share."""
        if self.main_alone:
            return items if self._accelerator.is_main_process else items[:0]
        return items[self._accelerator.process_index :: self._accelerator.num_processes]

    async def unless_stopped(self, awaited: Awaitable[Item]) -> Item | None:
        """The result of what this process waits for; None, and no waiting, if it has to stop."""
        mine, asked = asyncio.ensure_future(awaited), asyncio.create_task(self.stopping.wait())
        try:
            await asyncio.wait((mine, asked), return_when=asyncio.FIRST_COMPLETED)
            return None if self.stopping.is_set() else await mine
        finally:
            for task in (mine, asked):
                task.cancel()
            await asyncio.wait((mine, asked))

    async def together_unless_stopped(self, playing: Awaitable[list[Item]]) -> list[Item]:
        """What all processes have played; what is under way is dropped when one has to stop.

        Raises:
            Stopped: One of the processes was asked to, before or while it played.
        """
        shares = self.together([await self.unless_stopped(playing)])
        if any(share is None for share in shares):
            raise Stopped
        return [item for share in shares if share is not None for item in share]

    def together(self, mine: list[Item]) -> list[Item]:
        """What all processes have; waits for the last of them."""
        if self._accelerator.num_processes == 1:
            return mine
        whole: list[Item] = gather_object(mine)
        return whole


class _Elsewhere(Engine):
    """Stands where a process has no engine; weights go to the one of the main process."""

    name = "elsewhere"

    async def generate(self, request: Request) -> Never:
        del request
        raise RuntimeError("this process has no engine: the main one plays for all")

    async def load_weights(self, weights: Any, version: int) -> None:
        del weights, version

    def describe(self) -> dict[str, Any]:
        return {"kind": self.name}
