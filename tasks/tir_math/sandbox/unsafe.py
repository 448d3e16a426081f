"""Programs as ordinary processes of this user. WITHOUT ISOLATION.

A program can read and delete what the user can, use the network, and leave processes behind. The
limits keep mistakes in bounds and no intent. For machines without namespaces whose whole content
may be lost, such as a throw-away container.
"""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tasks.tir_math.sandbox.base import LIMITS, Execution, Limits, Sandbox, SandboxError, Status
from tasks.tir_math.sandbox.layout import versions
from tasks.tir_math.sandbox.output import Stream, read_until
from tasks.tir_math.sandbox.program import of_exit_code, wrapped

_GRACE_S = 10.0
_LIMITED = """\
import resource
for kind, value in {limits!r}:
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    # One second more, so that the signal for too much processor time is not the one for all.
    more = value + (kind == resource.RLIMIT_CPU and value != hard)
    resource.setrlimit(kind, (value, more))
"""


class UnsafeSandbox(Sandbox):
    """Runs programs as processes of this user, with this interpreter, without isolation.

    Args:
        limits: What a program may take; the limits on threads, files in all and processes are not
            kept.
    """

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits

    def run(self, code: str, fresh: bool = False) -> Execution:
        """Run a program in a fresh interpreter and a temporary folder."""
        del fresh  # it always is
        with tempfile.TemporaryDirectory(prefix="unsafe-sandbox-") as folder:
            file = Path(folder, "program.py")
            file.write_text(self._limiting() + wrapped(code))
            try:
                process = self._start(file)
            except OSError as error:
                raise SandboxError(f"the interpreter does not start: {error.strerror}") from error
            with process:
                try:
                    return self._finish(process)
                finally:
                    _kill(process)

    def describe(self) -> Mapping[str, str]:
        """Kind, versions and limits."""
        return {"kind": "unsafe", **versions(), "limits": str(self._limits)}

    def _limiting(self) -> str:
        limits = (
            (resource.RLIMIT_AS, self._limits.memory_bytes),
            (resource.RLIMIT_CPU, self._limits.cpu_s),
            (resource.RLIMIT_FSIZE, self._limits.file_bytes),
            (resource.RLIMIT_NOFILE, self._limits.open_files),
            (resource.RLIMIT_CORE, 0),
        )
        return _LIMITED.format(limits=limits)

    @staticmethod
    def _start(file: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - to run the program is what was asked for
            [sys.executable, "-s", "-P", "-B", "-u", "-X", "utf8", file.name],
            cwd=file.parent,
            env={
                "HOME": str(file.parent),
                "LANG": "C.UTF-8",
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "PATH": "/usr/bin:/bin",
                "PYTHONHASHSEED": "0",
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _finish(self, process: subprocess.Popen[bytes]) -> Execution:
        assert process.stdout is not None
        assert process.stderr is not None
        pipes = (process.stdout.fileno(), process.stderr.fileno())
        stdout, stderr = (Stream(pipe, self._limits.output_bytes) for pipe in pipes)
        end = os.pidfd_open(process.pid)
        try:
            late = read_until(
                (stdout, stderr), end, partial(_kill, process), self._limits.wall_s, _GRACE_S
            )
        except TimeoutError:
            raise SandboxError("a program does not end") from None
        finally:
            os.close(end)
        _kill(process)  # before its end is noted, so that the number is still its own
        code = process.wait()
        for stream in (stdout, stderr):
            stream.drain()
        if stdout.over or stderr.over:
            status: Status = "output limit"
        elif late or code == -signal.SIGXCPU:
            status = "time limit"
        else:
            status = of_exit_code(code, stderr.text) if code >= 0 else "killed"
        return Execution(status, stdout.text, stderr.text)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the session's processes, those that did not leave it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
