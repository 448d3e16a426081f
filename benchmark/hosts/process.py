"""The parent's side of a worker process: starting it, calling it, detecting its end.

A worker is started as a fresh interpreter and not through `multiprocessing`, which would import
the main program (and with it, say, torch) into every worker. It is asked through a pair of sockets
that the event loop watches: no threads, and no blocking however long a call takes.
"""

import asyncio
import contextlib
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import traceback
from collections import deque
from typing import Any

from benchmark.hosts.base import WorkerDied, WorldError
from benchmark.hosts.worker import HEADER, Act, Answer, Close, Failure, FunctionCall, Open
from tasks.errors import UserError

GRACE_S = 2.0
"""Seconds that a worker has to close its episodes and end by itself."""

_CHUNK = 2**18
# The worker gets this process's module search path, so that it finds the same tasks.
_START = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from benchmark.hosts.worker import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)

log = logging.getLogger(__name__)


class WorkerLost(Exception):
    """The worker died, and not over this call."""


class WorkerProcess:
    """A worker process; belongs to the event loop that it was started in.

    Linux ends it with the thread that started it, which should therefore be one that stays.

    Args:
        start_is_retried: If it dies before it has started, its calls fail with `WorkerLost`, to be
            made again in another worker. Otherwise this is taken for the user's mistake.

    Attributes:
        load: Episodes and calls that it has been given and not finished.
        dead: It cannot be asked any more.
        ready: It has started.
    """

    def __init__(self, start_is_retried: bool = False) -> None:
        self.load = 0
        self.dead = False
        self.ready = False
        self._start_is_retried = start_is_retried
        self._loop = asyncio.get_running_loop()
        self._calls: deque[asyncio.Future[Any]] = deque()
        self._unsent = bytearray()
        self._received = bytearray()
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        with theirs:
            descriptor = str(theirs.fileno())
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, fixed arguments
                [sys.executable, "-c", _START, descriptor, str(os.getpid()), *sys.path],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                # Answers do not go this way: it is what libraries print.
                stdout=subprocess.DEVNULL,
                # Out of the reach of a terminal's Ctrl-C, which is the parent's to handle.
                process_group=0,
            )
        self._loop.add_reader(self._socket, self._read)

    def ask(self, call: Open | Act | Close | FunctionCall) -> "asyncio.Future[Any]":
        """Send a call; it is carried out after those that were sent before.

        Returns:
            What becomes its result, or fails with what the call raised (`WorldError`,
            `UserError`), with `WorkerDied` if the worker died over it, or with `WorkerLost` if
            it died before it came to it.
        """
        # First: what cannot be sent must not wait for an answer.
        frame = pickle.dumps(call)
        future: asyncio.Future[Any] = self._loop.create_future()
        if self.dead:
            future.set_exception(WorkerLost())
            return future
        self._calls.append(future)
        self._send(HEADER.pack(len(frame)) + frame)
        return future

    async def stop(self) -> None:
        """End the worker: politely, and after a while by force. Calls under way are cancelled."""
        if not self.dead:
            self.dead = True
            self._disconnect()
            for future in self._calls:
                future.cancel()
        deadline = self._loop.time() + GRACE_S
        try:
            # Its end is nothing that the event loop could wait for.
            while self._process.poll() is None and self._loop.time() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        finally:
            self._process.kill()
            self._process.wait()

    def _send(self, data: bytes) -> None:
        if self._unsent:
            self._unsent += data
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # the worker is gone; the reader is told so, too, and does what has to be done
        if sent < len(data):
            self._unsent += data[sent:]
            self._loop.add_writer(self._socket, self._send_more)

    def _send_more(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            return
        except OSError:
            sent = len(self._unsent)
        del self._unsent[:sent]
        if not self._unsent:
            self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._died()
            return
        self._received += data
        begin = 0
        while len(self._received) >= begin + HEADER.size:
            (length,) = HEADER.unpack_from(self._received, begin)
            end = begin + HEADER.size + length
            if len(self._received) < end:
                break
            try:
                # What the worker says is this program's own data, not input from outside.
                answer = pickle.loads(self._received[begin + HEADER.size : end])  # noqa: S301
            except Exception as error:  # a class may refuse what pickle makes it from
                text = f"the answer cannot be read: {type(error).__name__}: {error}"
                answer = Failure(text, None, traceback.format_exc())
            self._take(answer)
            begin = end
        del self._received[:begin]

    def _take(self, answer: Answer | Failure | None) -> None:
        if answer is None:
            self.ready = True
            return
        future = self._calls.popleft()
        if future.done():
            return  # cancelled: nobody waits any more
        if isinstance(answer, Answer):
            future.set_result(answer.value)
        elif answer.user_error is not None:
            future.set_exception(UserError(answer.user_error))
        else:
            error = WorldError(answer.text)
            error.add_note(answer.traceback)
            future.set_exception(error)

    def _died(self) -> None:
        """Tell the calls that wait: the oldest is the one that the worker was busy with."""
        self.dead = True
        self._disconnect()
        # It has closed its end: it is ending, and if it is not, it is of no use.
        self._process.kill()
        how = _how_it_ended(self._process.wait())
        log.info("worker process %d %s", self._process.pid, how)
        if self.ready:
            self._fail_calls(WorkerDied(f"the worker process of this episode {how}"), WorkerLost())
        elif self._start_is_retried:
            self._fail_calls(WorkerLost(), WorkerLost())
        else:
            error = UserError(f"a worker process {how} before it could start; see its error above")
            self._fail_calls(error, error)

    def _fail_calls(self, oldest: Exception, others: Exception) -> None:
        error = oldest
        while self._calls:
            future = self._calls.popleft()
            if not future.done():
                future.set_exception(error)
            error = others

    def _disconnect(self) -> None:
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"was killed by signal {-code}"
