"""One check of a task and its result."""

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tasks.errors import UserError


@dataclass(frozen=True, slots=True)
class Check:
    """One check and its result.

    Attributes:
        name: What is checked.
        ok: Whether it holds.
        detail: What was observed.
    """

    name: str
    ok: bool
    detail: str


def errors_as_checks(name: str, checks: Iterator[Check]) -> Iterator[Check]:
    """Yield the checks; if the task raises an exception, yield a failed check `name` instead."""
    try:
        yield from checks
    except Exception as error:  # the author's code: whatever it raises is the finding
        yield Check(name, False, error_text(error))


def attempt(name: str, look: Callable[[], Check]) -> Check:
    """Run one check; it fails if the task raises an exception."""
    return next(errors_as_checks(name, (look() for _ in range(1))))


def error_text(error: Exception) -> str:
    """Format an error with the line that raised it; a user's error is its message alone."""
    if isinstance(error, UserError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}, line {last.lineno}"
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first} ({place})"
