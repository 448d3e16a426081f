"""The exception for mistakes that the user can fix, and suggestions to fix them."""

from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Final

MOST_NAMES: Final = 20
"""Names that a message lists; of more only the number is said."""


class UserError(Exception):
    """A mistake of the user's: what is wrong, where, and what to do.

    The command line prints the message as one line and exits with code 2;
    `--debug` shows the traceback.
    """


class TransientError(Exception):
    """A failure that changed nothing: the same call may succeed if it is made again."""


@contextmanager
def os_error_as(what: str, advice: str = "") -> Iterator[None]:
    """Say in one line what the system has refused.

    Args:
        what: The beginning of the line, such as `FILE cannot be written`.
        advice: Its end, after the reason: what to do, with its separator.

    Raises:
        UserError: The block has met an `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{what}: {error.strerror or error}{advice}") from error


def suggestion(name: str, known: tuple[str, ...]) -> str:
    """The end of an "unknown name" message: near matches, or all names if none is near."""
    # `GRPO` means `grpo`: letters are compared without their case.
    names: dict[str, str] = {}
    for one in known:
        names.setdefault(one.casefold(), one)
    close = [names[one] for one in get_close_matches(name.casefold(), names, n=3, cutoff=0.5)]
    if close:
        listed = " or ".join(filter(None, (", ".join(close[:-1]), close[-1])))
        return f"; did you mean {listed}?"
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    return f"; there are {', '.join(known[:MOST_NAMES])}{more}" if known else "; there are none"
