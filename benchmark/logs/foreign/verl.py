"""Logs of verl, verl-agent and ARLArena: lines of their file logger and their console.

The file logger (`VERL_FILE_LOGGER_PATH`) writes one `{"step": 3, "data": {...}}` per line. The
console prints `step:3 - actor/kl_loss:0.001 - ...`, one line per step, among much else; Ray adds
the process as a prefix (`(TaskRunner pid=17)`, colored). Older versions print three decimals, newer
ones all of them, as `np.float64(0.25)` for numpy values.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmark.logs.foreign.mapping import Meaning
from benchmark.logs.foreign.rows import LogRow, Reading, RowCollector
from benchmark.logs.foreign.values import (
    NotANumber,
    Value,
    fail_at,
    json_value,
    numbered_lines,
    parse_json,
    read_text,
    step_of,
    text_value,
)
from benchmark.logs.lines import MAX_LINE
from tasks.errors import UserError

_COLOR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Ray's prefix is short; without a limit, a malicious line would take quadratic time.
_STEP_LINE = re.compile(r"(?:\([^()]{0,200}\) ?)?step:(\d{1,12}) - (.+)", re.ASCII)
_NUMPY = re.compile(r"(?:np|numpy)\.\w+\((.*)\)")
_ROUNDED = re.compile(r"-?\d+\.\d{3}|-?nan|-?inf", re.ASCII)
_ROUNDED_LINES = 2
"""Number of lines with only three-decimal numbers from which rounding is assumed."""
_RESOLUTION = 0.001
_ROUNDED_NOTE = (
    "all numbers are rounded to three decimals: 0 may be anything below 0.0005, and "
    "a gradient norm counts as a spike only if rounding cannot explain it"
)


@dataclass(slots=True)
class _Decimals:
    """Counts a console's step lines, and those in which all numbers have three decimals."""

    lines: int = 0
    three: int = 0

    @property
    def rounded(self) -> bool:
        return self.three == self.lines >= _ROUNDED_LINES


def read_verl(path: Path, own: Mapping[str, Meaning]) -> list[Reading]:
    """Read a file logger's JSON lines or a console's output.

    Args:
        path: The file.
        own: Meanings of fields given by the user.

    Returns:
        Its run, as the only element.

    Raises:
        UserError: It cannot be read, contains no step, or breaks a rule of `rows`.
    """
    text = read_text(path)
    collector = RowCollector(path, "verl", own)
    if text.lstrip().startswith("{"):
        collector.add_all(_json_rows(path, text))
        return [collector.reading(path.stem)]
    decimals = _Decimals()
    collector.add_all(_console_rows(path, text, decimals))
    if decimals.rounded:
        return [collector.reading(path.stem, [_ROUNDED_NOTE], _RESOLUTION)]
    return [collector.reading(path.stem)]


def is_console(text: str) -> bool:
    """Whether any line is one that verl prints after a step."""
    return any(True for _ in _step_lines(text))


def _json_rows(path: Path, text: str) -> Iterator[LogRow]:
    for number, line in numbered_lines(text):
        try:
            if len(line) > MAX_LINE:
                raise ValueError(f"longer than {MAX_LINE} characters")
            step, values = _json_line(line)
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from error
        yield LogRow(f"line {number}", step, values)


def _json_line(line: str) -> tuple[int, dict[str, Value]]:
    fields = parse_json(line)
    data = fields.get("data") if isinstance(fields, dict) else None
    if not isinstance(data, dict):
        raise ValueError('is not an object with "step" and "data"')
    around = {name: json_value(fields[name]) for name in fields if name not in ("step", "data")}
    return step_of(fields.get("step")), {**around, **{n: json_value(v) for n, v in data.items()}}


def _step_lines(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Step lines with their numbers; a progress bar may precede one on the same line."""
    for number, line in numbered_lines(text):
        if "step:" not in line:
            continue
        for part in line.split("\r"):
            if match := _STEP_LINE.fullmatch(_COLOR.sub("", part).strip()):
                yield number, match


def _console_rows(path: Path, text: str, decimals: _Decimals) -> Iterator[LogRow]:
    for number, match in _step_lines(text):
        values: dict[str, Value] = {}
        texts = []
        for item in match[2].split(" - "):
            name, colon, shown = item.rpartition(":")
            value = text_value(_bare(shown))
            if not colon or not name or value is None or isinstance(value, NotANumber):
                problem = f"begins like a step line, but {item[:80]!r} is not a name and a number"
                fail_at(path, number, f"{problem}; delete the line if it is not a step")
            if name in values:
                fail_at(path, number, f"{name!r} appears twice in one line")
            values[name] = value
            texts.append(shown)
        decimals.lines += 1
        decimals.three += all(_ROUNDED.fullmatch(shown) for shown in texts)
        try:
            step = step_of(match[1])
        except ValueError as error:
            fail_at(path, number, str(error))
        yield LogRow(f"line {number}", step, values)
    if not decimals.lines:
        raise UserError(
            f"{path} has no step line such as `step:12 - actor/grad_norm:0.1`; choose "
            "a verl log, or another --format"
        )


def _bare(shown: str) -> str:
    """A number without its numpy type."""
    match = _NUMPY.fullmatch(shown)
    return match[1] if match else shown
