"""The training log of a run, in JSON lines.

`training_log.jsonl` has one `start` line, then an `update` line for every update, a `validation`
line for every panel of every validation, and a `resume` line if a session continues with another
engine, device or versions. Lines are flat; a number that was not measured is null, never 0.
`lines.py` has the schemas, `metrics.py` the names, units and ranges of the numbers. A log may come
from somebody else, so nothing in it is trusted.
"""

import io
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Self

from benchmark.archive import read_at_most
from benchmark.files import (
    append_durably,
    lock_file,
    open_no_link,
    sync_folder,
    write_atomically,
)
from benchmark.logs.lines import (
    ROUNDING,
    Line,
    Order,
    Resume,
    Start,
    Update,
    Validation,
    parse_line,
)
from benchmark.logs.metrics import FLOAT32_MAX, METRICS, metric_of
from tasks.errors import UserError, os_error_as

LOG: Final = "training_log.jsonl"
NO_VALIDATION: Final = "has no validation, so nothing is known of its success"
_EPISODES: Final = ".episodes.jsonl.zst"
MAX_BYTES = 64 * 2**20
"""Longest accepted log, in bytes: more than 30,000 updates."""
_SHOWN: Final = 3
"""Other files of a folder without a log that are named."""


@dataclass(frozen=True, slots=True)
class TrainingLog:
    """A parsed log.

    Attributes:
        path: The file.
        start: Its first line.
        updates: Its update lines, in order.
        validations: Its validation lines, in order.
        resumes: Its resume lines, in order.
        torn: Whether an incomplete last line was skipped.
    """

    path: Path
    start: Start
    updates: tuple[Update, ...]
    validations: tuple[Validation, ...]
    resumes: tuple[Resume, ...] = ()
    torn: bool = False

    @property
    def panels(self) -> tuple[str, ...]:
        """Names of the validation panels, in order of appearance."""
        return tuple(dict.fromkeys(line.panel for line in self.validations))

    @property
    def sessions(self) -> Mapping[int, Start | Resume]:
        """The sessions with their engine and versions, by the first update of each."""
        last = self.updates[-1].update if self.updates else 0
        # If several sessions resume after the same update, only the last one made the next update.
        resumed = {line.update + 1: line for line in self.resumes if line.update < last}
        return {1: self.start, **resumed}

    def series(self, name: str) -> list[float | None]:
        """One number of all updates; None if it was not measured or is not finite.

        Raises:
            KeyError: There is no such number.
        """
        if metric_of(name) is None:
            raise KeyError(name)
        return [line.values.get(name) for line in self.updates]

    @property
    def several_tasks(self) -> bool:
        """Whether the run trained on a mixture, which has a panel for each task."""
        return "+" in self.start.task

    def over_tasks(self, field: str) -> list[tuple[int, float]]:
        """The unweighted mean of a validation number over panels.

        Args:
            field: Name of the number, a field of `Validation`.

        Returns:
            Update and mean, for updates at which all panels were played.
        """
        found: dict[int, list[float]] = {}
        for line in self.validations:
            found.setdefault(line.update, []).append(getattr(line, field))
        whole = len(self.panels)
        return [(update, fmean(each)) for update, each in found.items() if len(each) == whole]

    def of_panel(self, panel: str) -> tuple[Validation, ...]:
        """The validations of one panel."""
        return tuple(line for line in self.validations if line.panel == panel)


def cells_in(path: Path) -> list[Path]:
    """The packed training logs in a study's results, in order; empty elsewhere.

    Args:
        path: The folder of a track, or FOLDER/RECIPE for the seeds of one recipe.
    """
    folder, recipe = (path, "*") if path.is_dir() else (path.parent, escape(path.name))
    packed = [] if path.is_file() else folder.glob(f"{recipe}-s[0-9]*.jsonl.zst")
    return sorted(path for path in packed if not path.name.endswith(_EPISODES))


def is_beside_log(path: Path, given: Collection[Path]) -> bool:
    """Whether a file accompanies a training log of a study that is also given.

    These are a cell's facts and episodes, which a shell includes for `FOLDER/grpo-s*`.
    """
    stem = path.name.removesuffix(_EPISODES).removesuffix(".json")
    return stem != path.name and path.with_name(f"{stem}.jsonl.zst") in given


def find_log(path: Path) -> Path:
    """Find the training log of a path: the file itself, or the one in a run folder.

    Raises:
        UserError: There is none.
    """
    if path.is_dir():
        if not (path / LOG).exists():
            others = sorted(each.name for each in path.glob("*.jsonl*"))[:_SHOWN]
            choose = f"choose a file, such as {', '.join(others)}" if others else ""
            choose = choose or "choose a training log or a folder with one"
            raise UserError(f"{path} has no {LOG}; {choose}")
        return path / LOG
    if not path.exists():
        raise UserError(f"{path} does not exist; choose a training log or a folder with one")
    return path


def read_training_log(path: Path, *, allow_torn: bool = False) -> TrainingLog:
    """Read a log and check all of it: schema, ranges, order.

    Args:
        path: The file; compressed if its name ends in `.zst`.
        allow_torn: Skip an incomplete last line, which a killed process may leave.

    Raises:
        UserError: It cannot be read or is not valid; the message names file and line.
    """
    return parse_training_log(log_content(path), path, allow_torn=allow_torn)


def parse_training_log(content: bytes, path: Path, *, allow_torn: bool = False) -> TrainingLog:
    """Read the content of a log and check all of it.

    Args:
        content: The content.
        path: Its name in messages.
        allow_torn: See `read_training_log`.

    Raises:
        UserError: See `read_training_log`.
    """
    whole, torn = _split(content)
    if torn and not allow_torn:
        number = len(whole) + 1
        raise UserError(f"{path}, line {number}: is incomplete; resume the training run to fix it")
    lines = list(_parsed(path, whole))
    if not lines or not isinstance(lines[0], Start):
        raise UserError(f"{path} is empty; a training log begins with a start line")
    updates = tuple(line for line in lines if isinstance(line, Update))
    others = [line for line in lines if not isinstance(line, Update)]
    validations = tuple(line for line in others if isinstance(line, Validation))
    resumes = tuple(line for line in others if isinstance(line, Resume))
    return TrainingLog(path, lines[0], updates, validations, resumes, bool(torn))


def truncate_after(path: Path, update: int, validated: int) -> int:
    """Truncate a log to a checkpoint: remove lines after its update, and an incomplete line.

    The remaining lines stay byte-identical.

    Args:
        path: The file.
        update: The checkpoint's update; 0 keeps no update.
        validated: Last update whose validations the checkpoint includes; 0 for those of the init,
            -1 for none.

    Returns:
        The number of removed lines.

    Raises:
        UserError: The log is not valid, is in use, cannot be written, or lacks that update.
    """
    content, torn = _read(path)
    lines = list(_parsed(path, content))
    updates = [line.update for line in lines if isinstance(line, Update)]
    if update and update not in updates:
        raise UserError(
            f"{path} has no line of update {update}, the checkpoint's update (its "
            f"last is {max(updates, default=0)}), so they are from different runs; "
            "choose another folder"
        )
    known = [
        isinstance(line, Start)
        or line.update <= (validated if isinstance(line, Validation) else update)
        for line in lines
    ]
    # The resume line of a session after the checkpoint is removed as well.
    others = (at for at, line in enumerate(lines) if known[at] and not isinstance(line, Resume))
    last = max(others, default=-1)
    kept = [text for at, text in enumerate(content) if known[at] and at <= last]
    cut = len(content) - len(kept) + bool(torn)
    if cut:
        with _writing(path):
            descriptor = _locked(path, os.O_RDWR)
            try:
                write_atomically(path, b"".join(kept))
            finally:
                os.close(descriptor)
    return cut


def set_aside(path: Path) -> Path | None:
    """Move a log out of the way of a run that starts over in its folder.

    Returns:
        The log's new path; None if there was none.

    Raises:
        UserError: Another process is writing it, or the folder cannot be written.
    """
    if not path.exists():
        return None
    with _writing(path):
        descriptor = _locked(path, os.O_RDWR)
        try:
            aside = path.with_name(f"{path.name}.old")
            path.replace(aside)
            sync_folder(path.parent)
        finally:
            os.close(descriptor)
    return aside


class TrainingLogWriter:
    """Appends to a log with an exclusive lock. Use as a context manager.

    Args:
        path: The file; created if missing. An existing log is read and continued; to resume a run,
            call `truncate_after` first.

    Attributes:
        log: The log's content when it was opened; None for a new one.

    Raises:
        UserError: The file cannot be written, is in use, or is not a valid log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log: TrainingLog | None = None
        self._order = Order()
        with _writing(path):
            self._file = _locked(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)
        try:
            if os.fstat(self._file).st_size:
                self.log = read_training_log(path)
                for line in _parsed(path, _read(path)[0]):
                    self._order.add(line)
            sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def append(self, line: Mapping[str, Any]) -> dict[str, Any]:
        """Add a line durably: once this returns, it survives a crash.

        Numbers of an update line may have any type that `float` accepts. Those that are not finite
        in float32 are written as null and listed in `nonfinite`; missing names of `METRICS` are
        written as null. A number that is outside its range only by rounding (1e-6) is clamped.

        Returns:
            The line as written.

        Raises:
            ValueError: The line breaks the schema or the order, which is a bug in the caller.
            UserError: The disk is full or failed. Earlier lines stay.
        """
        written = _cleaned(line) if line.get("kind") == "update" else dict(line)
        text = json.dumps(written, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        content = text.encode() + b"\n"
        self._order.add(parse_line(content))
        with _writing(self.path):
            append_durably(self._file, content)
        return written

    def close(self) -> None:
        """Release the lock."""
        if self._file >= 0:
            os.close(self._file)
        self._file = -1


def _cleaned(line: Mapping[str, Any]) -> dict[str, Any]:
    """An update line as written: all names, plain numbers, null for values that are not finite."""
    of_tasks = {name: metric for name in line if "@" in name and (metric := metric_of(name))}
    written: dict[str, Any] = {
        name: line[name] for name in line if name not in METRICS and name not in of_tasks
    }
    nonfinite = []
    for name, metric in {**METRICS, **of_tasks}.items():
        value = line.get(name)
        if value is None or isinstance(value, bool | str):  # the schema refuses the last two
            written[name] = value
            continue
        number = value if isinstance(value, int) else float(value)
        if abs(number) <= FLOAT32_MAX:
            written[name] = _without_rounding(number, *metric.range)
        else:
            written[name] = None
            nonfinite.append(name)
    if nonfinite:
        written["nonfinite"] = nonfinite
    return written


def _without_rounding(number: float, low: float, high: float) -> float:
    """Clamp a number to its range if it is outside only by rounding."""
    nearest = min(max(number, low), high)
    return nearest if abs(number - nearest) <= ROUNDING else number


def _read(path: Path) -> tuple[list[bytes], bytes]:
    """All complete lines of a file with their line ends, and the rest after the last one.

    Raises:
        UserError: It cannot be read or is too long.
    """
    return _split(log_content(path))


def log_content(path: Path) -> bytes:
    """A log's content, decompressed if its file name ends in `.zst`.

    Raises:
        UserError: It cannot be read or is too long.
    """
    if path.suffix == ".zst":
        return read_at_most(path, MAX_BYTES)
    refused = os_error_as(f"{path} cannot be read")
    with refused, os.fdopen(open_no_link(path, os.O_RDONLY), "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        content = stream.read(min(size, MAX_BYTES))
    if size > MAX_BYTES:
        raise UserError(f"{path} is longer than {MAX_BYTES} bytes")
    return content


def _split(content: bytes) -> tuple[list[bytes], bytes]:
    """Complete lines with their line ends, and the rest after the last one."""
    lines = io.BytesIO(content).readlines()
    rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
    return lines, rest


def _parsed(path: Path, content: Iterable[bytes]) -> Iterator[Line]:
    """Parse and check line by line.

    Raises:
        UserError: A line is not valid or is in the wrong place.
    """
    order = Order()
    for number, text in enumerate(content, 1):
        try:
            line = parse_line(text)
            order.add(line)
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}") from error
        yield line


def _locked(path: Path, flags: int) -> int:
    """Open a file with an exclusive lock.

    Raises:
        UserError: Another process is writing it.
        OSError: It cannot be opened.
    """
    try:
        return lock_file(path, flags)
    except BlockingIOError:
        raise UserError(f"{path} is being written by another process; wait for it") from None


def _writing(path: Path) -> AbstractContextManager[None]:
    kept = "; the log so far is kept: fix this and resume from the last checkpoint"
    return os_error_as(f"{path} cannot be written", kept)
