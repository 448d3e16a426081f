"""Levels by reverse play: carve a room, solve it backward, pick a state at a given distance."""

import random
from dataclasses import dataclass

from tasks.seeding import pick
from tasks.sokoban.solver import Room, distances

_TURN_PROBABILITY = 0.35
_STEPS_PER_SIDE = 1.7
_OFFSETS = ((-1, 0), (1, 0), (0, -1), (0, 1))
# Cells carved around every cell of the walk (itself included), as in gym-sokoban's five patterns.
_BRUSHES = (
    ((0, -1), (0, 0), (0, 1)),
    ((-1, 0), (0, 0), (1, 0)),
    ((0, 0), (0, 1), (1, 0), (1, 1)),
    ((0, 0), (-1, 0), (0, -1)),
    ((0, 0),),
)


@dataclass(frozen=True, slots=True)
class Size:
    """Height and width of a level, rim included, and its number of boxes."""

    height: int
    width: int
    boxes: int


TRAINING_SIZE = Size(height=6, width=6, boxes=1)
TRAINING_LENGTHS = range(3, 15)
"""Optimal lengths of training levels, drawn evenly; the same as the built-in panel's."""


def generate(size: Size, length: int, rng: random.Random) -> tuple[str, ...] | None:
    """Try once to make a level whose shortest solution has exactly `length` moves.

    Only `rng.random()` is drawn from, whose sequence Python guarantees between versions.

    Returns:
        The board, no box of it on a target; None if the carved room has no such state.
    """
    floor = _carve(size, rng)
    if len(floor) < 2 * size.boxes + 1:
        return None
    cells = sorted(floor)
    targets: list[int] = []
    while len(targets) < size.boxes:
        cell = pick(cells, rng)
        if cell not in targets:
            targets.append(cell)
    room = Room(size.width, size.height, frozenset(floor), tuple(sorted(targets)))
    states = sorted(
        (player, boxes)
        for (player, boxes), distance in distances(room).items()
        if distance == length and not set(boxes) & set(targets)
    )
    return room.board(pick(states, rng)) if states else None


def _carve(size: Size, rng: random.Random) -> set[int]:
    """Walk at random from a random cell and carve a brush at every step; the rim stays wall."""
    inside = [
        (row, column) for row in range(1, size.height - 1) for column in range(1, size.width - 1)
    ]
    row, column = pick(inside, rng)
    direction = pick(_OFFSETS, rng)
    floor: set[int] = set()
    for _ in range(int(_STEPS_PER_SIDE * (size.height + size.width))):
        if rng.random() < _TURN_PROBABILITY:
            direction = pick(_OFFSETS, rng)
        row = min(max(row + direction[0], 1), size.height - 2)
        column = min(max(column + direction[1], 1), size.width - 2)
        for down, right in pick(_BRUSHES, rng):
            if 0 < row + down < size.height - 1 and 0 < column + right < size.width - 1:
                floor.add((row + down) * size.width + column + right)
    return floor
