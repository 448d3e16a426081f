"""Generates households: a furnished room, a matching task, and its solution.

A task can be solved by construction: what it asks for is there, outside the destination, and what
it needs to be done to it can be done in the room. It never holds at the start:

- To place something, no object of the target's type lies in a receptacle of the destination's type.
- To place two, neither: both objects must be moved, as in all real games.
- To place something clean, hot or cool, further objects of the target's type may lie in the
  destination, as in real games: nothing is clean, hot or cool at the start.
- To look at something, the lamp is off, and no object of the target's type lies beside it.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from tasks.alfworld.engine.package import constants
from tasks.alfworld.goals import LOOK, PICK_TWO, TREATMENTS
from tasks.alfworld.household import Household, Receptacle, Thing
from tasks.alfworld.rooms import (
    FEWEST_RECEPTACLES,
    LAMP,
    MOST_RECEPTACLES,
    ROOMS,
    SPACES,
    RoomKind,
    destinations_of,
    fits,
    rooms_of,
    targets_of,
)
from tasks.alfworld.walkthrough import shortest_walkthrough
from tasks.seeding import pick

T = TypeVar("T")

# Probabilities of 1, 2, 3, ... objects of a type that is there; of the target's type; and where
# two are asked for.
_COUNTS = (0.55, 0.3, 0.15)
_TARGET_COUNTS = (0.5, 0.3, 0.2)
_TWO_COUNTS = (0.0, 0.5, 0.3, 0.2)
# Types of which one often reaches several from the same place, and how often.
_STACKED = frozenset({"Cabinet", "Drawer", "Shelf", "StoveBurner"})
_SHARED_LOCATION = 0.2


def generate(task_type: str, room: str, rng: random.Random) -> Household:
    """Make a household of a room kind with a task of a type.

    Only `rng.random()` is drawn from, whose sequence Python guarantees between versions.

    Raises:
        ValueError: The task type is not asked in rooms of this kind.
    """
    if room not in rooms_of(task_type):
        raise ValueError(f"{task_type} is not asked in a {room}")
    household = None
    while household is None:
        household = _attempt(task_type, room, rng)
    return replace(household, walkthrough=shortest_walkthrough(household))


def _attempt(task_type: str, room: str, rng: random.Random) -> Household | None:
    """Make a household without its walkthrough; None if what was drawn does not fit together."""
    kind = ROOMS[room]
    receptacles = _furnish(kind, rng)
    if not FEWEST_RECEPTACLES <= len(receptacles) <= MOST_RECEPTACLES:
        return None
    present = tuple(item.type for item in receptacles)
    target = pick(targets_of(task_type, room), rng)
    destinations = destinations_of(task_type, target, present)
    if not destinations:
        return None
    destination = pick(destinations, rng)
    shelves = _Shelves(receptacles, rng)
    if not _place_goal(shelves, task_type, target, destination, rng):
        return None
    _place_rest(shelves, kind, {target, *((LAMP,) if task_type == LOOK else ())}, rng)
    return Household(
        room=room,
        task_type=task_type,
        target=target,
        destination=destination,
        text=int(rng.random() * 2),
        receptacles=receptacles,
        objects=_numbered(shelves.contents, rng),
        walkthrough=(),
    )


def _furnish(kind: RoomKind, rng: random.Random) -> tuple[Receptacle, ...]:
    """Draw the receptacles and where one stands to use them."""
    receptacles: list[Receptacle] = []
    location = 0
    for piece in kind.furniture:
        if rng.random() >= piece.chance:
            continue
        count = piece.fewest + int(rng.random() * (piece.most - piece.fewest + 1))
        for number in range(1, count + 1):
            stacked = number > 1 and piece.type in _STACKED
            if not (stacked and rng.random() < _SHARED_LOCATION):
                location += 1
            receptacles.append(Receptacle(_receptacle_id(piece.type, number), location))
    return tuple(receptacles)


def _receptacle_id(receptacle_type: str, number: int) -> str:
    owner = receptacle_type.removesuffix("Basin")
    suffix = "" if owner == receptacle_type else f"_bar_{receptacle_type}"
    return f"{owner}_bar_{number:02d}{suffix}"


class _Shelves:
    """The receptacles while they are filled."""

    def __init__(self, receptacles: Sequence[Receptacle], rng: random.Random) -> None:
        self.contents: list[tuple[str, Receptacle]] = []
        self._free = {item: SPACES[item.type].places for item in receptacles}
        self._rng = rng
        self._table = constants()

    def place(
        self, object_type: str, allowed: Callable[[Receptacle], bool] = lambda _: True
    ) -> Receptacle | None:
        """Put an object somewhere it fits, drawn by weight; None if there is no room."""
        options = [
            item
            for item, free in self._free.items()
            if free and fits(self._table, object_type, item.type) and allowed(item)
        ]
        if not options:
            return None
        chosen = _weighted(options, [SPACES[item.type].weight for item in options], self._rng)
        self._free[chosen] -= 1
        self.contents.append((object_type, chosen))
        return chosen


def _place_goal(
    shelves: _Shelves, task_type: str, target: str, destination: str, rng: random.Random
) -> bool:
    """Place what the task needs, and further objects of the target's type."""
    lamp = shelves.place(LAMP) if task_type == LOOK else None
    if task_type == LOOK and lamp is None:
        return False

    def elsewhere(item: Receptacle) -> bool:
        return item.type != destination and (lamp is None or item.location != lamp.location)

    def anywhere(item: Receptacle) -> bool:
        del item
        return True

    counts = _TWO_COUNTS if task_type == PICK_TWO else _TARGET_COUNTS
    needed = 2 if task_type == PICK_TWO else 1
    for number in range(1, _count(counts, rng) + 1):
        free = number > needed and task_type in TREATMENTS
        if shelves.place(target, anywhere if free else elsewhere) is None and number <= needed:
            return False
    return True


def _place_rest(shelves: _Shelves, kind: RoomKind, done: Iterable[str], rng: random.Random) -> None:
    """Place the other objects; one that finds no room is left out."""
    skipped = set(done)
    for name, chance in kind.fixtures.items():
        if rng.random() < chance and name not in skipped:
            shelves.place(name)
    for name, chance in kind.stock.items():
        if rng.random() < chance and name not in skipped:
            for _ in range(_count(_COUNTS, rng)):
                shelves.place(name)


def _numbered(contents: Sequence[tuple[str, Receptacle]], rng: random.Random) -> tuple[Thing, ...]:
    """Give ids in random order, so that a number says nothing of where an object lies."""
    left = list(contents)
    counts: dict[str, int] = {}
    things = []
    while left:
        name, receptacle = left.pop(int(rng.random() * len(left)))
        counts[name] = counts.get(name, 0) + 1
        things.append(Thing(f"{name}_bar_{counts[name]:02d}", receptacle.id))
    return tuple(sorted(things, key=lambda thing: thing.id))


def _count(probabilities: Sequence[float], rng: random.Random) -> int:
    return _weighted(range(1, len(probabilities) + 1), probabilities, rng)


def _weighted(items: Sequence[T], weights: Sequence[float], rng: random.Random) -> T:
    left = rng.random() * sum(weights)
    for item, weight in zip(items, weights, strict=True):
        left -= weight
        if left < 0:
            return item
    return items[-1]
