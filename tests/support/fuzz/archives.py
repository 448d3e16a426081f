"""Other encodings of an archive: some are Zstandard and may still have the same content."""

import gzip
import random
import struct
from collections.abc import Callable

from tests.support.fuzz.values import damaged
from tests.support.submissions.small import squeezed


def _skippable(size: int) -> bytes:
    """A skippable frame with arbitrary bytes."""
    return struct.pack("<II", 0x184D2A50, size) + bytes(size)


def _halves(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return squeezed(content[:at]) + squeezed(content[at:])


def _in_the_middle(content: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(content) + 1)
    return squeezed(content[:at]) + _skippable(draw.choice((0, 9, 4096))) + squeezed(content[at:])


def _lying(content: bytes, draw: random.Random) -> bytes:
    """A frame whose header states a wrong size."""
    stored = bytearray(squeezed(content))
    stored[draw.randrange(4, min(14, len(stored)))] ^= 1 << draw.randrange(8)
    return bytes(stored)


ARCHIVES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _halves,
    _in_the_middle,
    _lying,
    lambda content, draw: squeezed(content) + _skippable(draw.choice((0, 9, 4096, 10**6))),
    lambda content, draw: _skippable(draw.choice((0, 9, 4096))) + squeezed(content),
    lambda content, draw: squeezed(content) * 2,
    lambda content, draw: squeezed(content)[: -draw.randrange(1, 9)],
    lambda content, draw: squeezed(content) + draw.randbytes(draw.randrange(1, 99)),
    lambda content, draw: squeezed(content) + squeezed(b""),
    lambda content, draw: squeezed(squeezed(content)),
    lambda content, draw: gzip.compress(content, 1),
    lambda content, draw: content,
    lambda content, draw: b"",
    lambda content, draw: squeezed(content + bytes(2**24)),
    lambda content, draw: damaged(squeezed(content), draw),
)
"""Functions from a content to an archive, or to something that is not one."""
