"""Runs a trainer with its vLLM servers: waits for the servers, and ends everything together."""

import logging
import math
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Final

from baselines.launch.child import Child
from baselines.launch.exchange import in_use
from baselines.launch.plan import STOP_SECONDS, Command, killed_text
from benchmark.engines.core.base import EngineDown, EngineNotStarted
from benchmark.exit_codes import EXIT_USER_ERROR
from tasks.texts import counted

HEALTHY_SECONDS: Final = 1800.0
"""Seconds for all servers to start: loading and compiling a large model takes minutes."""
_LOOK: Final = 0.5
"""Seconds between checks of the processes."""
_GRACE: Final = 20.0
"""Seconds that a process has to exit after it was asked to."""
_LAST_LINES: Final = 2_000
"""Characters at the end of a server's log that are searched for its last line."""

_DIRECT: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Bypasses the environment's proxies, because the servers are on this machine."""

log = logging.getLogger(__name__)


@contextmanager
def reserved_ports(count: int) -> Iterator[list[int]]:
    """Reserve TCP ports of this machine for servers that are started in the block.

    vLLM binds its port seconds after it was started. If another process had taken it, that one
    would answer for it: it may be the server of another run. Linux gives a bound port to nobody
    who asks for any port, and a server, which sets `SO_REUSEADDR`, can bind it as well, since
    nothing listens on it here.
    """
    with ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in held:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in held]


def run_fleet(
    servers: Sequence[tuple[Command, str]], trainer: Command, logs: Path, exchange: Path | None
) -> int:
    """Start the servers, wait until they answer, run the trainer, and end everything.

    Ctrl-C and SIGTERM stop the trainer where it can be resumed; a second signal more than ten
    seconds later kills it. All processes die with this one.

    Args:
        servers: Server commands, each with its address, without `/v1`.
        trainer: The trainer's processes, or their launcher.
        logs: Folder for the servers' output.
        exchange: Folder to delete at the end; None for none.

    Returns:
        The trainer's exit code.

    Raises:
        EngineNotStarted: A server exited before it answered, or did not answer in time.
        EngineDown: A server exited later, before the trainer had finished.
        KeyboardInterrupt: It stopped on request, before the trainer had finished.
    """
    logs.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        asked = stack.enter_context(_asked_to_stop())
        if exchange is not None:
            stack.enter_context(in_use(exchange))
        running: list[_Server] = []
        stack.callback(_end, running)
        for number, (command, address) in enumerate(servers):
            output = logs / f"server-{number}.log"
            output.unlink(missing_ok=True)
            # vLLM's engine is a child process of the server: if the server is killed, the engine
            # survives and keeps its GPU memory.
            child = Child(command.words, output, command.environment, signal.SIGTERM)
            running.append(_Server(child, address, output))
        _wait(running, asked)
        child = Child(trainer.words, None, trainer.environment)
        try:
            lost = _watch(child, running, asked)
        finally:
            child.ask_to_stop()
            _end_by([child], time.monotonic() + _GRACE)
        code = child.poll()
        assert code is not None
        # A trainer that has finished needs no servers, and a request stops nothing any more.
        if lost is not None and code != 0:
            raise lost
        # A full disk at the last checkpoint, for example, must not look like a stop.
        if asked and code not in (0, EXIT_USER_ERROR):
            raise KeyboardInterrupt
        if code < 0:
            sys.stderr.write(killed_text("the trainer", -code))
            return 1
        return code


class _Server:
    """A server process."""

    def __init__(self, child: Child, address: str, output: Path) -> None:
        self.child, self.address, self.output = child, address, output

    def check(self, fault: type[EngineDown] = EngineDown) -> None:
        """Raise `fault` if the server has exited."""
        code = self.child.poll()
        if code is not None:
            text = self.output.read_text("utf-8", "replace")[-_LAST_LINES:].strip()
            last = text.splitlines()[-1][:200] if text else "it wrote nothing"
            raise fault(
                f"the vLLM server at {self.address} ended with status {code} ({last}); its log is "
                f"{self.output}"
            )

    def healthy(self) -> bool:
        """Whether it answers."""
        try:
            with _DIRECT.open(f"{self.address}/health", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def _asked_to_stop() -> Iterator[list[int]]:
    """Collect signals that request a stop."""
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        asked.append(number)

    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, note) for number in signals]
    try:
        yield asked
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


def _wait(servers: Sequence[_Server], asked: Sequence[int]) -> None:
    """Wait until all servers answer."""
    if not servers:
        return
    deadline = time.monotonic() + HEALTHY_SECONDS
    waiting = list(servers)
    log.warning(
        "waiting for %s; logs: %s",
        counted(len(servers), "vLLM server"),
        servers[0].output.parent,
    )
    while waiting:
        if asked:
            raise KeyboardInterrupt
        for server in servers:
            server.check(EngineNotStarted)
        waiting = [server for server in waiting if not server.healthy()]
        if waiting and time.monotonic() > deadline:
            raise EngineNotStarted(
                f"the vLLM server at {waiting[0].address} does not answer after "
                f"{HEALTHY_SECONDS:.0f} s; its log is {waiting[0].output}"
            )
        time.sleep(_LOOK if waiting else 0)


def _watch(trainer: Child, servers: Sequence[_Server], asked: Sequence[int]) -> EngineDown | None:
    """Wait for the trainer to exit, and forward stop requests to it.

    If a server exits, the trainer is asked to stop, but not a second time, which would end it
    without a checkpoint.

    Returns:
        The exit of a server, unless a stop was requested before: a scheduler's signal also reaches
        the servers.
    """
    passed, deadline = 0, math.inf
    lost: EngineDown | None = None
    while trainer.poll() is None and time.monotonic() < deadline:
        if deadline == math.inf:
            try:
                for server in servers:
                    server.check()
            except EngineDown as error:
                deadline = time.monotonic() + STOP_SECONDS
                if not asked:
                    lost = error
                    trainer.ask_to_stop()
        if len(asked) > passed:
            passed = len(asked)
            trainer.ask_to_stop()
        time.sleep(_LOOK)
    return lost


def _end(servers: Sequence[_Server]) -> None:
    """End all servers with their workers."""
    children = [server.child for server in servers]
    for child in children:
        child.ask_to_stop()
    _end_by(children, time.monotonic() + _GRACE)


def _end_by(children: Sequence[Child], deadline: float) -> None:
    while any(child.poll() is None for child in children) and time.monotonic() < deadline:
        time.sleep(0.1)
    for child in children:
        if child.poll() is None:
            log.warning("process %d did not end and is killed", child.pid)
        # Each is a session leader, so any processes that it left are in its group.
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        while child.poll() is None:
            time.sleep(0.01)
