"""The six task types: their texts, their goals, and the names of the real games."""

import re
from dataclasses import dataclass

from tasks.alfworld.engine.package import goal_sources
from tasks.errors import UserError

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The field's names in the field's order."""

LOOK = "look_at_obj_in_light"
PICK_TWO = "pick_two_obj_and_place"

SHORT_NAMES = dict(zip(TASK_TYPES, ("place", "look", "clean", "heat", "cool", "two"), strict=True))
"""For ids of episodes."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """What must be done to the target before it is put down.

    Attributes:
        verb: The command's first word.
        action: Its name in the package's table of what can be done to which objects.
        appliance: Type of the receptacle that does it.
    """

    verb: str
    action: str
    appliance: str


TREATMENTS = {
    "pick_clean_then_place_in_recep": Treatment("clean", "Cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": Treatment("heat", "Heatable", "Microwave"),
    "pick_cool_then_place_in_recep": Treatment("cool", "Coolable", "Fridge"),
}
"""By task type; the other types need none."""


_TYPE_NAME = r"[A-Z][A-Za-z]*"
_GAME = re.compile(rf"([a-z_]+)-({_TYPE_NAME})-({_TYPE_NAME})-({_TYPE_NAME})-([0-9]{{1,3}})")


@dataclass(frozen=True, slots=True)
class Goal:
    """What an episode asks for, as far as scripted players need to know it.

    Attributes:
        task_type: One of `TASK_TYPES`.
        target: Kind of the object, as it is displayed (`butterknife`).
        destination: Kind of the receptacle, or of the lamp where the task is to look.
    """

    task_type: str
    target: str
    destination: str

    @property
    def treatment(self) -> Treatment | None:
        """How the object must be treated on the way."""
        return TREATMENTS.get(self.task_type)

    @property
    def looks(self) -> bool:
        """The object is to be looked at under a lamp, not to be put anywhere."""
        return self.task_type == LOOK


@dataclass(frozen=True, slots=True)
class GameName:
    """What the folder name of a real game says.

    Attributes:
        task_type: One of `TASK_TYPES`.
        target: Type of the object to move or look at.
        movable: Type of the movable receptacle; None in all games of the six types.
        destination: Type of the receptacle, or of the lamp where the task is to look.
        scene: Number of the floor plan.
    """

    task_type: str
    target: str
    movable: str | None
    destination: str
    scene: int


def parse_game_name(name: str) -> GameName:
    """Read a name such as `pick_clean_then_place_in_recep-ButterKnife-None-DiningTable-16`.

    Raises:
        UserError: The name is of another form or its task type is not one of the six.
    """
    match = _GAME.fullmatch(name)
    if match is None:
        raise UserError(
            f"{name[:120]!r} is not a name of an ALFWorld game; expected "
            "type-Object-Movable-Receptacle-scene"
        )
    task_type, target, movable, destination, scene = match.groups()
    _check_task_type(task_type)
    return GameName(
        task_type, target, None if movable == "None" else movable, destination, int(scene)
    )


def task_texts(task_type: str, target: str, destination: str) -> tuple[str, str]:
    """The two wordings of a task, without the final full stop, in lower case as in real games.

    Args:
        task_type: One of `TASK_TYPES`.
        target: The object type.
        destination: The receptacle type; for `look_at_obj_in_light` the lamp type.
    """
    _check_task_type(task_type)
    first, second = goal_sources()[task_type].texts
    names = {
        "obj": target.lower(),
        "recep": destination.lower(),
        "toggle": destination.lower(),
        "mrecep": "",
    }
    return first.format(**names), second.format(**names)


def goal_pddl(task_type: str, target: str, destination: str) -> str:
    """The goal section `(:goal ...)` of a problem, on one line; arguments as in `task_texts`."""
    _check_task_type(task_type)
    source = goal_sources()[task_type].pddl.format(
        obj=target, recep=destination, toggle=destination, mrecep=""
    )
    # The library's text ends with the parenthesis that closes the whole problem.
    goal = " ".join(source.replace("#", "-").split()).removesuffix(")").rstrip()
    if goal.count("(") != goal.count(")"):
        raise AssertionError(f"the package's goal of {task_type} is not balanced")
    return goal


def _check_task_type(task_type: str) -> None:
    if task_type not in TASK_TYPES:
        raise UserError(
            f"unknown ALFWorld task type {task_type[:80]!r}; the types are {', '.join(TASK_TYPES)}"
        )
