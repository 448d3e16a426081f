"""Detects the format of a log from its content; asks if unsure, never guesses."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from benchmark.logs.foreign.mapping import Meaning
from benchmark.logs.foreign.rows import Reading
from benchmark.logs.foreign.tensorboard import PATTERN, is_event_file, read_tensorboard
from benchmark.logs.foreign.trl import STATE, read_trl
from benchmark.logs.foreign.values import numbered_lines, parse_json, read_bytes, read_text
from benchmark.logs.foreign.verl import is_console, read_verl
from benchmark.logs.foreign.wandb import first_row, has_steps, read_wandb
from benchmark.logs.lines import MAX_LINE
from benchmark.logs.training_log import LOG
from tasks.errors import UserError

Format = Literal["arlarena-bench", "trl", "verl", "wandb", "tensorboard"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)


PACKED: Final = ".jsonl.zst"
"""Suffix of logs in submissions, which are all our own; `submission.json` has their size."""


@dataclass(frozen=True, slots=True)
class Found:
    """A log that was found.

    Attributes:
        format: Its format.
        files: Its files; several only for TensorBoard event files.
    """

    format: Format
    files: tuple[Path, ...]


def find(path: Path, chosen: Format | None = None) -> Found:
    """Find the log of a path: the file itself, or the log inside a folder.

    Args:
        path: The path as the user wrote it.
        chosen: The format given by the user; None to detect it.

    Raises:
        UserError: There is no log, there are several, or the format is unknown.
    """
    if path.is_dir():
        return _inside(path, chosen)
    if not path.exists():
        raise UserError(f"{path} does not exist; choose a log or a folder with one")
    if path.name.endswith(PACKED):
        if chosen not in (None, "arlarena-bench"):
            raise UserError(f"{path} is a submission's log, not one of {chosen}; remove --format")
        return Found("arlarena-bench", (path,))
    return Found(chosen or _format_of(path), (path,))


def readings(found: Found, own: Mapping[str, Meaning]) -> list[Reading]:
    """Read a log of another trainer.

    Args:
        found: The log, in any format but our own (`read_training_log`).
        own: Meanings of fields given by the user.

    Returns:
        Its runs; more than one only for a chart of several.

    Raises:
        UserError: It cannot be read or breaks a rule; the message names file and place.
        ValueError: It has our own format.
    """
    match found.format:
        case "trl":
            return read_trl(found.files[0], own)
        case "verl":
            return read_verl(found.files[0], own)
        case "wandb":
            return read_wandb(found.files[0], own)
        case "tensorboard":
            return read_tensorboard(found.files, own)
    raise ValueError(f"{found.format} is this project's own format")


def _inside(folder: Path, chosen: Format | None) -> Found:
    events = tuple(sorted(path for path in folder.glob(PATTERN) if path.is_file()))
    there: dict[Format, tuple[Path, ...]] = {
        "arlarena-bench": (folder / LOG,) if (folder / LOG).exists() else (),
        "trl": (folder / STATE,) if (folder / STATE).exists() else (),
        "tensorboard": events,
    }
    found = [name for name, files in there.items() if files and chosen in (None, name)]
    if len(found) == 1:
        return Found(found[0], there[found[0]])
    if found:
        raise UserError(f"{folder} has logs of {' and '.join(found)}; say which with --format")
    wanted = f"{LOG}, {STATE} or event files of TensorBoard"
    raise UserError(
        f"{folder} has no {chosen} log; give the file"
        if chosen
        else f"{folder} has no {wanted}; {_what_else(folder)}"
    )


def _what_else(folder: Path) -> str:
    """Suggest files in a folder that the user may have meant."""
    steps = {
        int(number): path
        for path in folder.glob(f"checkpoint-*/{STATE}")
        if (number := path.parent.name.rpartition("-")[2]).isdecimal()
    }
    if steps:  # each contains the whole history up to its step
        return f"name the log of its last checkpoint, {steps[max(steps)]}"
    consoles = sorted(folder.glob("*.log")) or sorted(folder.glob("*.out"))
    if consoles:
        return f"if {consoles[0]} is the console of verl, name it"
    return "name the file of the log"


def _format_of(path: Path) -> Format:
    if is_event_file(read_bytes(path)):
        return "tensorboard"
    text = read_text(path)
    if text.lstrip().startswith("{"):
        found = _format_of_json(text)
    elif has_steps(first_row(text)):
        found = "wandb"
    else:
        found = "verl" if is_console(text) else None
    if found is None:
        raise UserError(f"{path}: unknown format; choose one with --format")
    return found


def _format_of_json(text: str) -> Format | None:
    _, line = next(numbered_lines(text))
    try:
        first: Any = parse_json(line) if len(line) <= MAX_LINE else None
    except ValueError:
        first = None
    if first is None:  # one object over many lines, or a long one
        return "trl" if '"log_history"' in text else None
    match first:
        case {"log_history": _}:
            return "trl"
        case {"kind": "start"}:
            return "arlarena-bench"
        case {"step": _, "data": dict()}:
            return "verl"
        case {"_step": _}:
            return "wandb"
    return None
