"""Asks whether an answer is correct; the work is done in a process that may crash.

Neither math-verify nor sympy is imported here. What they are given is text that a model wrote, so
they run apart, within limits that the kernel enforces. The limit of time is one of processor time:
how busy the machine is changes no verdict.
"""

import signal
import threading
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias

from tasks.errors import TransientError
from tasks.tir_math.checking.process import CheckerDied, CheckerProcess

RULE = "math-verify-1"
"""Name of the rules of comparison in the protocol, together with the limits of this package.

The versions of `PACKAGES` belong to the protocol, too.
"""

PACKAGES = ("math-verify", "latex2sympy2_extended", "antlr4-python3-runtime", "sympy", "mpmath")
"""Packages whose versions can change a verdict."""

MOST_CHARACTERS = 1000
"""Length beyond which an answer counts as unreadable; honest ones take milliseconds."""

CPU_LIMIT_S = 3.0
"""Processor seconds for one comparison."""

ATTEMPTS = 3
"""Processes that may be lost over one question, not by its limits, before that is an error."""

Reason: TypeAlias = Literal[
    "equal", "different", "unreadable", "time limit", "memory limit", "failed"
]
"""Why a verdict is what it is; all but the first count as not equal.

`unreadable`: the answer is not a mathematical expression, or too long. `failed`: it makes no sense
together with the right one (infinities are subtracted, say), or its nesting is too deep, or sympy
crashed.
"""
_REASONS: dict[str, Reason] = {
    "equal": "equal",
    "different": "different",
    "unreadable": "unreadable",
    "memory": "memory limit",
    "failed": "failed",
}


class CheckerFailed(TransientError):
    """The checker's process cannot be kept alive, for a reason outside of the question."""


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """Whether an answer is right.

    Attributes:
        equal: Whether it equals the right answer.
        reason: Why.
    """

    equal: bool
    reason: Reason


class Checker:
    """Compares answers, one at a time; further threads wait for their turn.

    The process is started at the first question and ended by `close`, or by leaving the context.
    It ends by itself when this process does.

    Args:
        cpu_limit_s: Processor seconds for one comparison. Part of the protocol.
    """

    def __init__(self, cpu_limit_s: float = CPU_LIMIT_S) -> None:
        self._cpu_limit_s = cpu_limit_s
        self._lock = threading.Lock()
        self._process: CheckerProcess | None = None

    @property
    def pid(self) -> int | None:
        """The process's id; None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process where there is none, and wait until it is ready.

        Raises:
            UserError: math-verify cannot be loaded.
            CheckerFailed: It could not be started.
        """
        with self._lock:
            try:
                self._running()
            except CheckerDied as error:
                raise CheckerFailed(f"the answer checker did not start: {error}") from None

    def check(self, answer: str, truth: str) -> AnswerCheck:
        """Compare an answer with the right one, and wait for the result.

        Args:
            answer: What was answered: LaTeX, as it stands in a box.
            truth: The right answer, likewise.

        Raises:
            ValueError: The right answer cannot be read within the limits.
            UserError: math-verify cannot be loaded.
            CheckerFailed: The process was lost `ATTEMPTS` times, not by its limits.
        """
        if len(truth) > MOST_CHARACTERS:
            raise ValueError(
                f"a reference answer of {len(truth)} characters, more than {MOST_CHARACTERS}"
            )
        # A long one is still asked about, as one that nobody can read: that the right answer is
        # readable must not depend on what was answered.
        said, status = self._ask(truth, answer if len(answer) <= MOST_CHARACTERS else "")
        if said[:1] != ["read"]:
            raise ValueError(f"a reference answer cannot be parsed within the limits: {truth!r}")
        if status == -signal.SIGPROF:
            return AnswerCheck(equal=False, reason="time limit")
        reason = _REASONS.get(said[1], "failed") if len(said) == 2 else "failed"
        return AnswerCheck(equal=reason == "equal", reason=reason)

    def close(self) -> None:
        """End the process; a later question would start another one."""
        with self._lock:
            self._drop()

    def __enter__(self) -> Self:
        """Nothing is started before it is needed."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self.close()

    def _ask(self, truth: str, answer: str) -> tuple[list[str], int]:
        lost = ""
        for _ in range(ATTEMPTS):
            with self._lock:
                try:
                    said, status = self._running().ask(truth, answer)
                except CheckerDied as error:
                    lost = str(error)
                    self._drop()
                    continue
                except BaseException:
                    # The reply of a question that was broken off must not answer the next one.
                    self._drop()
                    raise
            # No limit of this project ends a comparison in this way: the system did.
            if status != -signal.SIGKILL:
                return said, status
            lost = "a comparison was killed"
        raise CheckerFailed(f"the answer checker crashed {ATTEMPTS} times; the last time: {lost}")

    def _running(self) -> CheckerProcess:
        if self._process is None:
            self._process = CheckerProcess(self._cpu_limit_s)
        return self._process

    def _drop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None
