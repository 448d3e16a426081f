"""Compressed files of submissions: written reproducibly, read within fixed limits."""

import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from benchmark.files import open_no_link
from tasks.errors import UserError
from tasks.texts import first_line

LEVEL = 19
_CHUNK = 2**20
_MAGIC: Final = b"\x28\xb5\x2f\xfd"


def compress(content: bytes) -> bytes:
    """Compress to one Zstandard frame; the same content gives the same bytes."""
    compressed: bytes = pa.Codec("zstd", compression_level=LEVEL).compress(content, asbytes=True)
    return compressed


def read_compressed(path: Path, size: int) -> bytes:
    """Decompress a file of known decompressed size.

    Args:
        path: The file; must not be a link.
        size: The decompressed size in bytes.

    Raises:
        UserError: See `unpacked`.
    """
    return b"".join(unpacked(path, size))


def unpacked(path: Path, size: int) -> Iterator[bytes]:
    """Decompress a file of known decompressed size, chunk by chunk.

    Decompression stops at most 1 MiB beyond the given size, whatever the file contains.

    Args:
        path: The file; must not be a link.
        size: The decompressed size in bytes.

    Yields:
        Chunks of at most 1 MiB, in order. A short file is detected only after the last one.

    Raises:
        UserError: It is not a Zstandard file, is damaged, has another size, or is not exactly one
            frame.
    """
    found = 0
    for part in _parts(path):
        found += len(part)
        if found > size:
            break
        yield part
    if found != size:
        than = "more" if found > size else f"{found:,}"
        raise UserError(f"{path.name} holds {than} bytes, but {size:,} are stated")
    with os.fdopen(open_no_link(path, os.O_RDONLY), "rb") as stored:
        if not _is_one_frame(stored):
            raise UserError(
                f"{path.name} is not a single Zstandard frame: skippable frames hold bytes that "
                "are never unpacked"
            )


def _is_one_frame(stored: BinaryIO) -> bool:
    """Whether a decompressible stream is exactly one frame.

    Readers skip skippable frames, whatever their content, and join several frames. Format: RFC
    8878, sections 3.1.1 and 3.1.1.2.
    """
    magic, descriptor = stored.read(4), int.from_bytes(stored.read(1))
    if magic != _MAGIC:
        return False
    single = bool(descriptor & 0x20)
    content_size = (int(single), 2, 4, 8)[descriptor >> 6]
    stored.seek((not single) + (0, 1, 2, 4)[descriptor & 3] + content_size, os.SEEK_CUR)
    last = False
    while not last:
        head = stored.read(3)
        if len(head) < 3:
            return False
        header = int.from_bytes(head, "little")
        last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
        # A block of one repeated byte stores only that byte.
        stored.seek(1 if kind == 1 else size, os.SEEK_CUR)
    stored.seek(4 if descriptor & 4 else 0, os.SEEK_CUR)
    return stored.tell() == os.fstat(stored.fileno()).st_size


def read_at_most(path: Path, most: int) -> bytes:
    """Decompress a file of unknown size, up to a limit.

    Args:
        path: The file; must not be a link.
        most: Maximum decompressed size in bytes; decompression stops beyond it.

    Raises:
        UserError: It is not a Zstandard file, is damaged, or is larger.
    """
    content = io.BytesIO()
    for part in _parts(path):
        content.write(part)
        if content.tell() > most:
            raise UserError(f"{path} holds more than {most} bytes")
    return content.getvalue()


def _parts(path: Path) -> Iterator[bytes]:
    """Decompress a file, chunk by chunk.

    Raises:
        UserError: It is not a Zstandard file or is damaged.
    """
    try:
        with (
            os.fdopen(open_no_link(path, os.O_RDONLY), "rb") as stored,
            pa.CompressedInputStream(pa.PythonFile(stored, "r"), "zstd") as stream,
        ):
            while part := stream.read(_CHUNK):
                yield part
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path.name} cannot be unpacked: {first_line(error)}") from error


def lines_of(parts: Iterable[bytes], longest: int) -> Iterator[bytes]:
    """Split content that comes in chunks into lines that keep their line ends.

    Args:
        parts: The chunks.
        longest: Maximum length of a line, in bytes.

    Yields:
        Lines. A line without a line end is the last: either the content ends there, or the line is
        longer than `longest` and the rest of the content is not read.
    """
    rest = b""
    for part in parts:
        lines = io.BytesIO(rest + part).readlines()
        rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
        yield from lines
        if len(rest) > longest:
            break
    if rest:
        yield rest


def sha256_of(path: Path) -> tuple[str, int]:
    """SHA-256 and size of a stored file.

    Raises:
        OSError: It is a link or cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with os.fdopen(open_no_link(path, os.O_RDONLY), "rb") as stored:
        while part := stored.read(_CHUNK):
            digest.update(part)
            size += len(part)
    return digest.hexdigest(), size
