"""Definition of a forgery."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tests.support.submissions.small import Copy


@dataclass(frozen=True, slots=True)
class Forgery:
    """One way to cheat, and the check's message about it.

    Attributes:
        name: Description of the change.
        base: The submission to change.
        change: Makes the change.
        message: Part of one of the findings, with its place: `file, field: problem`.
    """

    name: str
    base: Literal["policy", "trained"]
    change: Callable[[Copy], object]
    message: str
