"""One child process, with output to a file and CPU time measured, that is always reaped."""

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
    """A running or finished process.

    It uses one thread for math, so that results repeat bit for bit, and dies with this process, so
    that a killed study can be restarted immediately.

    Args:
        command: The command line.
        output: File to which its output is appended; None for this process's output.
        environment: Environment variables in addition to this process's.
        death_signal: Signal that it receives if this process dies. SIGTERM for a command that has
            to end its own child processes, which would outlive it.

    Attributes:
        cpu_seconds: CPU time so far, including children that it has waited for.
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
                # Ctrl-C should reach only the parent, which ends its processes in order.
                start_new_session=True,
                preexec_fn=partial(_die_with, os.getpid(), death_signal),  # noqa: PLW1509 - one thread here
            )
        _pass_nice_on(self.pid)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
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
        """Ask it to end; a training run then stops where it can be resumed."""
        if self._process.returncode is None:
            self._process.terminate()

    def kill(self) -> None:
        """Kill it immediately, with everything that it started in its session."""
        if self._process.returncode is None:
            os.killpg(self.pid, signal.SIGKILL)


def _die_with(parent: int, death_signal: signal.Signals) -> None:
    """In the new process: exit when the parent does, or if it already has."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, death_signal)
    if os.getppid() != parent:
        os._exit(1)


def _pass_nice_on(pid: int) -> None:
    """Pass this process's `nice` value on to a process with its own session.

    Linux schedules every session as a group, and only the group's own nice value, initially 0,
    counts between groups (sched(7), autogroup): a study at `nice -n 19` would take half of the
    machine.
    """
    nice = os.nice(0)
    # Not every kernel has it, and without privileges it accepts one write per tenth of a second.
    # If this fails, the process still works, only with a higher priority than requested.
    if nice > 0:
        with suppress(OSError):
            Path(f"/proc/{pid}/autogroup").write_text(str(nice))


def process_start(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None if it does not exist.

    Process ids are reused; together with the start time, an id is unique. A zombie does not count
    as existing.
    """
    try:
        stat = _stat(pid)
        return None if stat[0] in "ZX" else int(stat[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _cpu_so_far(pid: int) -> float:
    """CPU time of a running process and of children that it has waited for, in seconds."""
    # User and system time of the process, then of its children.
    return sum(int(field) for field in _stat(pid)[11:15]) / _TICKS


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the process name, which may contain anything (proc(5))."""
    return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
