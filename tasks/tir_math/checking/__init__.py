"""Checks answers mathematically, in a separate process."""

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
