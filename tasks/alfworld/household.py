"""A generated household: furniture, objects, task and solution."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.alfworld.engine.names import display_names
from tasks.alfworld.goals import TASK_TYPES
from tasks.errors import UserError
from tasks.seeding import canonical_json, sha256_text

ROOM_KINDS = ("Kitchen", "LivingRoom", "Bedroom", "Bathroom")
"""The field's names."""

_FIELDS = (
    "room",
    "task_type",
    "target",
    "destination",
    "text",
    "receptacles",
    "objects",
    "walkthrough",
)
_MAX_ENTITIES = 200
_MAX_COMMANDS = 50
_MAX_COMMAND = 100
_TYPE = re.compile(r"[A-Z][A-Za-z]{0,30}")
# A sink's or bathtub's basin is named after it, as in real games: `Sink_bar_01_bar_SinkBasin`.
_ID = re.compile(r"([A-Z][A-Za-z]{0,30})_bar_[0-9]{2}(?:_bar_(\1Basin))?")


def type_of(identifier: str) -> str:
    """The type that an id names: `Cabinet` of `Cabinet_bar_03`.

    Raises:
        UserError: The id is of another form.
    """
    match = _ID.fullmatch(identifier)
    if match is None:
        raise UserError(f"household: {identifier[:80]!r} is not an id such as 'Cabinet_bar_03'")
    return match[2] or match[1]


@dataclass(frozen=True, slots=True)
class Receptacle:
    """A piece of furniture or an appliance. Whether it opens follows from its type.

    Attributes:
        id: Internal name.
        location: Where one stands to use it, from 1; several receptacles may share a location.
    """

    id: str
    location: int

    @property
    def type(self) -> str:
        """Type name, such as `SinkBasin`."""
        return type_of(self.id)


@dataclass(frozen=True, slots=True)
class Thing:
    """An object.

    Attributes:
        id: Internal name.
        inside: Id of the receptacle that it lies in or on at the start.
    """

    id: str
    inside: str

    @property
    def type(self) -> str:
        """Type name, such as `ButterKnife`."""
        return type_of(self.id)


@dataclass(frozen=True, slots=True)
class Household:
    """A room with a task. Everything that opens is closed at the start.

    Attributes:
        room: One of `ROOM_KINDS`.
        task_type: One of `goals.TASK_TYPES`.
        target: Type of the object that the task names.
        destination: Type of the receptacle that it names; for `look_at_obj_in_light`, of the lamp.
        text: Which of the task type's two wordings is shown.
        receptacles: All receptacles.
        objects: All objects.
        walkthrough: Commands that solve the task, in displayed names.
    """

    room: str
    task_type: str
    target: str
    destination: str
    text: int
    receptacles: tuple[Receptacle, ...]
    objects: tuple[Thing, ...]
    walkthrough: tuple[str, ...]

    def to_data(self) -> dict[str, Any]:
        """Compact JSON values, the inverse of `from_data`."""
        return {
            "room": self.room,
            "task_type": self.task_type,
            "target": self.target,
            "destination": self.destination,
            "text": self.text,
            "receptacles": [[item.id, item.location] for item in self.receptacles],
            "objects": [[thing.id, thing.inside] for thing in self.objects],
            "walkthrough": list(self.walkthrough),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Household":
        """Read what `to_data` wrote; anything else is refused.

        Raises:
            UserError: A field is missing, unknown or of another form, an id stands twice, or an
                object lies in a receptacle that is not there.
        """
        _check(set(data) == set(_FIELDS), f"the fields must be {', '.join(_FIELDS)}")
        _check(data["room"] in ROOM_KINDS, f"room must be one of {', '.join(ROOM_KINDS)}")
        _check(data["task_type"] in TASK_TYPES, f"task_type must be one of {', '.join(TASK_TYPES)}")
        for name in ("target", "destination"):
            value = data[name]
            _check(
                isinstance(value, str) and _TYPE.fullmatch(value) is not None,
                f"{name} must be a type name such as 'ButterKnife'",
            )
        _check(type(data["text"]) is int and data["text"] in (0, 1), "text must be 0 or 1")
        household = cls(
            room=data["room"],
            task_type=data["task_type"],
            target=data["target"],
            destination=data["destination"],
            text=data["text"],
            receptacles=tuple(
                Receptacle(*pair) for pair in _pairs(data["receptacles"], "receptacles", int)
            ),
            objects=tuple(Thing(*pair) for pair in _pairs(data["objects"], "objects", str)),
            walkthrough=_commands(data["walkthrough"]),
        )
        _check_whole(household)
        return household


def displayed_names(household: Household) -> dict[str, str]:
    """What each id is called in texts and commands: `Cabinet_bar_03` may be `cabinet 1`."""
    identifiers = [item.id for item in household.receptacles]
    identifiers += [thing.id for thing in household.objects]
    names = display_names(identifier.lower() for identifier in identifiers)
    return {identifier: names[identifier.lower()] for identifier in identifiers}


def household_key(household: Household) -> str:
    """A hash of the problem, the same for two households that differ only in how things are named.

    The numbers in ids, the order of entries, the wording of the task and the kept walkthrough do
    not count: the same things in the same furniture at the same places with the same goal do.
    """
    contents: dict[str, list[str]] = {item.id: [] for item in household.receptacles}
    for thing in household.objects:
        contents[thing.inside].append(thing.type)
    places: dict[int, list[list[Any]]] = {}
    for item in household.receptacles:
        places.setdefault(item.location, []).append([item.type, sorted(contents[item.id])])
    layout = sorted(sorted(place) for place in places.values())
    goal = [household.task_type, household.target, household.destination]
    return sha256_text(canonical_json([goal, layout]))


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise UserError(f"household: {message}")


def _pairs(value: Any, name: str, second: type) -> list[tuple[str, Any]]:
    _check(isinstance(value, list | tuple), f"{name} must be a list")
    _check(0 < len(value) <= _MAX_ENTITIES, f"{name} must have 1 to {_MAX_ENTITIES} entries")
    for pair in value:
        _check(
            isinstance(pair, list | tuple)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and type(pair[1]) is second,
            f"each of {name} must be a pair of an id and "
            + ("a location" if second is int else "the id of a receptacle"),
        )
    return [(pair[0], pair[1]) for pair in value]


def _commands(value: Any) -> tuple[str, ...]:
    _check(
        isinstance(value, list | tuple)
        and 0 < len(value) <= _MAX_COMMANDS
        and all(isinstance(line, str) and 0 < len(line) <= _MAX_COMMAND for line in value),
        f"walkthrough must be a list of 1 to {_MAX_COMMANDS} commands",
    )
    return tuple(value)


def _check_whole(household: Household) -> None:
    """Check what ties the parts together."""
    receptacles = {item.id for item in household.receptacles}
    identifiers = [item.id for item in household.receptacles]
    identifiers += [thing.id for thing in household.objects]
    types = {identifier: type_of(identifier) for identifier in identifiers}
    _check(len(set(identifiers)) == len(identifiers), "an id appears twice")
    locations = {item.location for item in household.receptacles}
    _check(
        locations == set(range(1, len(locations) + 1)), "locations must be numbered 1, 2, 3, ..."
    )
    for thing in household.objects:
        _check(
            thing.inside in receptacles,
            f"{thing.id} lies in {thing.inside[:80]!r}, which is not a receptacle in the room",
        )
    _check(
        household.target in {types[thing.id] for thing in household.objects},
        f"there is no {household.target}",
    )
    _check(household.destination in types.values(), f"there is no {household.destination}")
