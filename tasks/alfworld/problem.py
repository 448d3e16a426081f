"""Writes a household as a PDDL problem for the package's domain.

The real games declare every type of the whole data set and carry pieces that no text and no command
ever names (windows, light switches). Here only what can be seen or acted on is written.
"""

from collections.abc import Iterable

from tasks.alfworld.engine.package import Constants, constants
from tasks.alfworld.goals import LOOK, goal_pddl
from tasks.alfworld.household import Household
from tasks.errors import UserError

_AGENT = "agent1"
# Where the agent starts: a location without receptacles, so that the opening text is that of
# somebody in the middle of the room.
_START = "loc_bar_00"
# The domain's actions name these types, so they must be declared in every problem.
_DOMAIN_RECEPTACLES = ("FridgeType", "MicrowaveType", "SinkBasinType")
_DOMAIN_OBJECTS = ("ButterKnifeType", "KnifeType")
# Predicate of the domain -> name in the package's table of actions.
_AFFORDANCES = (
    ("cleanable", "Cleanable"),
    ("heatable", "Heatable"),
    ("coolable", "Coolable"),
    ("toggleable", "Toggleable"),
    ("sliceable", "Sliceable"),
)


def problem_text(household: Household) -> str:
    """The problem: declarations, what holds at the start, the goal.

    Raises:
        UserError: A receptacle is of no type of the package's, or what the task names is missing.
    """
    table = constants()
    _check_types(household, table)
    lines = [
        "(define (problem household)",
        "(:domain alfred)",
        "(:objects",
        *_declarations(household),
        ")",
        "(:init",
        *_receptacle_facts(household, table),
        *_object_facts(household, table),
        f"(atLocation {_AGENT} {_START})",
        ")",
        goal_pddl(household.task_type, household.target, household.destination),
        ")",
    ]
    return "\n".join(lines) + "\n"


def can_be_taken(table: Constants, object_type: str) -> bool:
    """Whether an object of the type can be picked up: it can lie in some receptacle."""
    return any(object_type in types for types in table.contains.values())


def _location(number: int) -> str:
    return f"loc_bar_{number:02d}"


def _types(household: Household) -> tuple[list[str], list[str]]:
    """Receptacle types and object types of a household, sorted."""
    return (
        sorted({item.type for item in household.receptacles}),
        sorted({thing.type for thing in household.objects}),
    )


def _check_types(household: Household, table: Constants) -> None:
    known = set(table.contains) - table.movable_receptacles
    receptacle_types, object_types = _types(household)
    for name in receptacle_types:
        if name not in known:
            raise UserError(f"household: the package knows no receptacle {name}")
    # The goal names these two types, and a problem may only name what it declares.
    asked = object_types if household.task_type == LOOK else receptacle_types
    if household.target not in object_types or household.destination not in asked:
        raise UserError(
            f"household: no {household.target} or no {household.destination} of the needed kind"
        )


def _declarations(household: Household) -> Iterable[str]:
    receptacle_types, object_types = _types(household)
    yield f"{_AGENT} - agent"
    for name in sorted({*_DOMAIN_OBJECTS, *(f"{name}Type" for name in object_types)}):
        yield f"{name} - otype"
    for name in sorted({*_DOMAIN_RECEPTACLES, *(f"{name}Type" for name in receptacle_types)}):
        yield f"{name} - rtype"
    for thing in household.objects:
        yield f"{thing.id} - object"
    for item in household.receptacles:
        yield f"{item.id} - receptacle"
    yield f"{_START} - location"
    for number in sorted({item.location for item in household.receptacles}):
        yield f"{_location(number)} - location"


def _receptacle_facts(household: Household, table: Constants) -> Iterable[str]:
    receptacle_types, object_types = _types(household)
    for item in household.receptacles:
        yield f"(receptacleType {item.id} {item.type}Type)"
        yield f"(receptacleAtLocation {item.id} {_location(item.location)})"
        if item.type in table.openable:
            yield f"(openable {item.id})"
    for receptacle_type in receptacle_types:
        for object_type in object_types:
            if object_type in table.contains[receptacle_type]:
                yield f"(canContain {receptacle_type}Type {object_type}Type)"


def _object_facts(household: Household, table: Constants) -> Iterable[str]:
    places = {item.id: _location(item.location) for item in household.receptacles}
    for thing in household.objects:
        yield f"(objectType {thing.id} {thing.type}Type)"
        yield f"(inReceptacle {thing.id} {thing.inside})"
        yield f"(objectAtLocation {thing.id} {places[thing.inside]})"
        if can_be_taken(table, thing.type):
            yield f"(pickupable {thing.id})"
        if thing.type in table.movable_receptacles:
            yield f"(isReceptacleObject {thing.id})"
        for predicate, action in _AFFORDANCES:
            if thing.type in table.actions[action]:
                yield f"({predicate} {thing.id})"
