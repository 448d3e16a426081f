"""TensorBoard event files, read with TensorBoard's own loader.

An event file is a sequence of records with checksums, each a protocol buffer of one step. A file
from a killed run may end inside a record: complete records count, and a note says so. A damaged
record in the middle is an error; the loader itself would stop there silently. The start of a
session names the step from which earlier records are void (`purge_step`).
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmark.logs.foreign.mapping import Meaning
from benchmark.logs.foreign.rows import LogRow, Reading, RowCollector
from benchmark.logs.foreign.values import NOT_A_NUMBER, Value, float32, read_bytes, step_of
from benchmark.versions import install_text
from tasks.errors import UserError

PATTERN: Final = "*.tfevents.*"
_LENGTH = struct.Struct("<Q")
_AROUND = 16
"""Bytes of a record besides its content: its length and two checksums."""
_VERSION = b"brain.Event:"
_BEGINNING = 64


def read_tensorboard(paths: Sequence[Path], own: Mapping[str, Meaning]) -> list[Reading]:
    """Read the event files of one run.

    Args:
        paths: The files, in the order in which they were written.
        own: Meanings of fields given by the user.

    Returns:
        The run, as the only element.

    Raises:
        UserError: TensorBoard is not installed, a file cannot be read or is damaged, or a rule of
            `rows` is broken.
    """
    collector = RowCollector(paths[0].parent if len(paths) > 1 else paths[0], "tensorboard", own)
    notes: list[str] = []
    for path in paths:
        whole, torn = _records(path)
        if torn:
            notes.append(f"the last record of {path.name} is incomplete and was skipped")
        collector.add_all(_rows(path, whole, collector.resume_at))
    return [collector.reading(paths[0].resolve().parent.name, notes)]


def is_event_file(beginning: bytes) -> bool:
    """Whether this is the beginning of an event file, whose first record states the version."""
    return _VERSION in beginning[:_BEGINNING] and beginning[:1] != b"{"


def _records(path: Path) -> tuple[int, bool]:
    """Count a file's complete records by their lengths, and check for an incomplete rest.

    The lengths are checked before the loader uses them, because it would allocate any size.
    """
    content = read_bytes(path)
    if not is_event_file(content):
        raise UserError(f"{path} is not a TensorBoard event file; choose one, or another --format")
    position = count = 0
    while len(content) - position >= _AROUND:
        (length,) = _LENGTH.unpack_from(content, position)
        if position + _AROUND + length > len(content):
            break
        position += _AROUND + length
        count += 1
    return count, position < len(content)


def _rows(path: Path, whole: int, resume_at: Callable[[int], None]) -> Iterator[LogRow]:
    """The rows of a file; calls `resume_at` at each session start that voids earlier rows."""
    loader = _loader()
    number = 0
    for number, event in zip(range(1, whole + 1), _events(path, loader), strict=False):
        values = {value.tag: _number(value) for value in event.summary.value}
        if len(values) < len(event.summary.value):
            raise UserError(f"{path}, record {number}: a name appears twice")
        begins = event.session_log.status == event.session_log.START
        if values or begins:
            try:
                step = step_of(event.step)
            except ValueError as error:
                raise UserError(f"{path}, record {number}: {error}") from error
        if begins:
            resume_at(step)
        if values:
            yield LogRow(f"record {number} of {path.name}", step, values)
    if number < whole:
        raise UserError(f"{path}, record {number + 1} of {whole}: is corrupt; restore the file")


def _events(path: Path, loader: Any) -> Iterator[Any]:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        yield from loader(str(path)).Load()
    except DecodeError:
        return


def _number(value: Any) -> Value:
    """The value of a summary: one number, as PyTorch and TensorFlow write it, or something else."""
    from tensorboard.compat.proto import types_pb2
    from tensorboard.util import tensor_util

    if value.WhichOneof("value") == "simple_value":
        return float32(value.simple_value)
    numbers = (types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE, types_pb2.DT_HALF)
    if value.WhichOneof("value") != "tensor" or value.tensor.dtype not in numbers:
        return NOT_A_NUMBER
    if value.tensor.tensor_shape.dim:
        return NOT_A_NUMBER
    try:
        return float32(float(tensor_util.make_ndarray(value.tensor)))
    except ValueError:  # too many bytes for one number
        return NOT_A_NUMBER


def _loader() -> Any:
    try:
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
    except ImportError as error:
        raise UserError(
            "event files are read with tensorboard, which is not installed: "
            f"{install_text('tracking')}"
        ) from error
    return LegacyEventFileLoader
