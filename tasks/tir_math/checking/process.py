"""The parent's side of the checker's process: starting it, calling it, detecting its end."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from typing import Any

from tasks.errors import UserError
from tasks.tir_math.checking.worker import frame_of, receive

MEMORY_LIMIT_BYTES = 2 * 2**30
"""Address space for one comparison."""

WALL_LIMIT_S = 600.0
"""Seconds after which a process that does not answer is taken for broken.

Long, because on a busy machine a process of low priority may get a hundredth of a core. What a
comparison may use is limited in processor time.
"""

GRACE_S = 2.0
"""Seconds that the process has to end by itself."""

# The process gets this one's module search path, so that it finds the same packages.
_START = (
    "import sys; sys.path[:] = sys.argv[6:]; "
    "from tasks.tir_math.checking.worker import main; "
    "main(*map(int, sys.argv[1:3]), *map(float, sys.argv[3:5]), int(sys.argv[5]))"
)
# Sympy reads settings of its own from the environment, the order of sets comes from a hash seed,
# and the rest is nobody's business.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "SYMPY_GROUND_TYPES": "python"}
_KEPT_VARIABLES = ("LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONHOME")


class CheckerDied(Exception):
    """The process is of no use any more, not by its limits; the text says how it ended."""


class CheckerProcess:
    """A process that compares answers; see `worker`. Blocks until it is ready.

    Args:
        cpu_limit_s: Processor seconds for one comparison.

    Raises:
        UserError: math-verify cannot be loaded there.
        CheckerDied: It could not be started.
    """

    def __init__(self, cpu_limit_s: float) -> None:
        self._socket, theirs = socket.socketpair()
        # The process gives up a comparison first.
        self._socket.settimeout(WALL_LIMIT_S * 1.5)
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        numbers = (theirs.fileno(), os.getpid(), cpu_limit_s, WALL_LIMIT_S, MEMORY_LIMIT_BYTES)
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, fixed arguments
                [sys.executable, "-c", _START, *map(str, numbers), *sys.path],
                pass_fds=(theirs.fileno(),),
                env=_ENVIRONMENT | kept,
                stdin=subprocess.DEVNULL,
                # Replies do not go this way: it is what libraries print.
                stdout=subprocess.DEVNULL,
                # Out of the reach of a terminal's Ctrl-C, which is the parent's to handle; and
                # its copies can be ended with it.
                process_group=0,
            )
        try:
            ready = self._receive()
            if not ready["ready"]:
                raise UserError(
                    f"the answer checker cannot load math-verify ({ready['error']}); "
                    "install this project's requirements again: make install"
                )
        except BaseException:
            self.stop(0)
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, truth: str, answer: str) -> tuple[list[str], int]:
        """Have two answers compared.

        Returns:
            The words that the comparison said, and the exit code of its process, which is
            negative for a signal.

        Raises:
            CheckerDied: The process ended or does not answer.
        """
        try:
            self._socket.sendall(frame_of([truth, answer]))
        except OSError as error:
            raise CheckerDied(str(error)) from None
        reply = self._receive()
        return reply["said"], reply["status"]

    def stop(self, grace_s: float = GRACE_S) -> None:
        """End it and its copies: politely, and after a while by force."""
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_s)
        if self._process.returncode is None:
            # Not yet waited for, so the group's number is still its own.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _receive(self) -> Any:
        try:
            value = receive(self._socket)
        except (OSError, ValueError) as error:
            raise CheckerDied(f"{type(error).__name__}: {error}") from None
        if value is None:
            raise CheckerDied("it ended")
        return value
