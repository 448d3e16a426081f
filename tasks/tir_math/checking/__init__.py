"""Whether an answer is the right one: decided by mathematics, in a process of its own."""

from tasks.tir_math.checking.checker import (
    CPU_LIMIT_S,
    MOST_CHARACTERS,
    PACKAGES,
    RULE,
    Checker,
    CheckerFailed,
    Reason,
    Verdict,
)

__all__ = [
    "CPU_LIMIT_S",
    "MOST_CHARACTERS",
    "PACKAGES",
    "RULE",
    "Checker",
    "CheckerFailed",
    "Reason",
    "Verdict",
]
