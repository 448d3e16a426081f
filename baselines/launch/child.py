"""One child process: output to a file, CPU time measured, always reaped."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class Child:
    """A process that is running or has ended.

    It has one thread for mathematics, so that results repeat to the bit, and dies with this
    process, so that a study that was killed can be started again at once.

    Args:
        command: What is run.
        output: File that gets what it prints, after what is there; None for this process's own.
        environment: Variables that it has beside this process's.
        death_signal: What it gets if this process dies. SIGTERM for a command that has to end
            processes of its own, which would outlive it.

    Attributes:
        cpu_seconds: Processor time so far, of the processes that it has waited for, too.
    """

    def __init__(
        self,
        command: Sequence[str],
        output: Path | None,
        environment: Mapping[str, str] = MappingProxyType({}),
        death_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        self.cpu_seconds = 0.0
        whole = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **environment}
        with ExitStack() as stack:
            file = None if output is None else stack.enter_context(output.open("ab"))
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=None if file is None else subprocess.STDOUT,
                env=whole,
                # Ctrl-C is for the parent, which ends its processes in order.
                start_new_session=True,
                preexec_fn=partial(_die_with, os.getpid(), death_signal),  # noqa: PLW1509 - one thread here
            )
        _pass_nice_on(self.pid)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it is running."""
        if self._process.returncode is not None:
            return self._process.returncode
        pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        if pid == 0:
            self.cpu_seconds = max(self.cpu_seconds, _cpu_so_far(self.pid))
            return None
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        self._process.returncode = os.waitstatus_to_exitcode(status)
        return self._process.returncode

    def ask_to_stop(self) -> None:
        """Ask it to end; a training then stops where it can go on."""
        if self._process.returncode is None:
            self._process.terminate()

    def kill(self) -> None:
        """End it at once, with what it has started in its session."""
        if self._process.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)


def _die_with(parent: int, death_signal: signal.Signals) -> None:
    """In the new process: end when the parent does, also if it has already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, death_signal)
    if os.getppid() != parent:
        os._exit(1)


def _pass_nice_on(pid: int) -> None:
    """Let `nice` reach a process that has a session of its own.

    Linux schedules every session as a group, whose own nice value starts at 0 and is all that
    counts between groups (sched(7), autogroup): a study at `nice -n 19` would take half of the
    machine.
    """
    nice = os.nice(0)
    # Not every kernel has it, and without privileges it takes one in a tenth of a second: then the
    # process is right, but not as modest as was asked for.
    if nice > 0:
        with suppress(OSError):
            Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def process_start(pid: int) -> int | None:
    """When a process began, in clock ticks since the machine did; None where there is none.

    A number is used again once its process has ended; together with this it names one process. One
    that has ended, and whose parent has not asked how, is none.
    """
    try:
        stat = _stat(pid)
        return None if stat[0] in "ZX" else int(stat[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _cpu_so_far(pid: int) -> float:
    """Processor time of a running process and of those that it has waited for, in seconds."""
    # User, system, and both of children.
    return sum(int(field) for field in _stat(pid)[11:15]) / _TICKS


def _stat(pid: int) -> list[str]:
    """What the kernel says of a process, after its name, which may hold anything (proc(5))."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
