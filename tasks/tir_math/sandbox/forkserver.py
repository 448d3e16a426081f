"""The outside of a zygote: starting it in bubblewrap, sending it programs, ending it."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import time
from functools import partial
from typing import Any

from tasks.tir_math.sandbox.base import Execution, Limits, SandboxError, Status
from tasks.tir_math.sandbox.layout import WARM_MODULES, command, zygote_arguments
from tasks.tir_math.sandbox.output import Stream, read_until
from tasks.tir_math.sandbox.program import of_exit_code

START_S = 120.0
"""Seconds that a zygote has to import the libraries, on a slow disk."""
GRACE_S = 10.0
"""Seconds that it has to end a program."""

_LONGEST_MESSAGE = 4096


class ZygoteProcess:
    """A zygote in its own bubblewrap; one call at a time.

    Linux ends it with the thread that started it, which should therefore be one that stays.

    Args:
        bubblewrap: Path of the program.
        limits: What a program may take.
        modules: What it imports beforehand.

    Raises:
        SandboxError: It does not start.
        UserError: A library is missing, or the machine is none that is known.
    """

    def __init__(
        self, bubblewrap: str, limits: Limits, modules: tuple[str, ...] = WARM_MODULES
    ) -> None:
        self._limits = limits
        inside = command(bubblewrap)
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - fixed arguments
                    [*inside, *zygote_arguments(theirs.fileno(), limits, modules)],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    # Out of the reach of a terminal's Ctrl-C, which is the harness' to handle.
                    process_group=0,
                )
        except OSError as error:
            self._channel.close()
            raise SandboxError(f"bubblewrap cannot be run: {error.strerror}") from error
        try:
            self._channel.settimeout(START_S)
            self._receive()
        except BaseException:
            self.stop()
            raise

    def run(self, code: str) -> Execution:
        """Run a program. After an exception the zygote must be stopped.

        Raises:
            SandboxError: The zygote failed.
        """
        try:
            with contextlib.ExitStack() as stack, contextlib.ExitStack() as sent:
                program = sent.enter_context(
                    os.fdopen(os.memfd_create("program"), "wb", buffering=0)
                )
                program.write(code.encode("utf-8", "surrogatepass"))
                program.seek(0)
                descriptors, streams = [program.fileno()], []
                for _ in range(2):
                    ours, theirs = os.pipe()
                    stack.callback(os.close, ours)
                    sent.callback(os.close, theirs)
                    descriptors.append(theirs)
                    streams.append(Stream(ours, self._limits.output_bytes))
                self._send(b"run", descriptors)
                sent.close()  # so that the pipes end with the program
                return self._finish(*streams)
        except OSError as error:
            raise SandboxError(f"the program cannot be handed over: {error.strerror}") from error

    @property
    def alive(self) -> bool:
        """Whether it can be given a program."""
        return self._process.poll() is None

    def kill(self) -> None:
        """End it from another thread: a program under way fails."""
        self._process.kill()

    def stop(self) -> None:
        """End it, and everything that it started."""
        self._channel.close()
        self._process.kill()
        self._process.wait()
        assert self._process.stderr is not None
        # What bubblewrap started dies a moment after it; then nobody holds this pipe any more.
        poll, deadline = select.poll(), time.monotonic() + GRACE_S
        poll.register(self._process.stderr, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0 and poll.poll(left * 1000):
            if not os.read(self._process.stderr.fileno(), _LONGEST_MESSAGE):
                break
        self._process.stderr.close()

    def _finish(self, stdout: Stream, stderr: Stream) -> Execution:
        try:
            late = read_until(
                (stdout, stderr),
                self._channel.fileno(),
                partial(self._send, b"kill"),
                self._limits.wall_s,
                GRACE_S,
            )
        except TimeoutError:
            raise SandboxError("the sandbox cannot end a program and is abandoned") from None
        self._channel.settimeout(GRACE_S)
        answer = self._receive()
        if "failed" in answer:
            raise SandboxError(f"the sandbox cannot close itself: {answer['failed']}")
        for stream in (stdout, stderr):
            stream.drain()
        if stdout.over or stderr.over:
            status: Status = "output limit"
        else:
            status = "time limit" if late else self._status(answer, stderr.text)
        return Execution(status, stdout.text, stderr.text)

    def _status(self, answer: dict[str, Any], stderr: str) -> Status:
        code = os.waitstatus_to_exitcode(answer["status"])
        if code >= 0:
            return of_exit_code(code, stderr)
        # The kernel's signal for too much processor time is one that can have other reasons. It
        # counts whole ticks, which on a busy machine are more than the time that was really run.
        spent = answer["cpu_s"] > self._limits.cpu_s / 2 and not answer["threads"]
        return "time limit" if code == -signal.SIGKILL and spent else "killed"

    def _send(self, message: bytes, descriptors: list[int] | None = None) -> None:
        try:
            socket.send_fds(self._channel, [message], descriptors or [])
        except OSError as error:
            raise SandboxError(f"the sandbox is gone: {error.strerror}") from error

    def _receive(self) -> dict[str, Any]:
        try:
            message = self._channel.recv(_LONGEST_MESSAGE)
        except TimeoutError as error:
            raise SandboxError("the sandbox does not respond") from error
        except OSError as error:
            raise SandboxError(f"the sandbox is gone: {error.strerror}") from error
        if not message:
            raise SandboxError(f"the sandbox has ended{self._last_words()}")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _last_words(self) -> str:
        """The last line that bubblewrap or the zygote wrote, after a colon."""
        self._process.kill()
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        # What bubblewrap started may still hold the pipe: what is there is enough.
        text = (self._process.stderr.read(_LONGEST_MESSAGE) or b"").decode(errors="replace")
        return f": {text.strip().splitlines()[-1]}" if text.strip() else ""
