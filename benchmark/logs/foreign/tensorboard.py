"""TensorBoard event files, read with TensorBoard's own loader.

An event file is a row of records with checksums, each a protocol buffer of one step. A file that a
killed run left behind may end within a record: what is whole counts, and a note says so. A damaged
record in the middle is an error; the loader alone would end there without a word. The start of a
session names the step from which all that was written before is void (`purge_step`).
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
"""Bytes of a record beside its content: its length and two checksums."""
_VERSION = b"brain.Event:"
_BEGINNING = 64


def read_tensorboard(paths: Sequence[Path], own: Mapping[str, Meaning]) -> list[Reading]:
    """Read the event files of one run.

    Args:
        paths: The files, in the order in which they were written.
        own: What fields mean by the user's own word.

    Returns:
        The one run.

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
    """Whether a file that begins so is an event file: its first record says the version."""
    return _VERSION in beginning[:_BEGINNING] and beginning[:1] != b"{"


def _records(path: Path) -> tuple[int, bool]:
    """How many whole records a file has, by their lengths alone, and whether there is a rest.

    The lengths are checked before the loader believes them: it would make room for any.
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
    """The rows of a file; told of each start of a session, after which earlier rows are void."""
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
    """What a summary says: one number, as PyTorch and TensorFlow write it, or something else."""
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
    except ValueError:  # more bytes than one number has
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
