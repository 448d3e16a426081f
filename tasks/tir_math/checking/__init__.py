"""Whether an answer is the right one: decided by mathematics, in a process of its own."""

from tasks.tir_math.checking.checker import (
    CPU_LIMIT_S,
    MOST_CHARACTERS,
    PACKAGES,
    RULE,
    AnswerCheck,
    Checker,
    CheckerFailed,
    Reason,
)

__all__ = [
    "CPU_LIMIT_S",
    "MOST_CHARACTERS",
    "PACKAGES",
    "RULE",
    "AnswerCheck",
    "Checker",
    "CheckerFailed",
    "Reason",
]
