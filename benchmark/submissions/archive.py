"""Compressed files of submissions: written the same way everywhere, read within stated bounds."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from benchmark.files import open_no_link, write_atomically
from tasks.errors import UserError

LEVEL = 19
_CHUNK = 2**20


def compress(content: bytes) -> bytes:
    """One Zstandard frame; the same content gives the same bytes."""
    compressed: bytes = pa.Codec("zstd", compression_level=LEVEL).compress(content, asbytes=True)
    return compressed


def read_compressed(path: Path, size: int) -> bytes:
    """What is compressed in a file, if it is exactly so long.

    Nothing beyond the stated size is unpacked, whatever the file holds.

    Args:
        path: The file; not a link.
        size: Bytes that it must hold.

    Raises:
        UserError: It is no Zstandard file, is damaged, or holds more or less.
    """
    parts: list[bytes] = []
    found = 0
    try:
        with (
            os.fdopen(open_no_link(path, os.O_RDONLY), "rb") as stored,
            pa.CompressedInputStream(pa.PythonFile(stored, "r"), "zstd") as stream,
        ):
            while found <= size and (part := stream.read(min(_CHUNK, size + 1 - found))):
                parts.append(part)
                found += len(part)
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path.name} cannot be unpacked: {str(error).splitlines()[0]}") from error
    if found != size:
        than = "more" if found > size else f"{found:,}"
        raise UserError(f"{path.name} holds {than} bytes, {size:,} are stated")
    return b"".join(parts)


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


def write_compressed(path: Path, lines: Iterable[bytes]) -> int:
    """Store lines in a compressed file.

    Returns:
        Their size in bytes.
    """
    content = b"".join(lines)
    write_atomically(path, compress(content))
    return len(content)
