"""The interface of a sandbox: programs in, executions out, and the limits."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from tasks.errors import TransientError

Status = Literal["ok", "error", "time limit", "memory limit", "output limit", "killed"]
"""How a program ended.

`ok`: exit code 0. `error`: an exception or another exit code. `time limit`, `memory limit`,
`output limit`: what it took too much of. `killed`: a signal, such as a segmentation fault, or too
many threads.
"""

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Execution:
    """What became of a program.

    Attributes:
        status: How it ended.
        stdout: What it printed, decoded as UTF-8 with replacement characters, cut after
            `Limits.output_bytes`. What was printed before a limit was reached is there.
        stderr: The same of standard error; a traceback stands at its end.
    """

    status: Status
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Limits:
    """What a program may take.

    Attributes:
        cpu_s: Seconds of processor time, all threads together.
        wall_s: Seconds from its start; more than `cpu_s`, so that a busy machine does not decide.
        memory_bytes: Address space, the interpreter and the libraries included.
        threads: Threads at a time. There are no child processes.
        open_files: File descriptors.
        file_bytes: Size of one file.
        disk_bytes: Size of all files; they are held in memory.
        inodes: Number of files and folders.
        output_bytes: What is kept of standard output, and of standard error.
    """

    cpu_s: int = 10
    wall_s: float = 15.0
    memory_bytes: int = 1024 * MIB
    threads: int = 64
    open_files: int = 64
    file_bytes: int = 32 * MIB
    disk_bytes: int = 64 * MIB
    inodes: int = 4096
    output_bytes: int = 65536

    def __str__(self) -> str:
        """All of them in one line."""
        return (
            f"cpu {self.cpu_s} s, wall {self.wall_s:g} s, memory {self.memory_bytes // MIB} MiB, "
            f"no processes, {self.threads} threads, {self.open_files} open files, "
            f"files of {self.file_bytes // MIB} MiB, {self.disk_bytes // MIB} MiB and "
            f"{self.inodes} in all, output {self.output_bytes // 1024} KiB"
        )


LIMITS = Limits()
"""The limits of every program."""


class SandboxError(TransientError):
    """The sandbox failed, and not the program; running the program again may help."""


class Sandbox(ABC):
    """Runs programs, each as if it were the first.

    Use as a context manager: leaving it ends what was started.
    """

    @abstractmethod
    def run(self, code: str, fresh: bool = False) -> Execution:
        r"""Run a program to its end; safe to call from several threads.

        The program finds `final_answer(x)`, which prints `\boxed{x}` on a line of its own, with
        what is sympy's as LaTeX. Random numbers of `random`, `numpy.random` and sympy are seeded.

        Args:
            code: Python source. Whatever it holds, the program gets an `Execution`.
            fresh: In a process that shares nothing with those of earlier programs, not even where
                things lie in memory. Takes as long as starting one.

        Raises:
            SandboxError: The sandbox failed, or is closed.
        """

    @abstractmethod
    def describe(self) -> Mapping[str, str]:
        """What can move an output: kind, versions of interpreter and libraries, limits."""

    def close(self) -> None:
        """End what was started. Programs under way fail with `SandboxError`."""

    def __enter__(self) -> Self:
        """Nothing is started before it is needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
