"""Canonical forms of boards: the same for all eight rotations and reflections."""

from collections.abc import Iterator, Sequence

from tasks.seeding import sha256_text

_ROOM_ONLY = str.maketrans("@$+*", "__..")


def symmetries(board: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The eight rotations and reflections of a board."""
    rows = tuple(board)
    for _ in range(4):
        yield rows
        yield tuple(row[::-1] for row in rows)
        rows = tuple("".join(column) for column in zip(*rows[::-1], strict=True))


def level_key(board: Sequence[str]) -> str:
    """Hash of a level that is the same for all its symmetric images."""
    return sha256_text(min("\n".join(image) for image in symmetries(board)))


def room_key(board: Sequence[str]) -> str:
    """Hash of a level's walls and targets alone, the same for all its symmetric images.

    Two levels with different room keys also have different level keys.
    """
    return level_key([row.translate(_ROOM_ONLY) for row in board])
