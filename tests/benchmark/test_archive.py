"""Compressed files are the same everywhere, and never decompressed beyond their stated size."""

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.archive import (
    compress,
    lines_of,
    read_compressed,
    sha256_of,
)
from tasks.errors import UserError
from tests.support.measured import alone, cost
from tests.support.submissions.small import big_frame

MIB = 2**20
NO_HASH = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""SHA-256 of no bytes."""


@given(st.binary(max_size=5_000))
def test_what_is_packed_comes_back(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.mktemp("archive") / "x.zst"
    assert compress(content) == compress(content)
    file.write_bytes(compress(content))
    assert read_compressed(file, len(content)) == content


def test_lines_are_read_as_they_were_stored(tmp_path: Path) -> None:
    (tmp_path / "x.zst").write_bytes(compress(b"one\ntwo\n"))
    assert read_compressed(tmp_path / "x.zst", 8) == b"one\ntwo\n"


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (7, "holds more bytes, but 7 are stated"),
        (9, "holds 8 bytes, but 9 are stated"),
        (0, "holds more"),
    ],
)
def test_another_size_than_stated_is_refused(tmp_path: Path, size: int, message: str) -> None:
    (tmp_path / "x.zst").write_bytes(compress(b"one\ntwo\n"))
    with pytest.raises(UserError, match=message):
        read_compressed(tmp_path / "x.zst", size)


@pytest.mark.parametrize(
    "content",
    [b"PK\x03\x04", compress(b"x" * 99)[:-2], compress(b"x") + b"junk", b"\x1f\x8b", b"{}"],
    ids=["zip", "cut", "junk", "gzip", "plain"],
)
def test_what_is_no_whole_archive_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zst").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.zst cannot be unpacked"):
        read_compressed(tmp_path / "x.zst", 99)


SKIPPED = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"bytes"
"""A skippable frame."""


@pytest.mark.parametrize(
    "content",
    [
        SKIPPED + compress(b"content"),
        compress(b"content") + SKIPPED,
        compress(b"con") + SKIPPED + compress(b"tent"),
        compress(b"con") + compress(b"tent"),
        compress(b"content") + compress(b""),
    ],
    ids=["before", "after", "between", "two frames", "an empty frame"],
)
def test_what_holds_more_than_its_content_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zst").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.zst is not a single Zstandard frame"):
        read_compressed(tmp_path / "x.zst", 7)


@pytest.mark.slow
@pytest.mark.parametrize("level", [1, 3, 19])
@pytest.mark.parametrize("size", [0, 1, 255, 256, 70_000, 3 * MIB])
def test_frames_of_every_size_are_read(tmp_path: Path, level: int, size: int) -> None:
    """Frames whose headers have other lengths, and with raw, repeated or compressed blocks."""
    draw = random.Random(size)
    for content in (bytes(size), draw.randbytes(size), b"a rather regular text " * (size // 22)):
        frame = pa.Codec("zstd", compression_level=level).compress(content, asbytes=True)
        (tmp_path / "x.zst").write_bytes(frame)
        assert read_compressed(tmp_path / "x.zst", len(content)) == content
        # Without a stated size, and with blocks in order of arrival.
        with pa.CompressedOutputStream(str(tmp_path / "y.zst"), "zstd") as stream:
            stream.write(content)
        assert read_compressed(tmp_path / "y.zst", len(content)) == content


@given(st.lists(st.binary(max_size=9)), st.lists(st.integers(1, 8)))
def test_lines_do_not_depend_on_the_parts_that_they_come_in(
    lines: list[bytes], sizes: list[int]
) -> None:
    content = b"\n".join(lines)
    parts, rest = [], content
    for size in sizes:
        if rest:
            parts.append(rest[:size])
            rest = rest[size:]
    parts += [rest] if rest else []
    expected = [line + b"\n" for line in content.split(b"\n")]
    expected[-1] = expected[-1][:-1]
    assert list(lines_of(parts, 10**6)) == [line for line in expected if line]


def test_a_long_line_ends_the_reading() -> None:
    def parts() -> Iterator[bytes]:
        yield b"one\nabc"
        yield b"def"
        raise AssertionError("nobody asks for more")

    assert list(lines_of(parts(), 5)) == [b"one\n", b"abcdef"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "x.zst").write_bytes(compress(b"one\n"))
    (tmp_path / "link.zst").symlink_to(tmp_path / "x.zst")
    with pytest.raises(UserError, match="cannot be unpacked"):
        read_compressed(tmp_path / "link.zst", 4)
    with pytest.raises(OSError, match="link"):
        sha256_of(tmp_path / "link.zst")


def test_hash_and_size_are_of_what_is_stored(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert sha256_of(tmp_path / "empty") == (NO_HASH, 0)


@pytest.mark.slow
def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """1 GiB of zeros in a small file: the stated size bounds the memory."""
    bomb = tmp_path / "bomb.zst"
    bomb.write_bytes(big_frame())
    assert bomb.stat().st_size < MIB
    seconds, mib = alone(_unpack, bomb)
    assert mib < 32
    assert seconds < 5


def _unpack(bomb: Path) -> tuple[float, float]:
    def unpack() -> None:
        with pytest.raises(UserError, match="holds more bytes"):
            read_compressed(bomb, MIB)

    return cost(unpack)
