"""Files, JSON and numbers of foreign logs, read as untrusted input."""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NoReturn

from benchmark.files import open_no_link
from benchmark.logs.metrics import FLOAT32_MAX
from benchmark.logs.training_log import MAX_BYTES
from tasks.errors import UserError, os_error_as
from tasks.texts import cut

MAX_STEP = 10**9
MAX_ROWS = 500_000
"""Maximum rows, or objects of a JSON file; with the length, this bounds a log's memory."""
_DIGITS: Final = 4_000
"""Maximum digits of an integer: Python itself reads at most 4,300."""
_NUMBER = re.compile(
    r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)", re.ASCII | re.I
)


class NotANumber:
    """A field's value that is not a number: text, a table, an image."""


NOT_A_NUMBER: Final = NotANumber()
Value = float | NotANumber | None
"""A number of a row; None if the field is present but empty."""


def read_text(path: Path) -> str:
    """Read a whole text log.

    Raises:
        UserError: It cannot be read, is a link, is too long or is not UTF-8.
    """
    content = read_bytes(path)
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path}, line {line}: is not UTF-8; choose a text log") from error


def read_bytes(path: Path) -> bytes:
    """Read a whole log.

    Raises:
        UserError: It cannot be read, is a link, or is too long.
    """
    refused = os_error_as(f"{path} cannot be read")
    with refused, os.fdopen(open_no_link(path, os.O_RDONLY), "rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise UserError(
            f"{path} is longer than {MAX_BYTES} bytes; keep only the lines with metrics"
        )
    return content


def parse_json(text: str) -> Any:
    """Parse JSON with NaN and Infinity, as Python and JavaScript write it.

    Raises:
        ValueError: It is not JSON, is nested too deeply, or has duplicate names in an object.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_whole)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from error


def _whole(digits: str) -> int:
    """Parse an integer, with our own message if it is too long for Python.

    Raises:
        ValueError: It has too many digits.
    """
    if len(digits) > _DIGITS:
        raise ValueError(f"a whole number has {len(digits):,} digits")
    return int(digits)


def json_value(value: Any) -> Value:
    """Convert a value of a JSON object; text is never a number, whatever it contains."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NOT_A_NUMBER
    return float32(value)


def text_value(text: str) -> Value:
    """Convert text to a number; empty text means no value."""
    if not text:
        return None
    return float32(float(text)) if _NUMBER.fullmatch(text) else NOT_A_NUMBER


def float32(value: float) -> float:
    """The number, or an infinity if it exceeds float32."""
    if value > FLOAT32_MAX:
        return math.inf
    return -math.inf if value < -FLOAT32_MAX else float(value)


def step_of(value: Any) -> int:
    """Convert a row's step.

    Raises:
        ValueError: It is not an integer from 0 to `MAX_STEP`.
    """
    number = text_value(value) if isinstance(value, str) else json_value(value)
    if isinstance(number, float) and number.is_integer() and 0 <= number <= MAX_STEP:
        return int(number)
    raise ValueError(f"the step is {short(value)} and not an integer from 0 to {MAX_STEP}")


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Nonempty lines with their numbers, from 1."""
    start = number = 0
    while start < len(text):  # one at a time, because a list of all could be large
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        line, start, number = text[start:end], end + 1, number + 1
        if line.strip():
            yield number, line


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        name, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"{short(name)} appears twice in one object")
    return fields


def short(value: Any) -> str:
    """A foreign value as short one-line text, just enough to recognize it."""
    return cut(repr(value), 80)


def fail_at(path: Path, number: int, what: str) -> NoReturn:
    """Report what is wrong with a line.

    Raises:
        UserError: Always.
    """
    raise UserError(f"{path}, line {number}: {what}")
