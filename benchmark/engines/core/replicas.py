"""One model on several devices: an engine in a separate process for each, behind one engine.

vLLM's `LLM` refuses data parallelism in one process and recommends one process per rank, as done
here for every engine that loads its model in the process. Replicas share nothing, so no step of one
waits for another. An episode stays with its replica, whose prefix cache holds most of the next
prompt.
"""

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Final, Self, cast

from benchmark.engines.core.base import (
    Engine,
    EngineDown,
    EngineError,
    EngineNotStarted,
    Generation,
    Request,
)
from benchmark.engines.core.homes import Homes
from benchmark.hosts.worker import end_with
from tasks.errors import UserError
from tasks.texts import counted

log = logging.getLogger(__name__)

DEVICES: Final = "CUDA_VISIBLE_DEVICES"
STOP_SECONDS: Final = 30.0
"""Seconds for a replica to exit by itself."""

Answer = tuple[int, Any, BaseException | None]
"""Number of a call, its result, and its exception."""


class ReplicatedEngine(Engine):
    """Passes every request on to one of several engines.

    Args:
        name: The engines' name. It is not read from an engine, because building one here could
            take GPU memory.
        build: Creates an engine; called in each process, so it must be picklable.
        devices: For each replica, the value of `CUDA_VISIBLE_DEVICES`; None to keep it.
    """

    def __init__(
        self, name: str, build: Callable[[], Engine], devices: Sequence[str | None]
    ) -> None:
        self.name = name
        self._build = build
        self._replicas = [_Replica(device) for device in devices]
        self._homes: Homes[_Replica] = Homes()
        self._facts: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        """Start all replicas at once.

        Raises:
            UserError: The model cannot be used as it is.
            EngineNotStarted: A replica did not start for another reason.
        """
        starts = [replica.start(self._build) for replica in self._replicas]
        found = await asyncio.gather(*starts, return_exceptions=True)
        for outcome in found:
            if isinstance(outcome, BaseException):
                await self._stop()
                raise outcome
        self._facts = cast("dict[str, Any]", found[0])
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop all replicas; requests still waiting get `EngineDown`."""
        await self._stop()

    async def generate(self, request: Request) -> Generation:
        """Have one replica answer; see `Engine.generate`."""
        replica = self._homes.choose(request.affinity, self._replicas)
        # The episode stays here: only scripted policies use it.
        bare = replace(request, episode=cast("Any", None))
        return cast("Generation", await replica.call("generate", bare))

    async def prompt_text(self, request: Request, generation: Generation) -> str | None:
        """The prompt's text; see `Engine.prompt_text`."""
        bare = replace(request, episode=cast("Any", None))
        replica = self._homes.choose(request.affinity, self._replicas)
        return cast("str | None", await replica.call("prompt_text", bare, generation))

    def describe(self) -> dict[str, Any]:
        """The facts of one replica, and the number of replicas."""
        return {**self._facts, "data_parallel_size": len(self._replicas)}

    async def _stop(self) -> None:
        await asyncio.gather(*(replica.stop() for replica in self._replicas))


class _Replica:
    """One process with an engine, and its pending calls.

    Args:
        devices: Its GPUs, as `CUDA_VISIBLE_DEVICES` names them; None to keep the variable.
    """

    def __init__(self, devices: str | None) -> None:
        self._devices = devices
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._count = 0
        self._down: EngineDown | None = None

    @property
    def load(self) -> int:
        """Number of pending calls."""
        return len(self._waiting)

    async def start(self, build: Callable[[], Engine]) -> dict[str, Any]:
        """Start the process and wait for its engine; return the engine's facts.

        Raises:
            UserError: The model cannot be used as it is.
            EngineNotStarted: The engine did not start for another reason.
        """
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        # Not a daemon: vLLM starts child processes, which daemons may not.
        self._process = context.Process(
            target=_serve, args=(theirs, build, self._devices, os.getpid()), daemon=False
        )
        self._process.start()
        theirs.close()
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._listen, args=(loop,), daemon=True).start()
        try:
            return cast("dict[str, Any]", await self.call("describe"))
        except EngineNotStarted:
            raise
        except EngineDown as error:
            raise EngineNotStarted(f"{error} while it started") from error

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the engine.

        Raises:
            EngineError: The engine refused the request.
            EngineDown: The replica is gone.
            UserError: The user made a mistake.
        """
        if self._down is not None:
            raise self._down
        assert self._connection is not None
        number, self._count = self._count, self._count + 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._connection.send((number, method, arguments))
            return await future
        except (BrokenPipeError, ConnectionResetError):
            raise EngineDown("a replica ended unexpectedly") from None
        finally:
            self._waiting.pop(number, None)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Pass answers to the event loop until the process is gone. Runs in a thread."""
        assert self._connection is not None
        # The loop may already be closed, and then nothing waits for answers.
        with contextlib.suppress(RuntimeError):
            try:
                while True:
                    loop.call_soon_threadsafe(self._deliver, self._connection.recv())
            except Exception as error:  # usually the process exited; no call may wait forever
                log.debug("a replica is gone: %r", error)
                loop.call_soon_threadsafe(self._fail)

    def _deliver(self, answer: Answer) -> None:
        number, value, error = answer
        future = self._waiting.get(number)
        if future is None or future.done():
            return
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(error)

    def _fail(self) -> None:
        self._down = EngineDown("a replica of the engine ended unexpectedly")
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(self._down)

    async def stop(self) -> None:
        """End the process."""
        if self._process is None or self._connection is None:
            return
        self._fail()
        with contextlib.suppress(OSError):
            self._connection.send(None)
        await asyncio.to_thread(self._process.join, STOP_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            await asyncio.to_thread(self._process.join)
        self._connection.close()


def _serve(
    connection: Connection, build: Callable[[], Engine], devices: str | None, parent: int
) -> None:
    """Run an engine until the parent is gone; the main function of a replica's process."""
    # The parent decides when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end_with(parent)
    if devices is not None:
        os.environ[DEVICES] = devices
    asyncio.run(_answer_calls(connection, build))


async def _answer_calls(connection: Connection, build: Callable[[], Engine]) -> None:
    engine, fault = None, None
    async with contextlib.AsyncExitStack() as stack:
        try:
            engine = await stack.enter_async_context(build())
        except (UserError, EngineDown) as error:
            fault = error
        except Exception as error:  # the parent must know, whatever it was
            fault = EngineNotStarted(f"a replica did not start: {type(error).__name__}: {error}")
        calls: set[asyncio.Task[None]] = set()
        while (call := await asyncio.to_thread(_received, connection)) is not None:
            task = asyncio.create_task(_answer(connection, engine, fault, *call))
            calls.add(task)
            task.add_done_callback(calls.discard)


def _received(connection: Connection) -> tuple[int, str, tuple[Any, ...]] | None:
    try:
        return cast("tuple[int, str, tuple[Any, ...]] | None", connection.recv())
    except (EOFError, OSError):
        return None


async def _answer(
    connection: Connection,
    engine: Engine | None,
    fault: BaseException | None,
    number: int,
    method: str,
    arguments: tuple[Any, ...],
) -> None:
    value, error = None, fault
    if fault is None:
        try:
            called = getattr(engine, method)(*arguments)
            value = await called if asyncio.iscoroutine(called) else called
        except (EngineError, EngineDown, UserError) as raised:
            error = raised
        except Exception as raised:  # a bug: the parent must not wait forever
            error = EngineDown(f"{type(raised).__name__}: {raised}")
    connection.send((number, value, error))


def device_groups(replicas: int, each: int) -> list[str | None]:
    """The GPUs of every replica, as `CUDA_VISIBLE_DEVICES` names them.

    Args:
        replicas: Number of replicas.
        each: GPUs per replica.

    Returns:
        The GPUs of each; None for each without any GPU.

    Raises:
        UserError: There are too few GPUs.
    """
    import torch

    count = torch.cuda.device_count()
    if not count:
        return [None] * replicas
    if count < replicas * each:
        raise UserError(
            f"--data-parallel-size {replicas} with {counted(each, 'GPU')} each needs "
            f"{replicas * each} GPUs, and there are {count}"
        )
    named = os.environ.get(DEVICES)
    names = named.split(",") if named else [str(number) for number in range(count)]
    return [",".join(names[i * each : (i + 1) * each]) for i in range(replicas)]
