"""Submissions that wait for a decision, from a file of `scripts/queue_of_submissions.py`.

{"day": "2027-01-02", "waiting": [{"number": 7, "entry": "20270102_grpo",
"opened": "2027-01-01", "state": "passed"}]}
"""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

from leaderboard.board.protocols import Queue, Waiting
from tasks.errors import UserError, os_error_as
from tasks.texts import on_one_line

STATES: Final = {
    "waiting": "not checked yet",
    "running": "being checked",
    "passed": "check passed",
    "rerun": "waits for a rerun by maintainers",
    "failed": "check failed",
}
"""States of a pull request's check, and their names on the page."""
MAX_BYTES: Final = 2**20
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def read_queue(path: Path) -> Queue:
    """Read the queue.

    Raises:
        UserError: The file cannot be read, or is not a queue.
    """
    with os_error_as(f"--queue {path} cannot be read"):
        content = path.read_bytes()
    try:
        if len(content) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        plain = json.loads(content)
        if not isinstance(plain, dict) or set(plain) != {"day", "waiting"}:
            raise ValueError("it must hold day and waiting")
        return Queue(_day(plain["day"]), tuple(_waiting(each) for each in plain["waiting"]))
    except (ValueError, TypeError) as error:
        said = on_one_line(str(error))
        raise UserError(
            f"--queue {path} is not a queue file: {said}; make it with "
            "scripts/queue_of_submissions.py"
        ) from error


def _waiting(plain: Any) -> Waiting:
    names = [each.name for each in fields(Waiting)]
    if not isinstance(plain, dict) or sorted(plain) != sorted(names):
        raise ValueError(f"an item must hold {', '.join(names)}")
    number, entry, state = plain["number"], plain["entry"], plain["state"]
    if type(number) is not int or number < 1 or not isinstance(entry, str):
        raise ValueError("a number must be above 0 and an entry a text")
    if state not in STATES:
        raise ValueError(f"a state must be one of {', '.join(STATES)}")
    return Waiting(number, on_one_line(entry), _day(plain["opened"]), state)


def _day(plain: Any) -> str:
    if not isinstance(plain, str) or not _DAY.fullmatch(plain):
        raise ValueError("a day must look like 2027-01-02")
    return plain
