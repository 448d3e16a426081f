"""Compressed files of submissions: written the same way everywhere, read within stated bounds."""

import hashlib
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from benchmark.files import open_no_link
from tasks.errors import UserError

LEVEL = 19
_CHUNK = 2**20


def compress(content: bytes) -> bytes:
    """One Zstandard frame; the same content gives the same bytes."""
    compressed: bytes = pa.Codec("zstd", compression_level=LEVEL).compress(content, asbytes=True)
    return compressed


def read_compressed(path: Path, size: int) -> bytes:
    """What is compressed in a file, if it is exactly so long.

    Args:
        path: The file; not a link.
        size: Bytes that it must hold.

    Raises:
        UserError: See `unpacked`.
    """
    return b"".join(unpacked(path, size))


def unpacked(path: Path, size: int) -> Iterator[bytes]:
    """What is compressed in a file, part by part, if it is exactly so long.

    At most 1 MiB beyond the stated size is unpacked, whatever the file holds.

    Args:
        path: The file; not a link.
        size: Bytes that it must hold.

    Yields:
        Parts of at most 1 MiB, in order. That there are too few is known after the last one only.

    Raises:
        UserError: It is not a Zstandard file, is damaged, or holds more or less.
    """
    found = 0
    for part in _parts(path):
        found += len(part)
        if found > size:
            break
        yield part
    if found != size:
        than = "more" if found > size else f"{found:,}"
        raise UserError(f"{path.name} holds {than} bytes, {size:,} are stated")


def read_at_most(path: Path, most: int) -> bytes:
    """What is compressed in a file of any size.

    Args:
        path: The file; not a link.
        most: Bytes that it may hold; no more are unpacked.

    Raises:
        UserError: It is no Zstandard file, is damaged, or holds more.
    """
    content = io.BytesIO()
    for part in _parts(path):
        content.write(part)
        if content.tell() > most:
            raise UserError(f"{path} holds more than {most} bytes")
    return content.getvalue()


def _parts(path: Path) -> Iterator[bytes]:
    """What is compressed in a file, part by part.

    Raises:
        UserError: It is no Zstandard file or is damaged.
    """
    try:
        with (
            os.fdopen(open_no_link(path, os.O_RDONLY), "rb") as stored,
            pa.CompressedInputStream(pa.PythonFile(stored, "r"), "zstd") as stream,
        ):
            while part := stream.read(_CHUNK):
                yield part
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path.name} cannot be unpacked: {str(error).splitlines()[0]}") from error


def lines_of(parts: Iterable[bytes], longest: int) -> Iterator[bytes]:
    """The lines of a content that comes in parts, each with its end.

    Args:
        parts: The content.
        longest: Bytes of a line that are read.

    Yields:
        Lines. One without its end is the last, and stands for the rest of the content: it has none,
        or it is longer than `longest`.
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
    """Hash and size of a stored file.

    Raises:
        OSError: It is a link or cannot be read.
    """
    digest, size = hashlib.sha256(), 0
    with os.fdopen(open_no_link(path, os.O_RDONLY), "rb") as stored:
        while part := stored.read(_CHUNK):
            digest.update(part)
            size += len(part)
    return digest.hexdigest(), size
