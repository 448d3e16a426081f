"""What a forgery is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.support.submissions.small import Copy


@dataclass(frozen=True, slots=True)
class Forgery:
    """One way to cheat, and what the check says to it.

    Attributes:
        name: What is done.
        base: What it is done to.
        change: Does it.
        message: Part of one of the findings, with the place where it is: `file, field: problem`.
    """

    name: str
    base: Literal["policy", "trained"]
    change: Callable[[Copy], object]
    message: str
