"""Handwritten games: behaves like TextWorld's engine on problems that no generator produces."""

import pytest

from tasks.alfworld.engine.game import Game
from tasks.alfworld.engine.pddl import PddlError
from tasks.alfworld.env import AlfworldEnv
from tests.tasks.alfworld.stock import stock_engine

OBJECTS = {
    "agent": ["agent1"],
    "location": ["loc_bar_0", "loc_bar_1", "loc_bar_2", "loc_bar_3"],
    "receptacle": [
        "Desk_bar_1",
        "Drawer_bar_1",
        "Drawer_bar_2",
        "Fridge_bar_1",
        "Sink_bar_1_bar_SinkBasin",
    ],
    "object": [
        "Mug_bar_1",
        "Mug_bar_2",
        "Box_bar_1",
        "Apple_bar_1",
        "Knife_bar_1",
        "DeskLamp_bar_1",
    ],
    "rtype": ["DeskType", "DrawerType", "FridgeType", "MicrowaveType", "SinkBasinType"],
    "otype": ["MugType", "BoxType", "AppleType", "KnifeType", "ButterKnifeType", "DeskLampType"],
}
FACTS = """
(receptacleType Desk_bar_1 DeskType) (receptacleAtLocation Desk_bar_1 loc_bar_1)
(receptacleType Drawer_bar_1 DrawerType) (receptacleAtLocation Drawer_bar_1 loc_bar_1)
(receptacleType Drawer_bar_2 DrawerType) (receptacleAtLocation Drawer_bar_2 loc_bar_2)
(receptacleType Fridge_bar_1 FridgeType) (receptacleAtLocation Fridge_bar_1 loc_bar_3)
(receptacleType Sink_bar_1_bar_SinkBasin SinkBasinType)
(receptacleAtLocation Sink_bar_1_bar_SinkBasin loc_bar_3)
(openable Drawer_bar_1) (openable Drawer_bar_2) (openable Fridge_bar_1)
(canContain DeskType MugType) (canContain DrawerType MugType) (canContain FridgeType AppleType)
(canContain DeskType AppleType) (canContain DeskType BoxType) (canContain DeskType KnifeType)
(objectType Mug_bar_1 MugType) (objectType Mug_bar_2 MugType) (objectType Box_bar_1 BoxType)
(objectType Apple_bar_1 AppleType) (objectType Knife_bar_1 KnifeType)
(objectType DeskLamp_bar_1 DeskLampType)
(pickupable Mug_bar_1) (pickupable Mug_bar_2) (pickupable Box_bar_1) (pickupable Apple_bar_1)
(pickupable Knife_bar_1) (isReceptacleObject Box_bar_1) (isReceptacleObject Mug_bar_1)
(cleanable Mug_bar_1) (cleanable Apple_bar_1) (coolable Apple_bar_1) (sliceable Apple_bar_1)
(toggleable DeskLamp_bar_1)
(inReceptacle Mug_bar_1 Desk_bar_1) (objectAtLocation Mug_bar_1 loc_bar_1)
(inReceptacle Box_bar_1 Desk_bar_1) (objectAtLocation Box_bar_1 loc_bar_1)
(inReceptacle Mug_bar_2 Drawer_bar_2) (objectAtLocation Mug_bar_2 loc_bar_2)
(inReceptacle Apple_bar_1 Desk_bar_1) (objectAtLocation Apple_bar_1 loc_bar_1)
(inReceptacle Knife_bar_1 Desk_bar_1) (objectAtLocation Knife_bar_1 loc_bar_1)
(inReceptacle DeskLamp_bar_1 Desk_bar_1) (objectAtLocation DeskLamp_bar_1 loc_bar_1)
"""
START = "(atLocation agent1 loc_bar_0)"
GOAL = """
(exists (?o - object ?r - receptacle)
  (and (objectType ?o MugType) (isClean ?o) (inReceptacle ?o ?r) (receptacleType ?r DrawerType)))
"""
TOUR = """
go to desk 1
look
examine desk 1
take box 1 from desk 1
examine box 1
inventory
go to drawer 1
open drawer 2
go to drawer 2
look
examine drawer 2
go to desk 1
move box 1 to desk 1
use desklamp 1
use desklamp 1
look
take knife 1 from desk 1
slice apple 1 with knife 1
look
move knife 1 to desk 1
take apple 1 from desk 1
examine apple 1
go to fridge 1
look
cool apple 1 with fridge 1
examine apple 1
clean apple 1 with sinkbasin 1
examine apple 1
open fridge 1
move apple 1 to fridge 1
take apple 1 from fridge 1
close fridge 1
examine fridge 1
go to sinkbasin 1
go to desk 1
move apple 1 to desk 1
take mug 2 from desk 1
go to sinkbasin 1
clean mug 2 with sinkbasin 1
go to drawer 1
open drawer 1
move mug 2 to drawer 1
""".strip().splitlines()


def _problem(extra: str = "", start: str = START, goal: str = GOAL, without: str = "") -> str:
    declared = "\n".join(f"{' '.join(names)} - {kind}" for kind, names in OBJECTS.items())
    facts = FACTS.replace(without, "") if without else FACTS
    return (
        f"(define (problem p) (:domain alfred) (:objects {declared})"
        f" (:init {facts} {start} {extra}) (:goal {goal}))"
    )


@pytest.mark.usefixtures("kept_parses")
@pytest.mark.slow
@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(_problem(), id="plain"),
        pytest.param(_problem("(inReceptacle Mug_bar_1 Drawer_bar_1)"), id="in two receptacles"),
        pytest.param(
            _problem(
                "(objectAtLocation Mug_bar_1 loc_bar_3)",
                without="(objectAtLocation Mug_bar_1 loc_bar_1)",
            ),
            id="located elsewhere",
        ),
        pytest.param(_problem("(inReceptacleObject Mug_bar_2 Box_bar_1)"), id="in a box"),
        pytest.param(
            _problem("(isCool Apple_bar_1) (isHot Mug_bar_1) (isSliced Apple_bar_1)"), id="treated"
        ),
        pytest.param(
            _problem("(opened Drawer_bar_1) (isToggled DeskLamp_bar_1) (isOn DeskLamp_bar_1)"),
            id="opened and lit",
        ),
        pytest.param(_problem(start="(atLocation agent1 loc_bar_1)"), id="starts at a receptacle"),
        pytest.param(
            _problem(
                "(holds agent1 Apple_bar_1) (holdsAny agent1)",
                without="(inReceptacle Apple_bar_1 Desk_bar_1)",
            ),
            id="starts with something in hand",
        ),
    ],
)
def test_a_tour_is_the_same_in_both_engines(problem: str) -> None:
    world, stock = AlfworldEnv(Game(problem, "tidy up")), stock_engine(problem, "tidy up")
    seen, state = world.reset(), stock.reset()
    for command in [*TOUR, None]:
        assert seen.text == state.feedback
        assert list(seen.admissible) == state.admissible_commands
        assert seen.won == state.won
        if command is None:
            break
        seen, (state, _, _) = world.step(command), stock.step(command)


def test_the_tour_wins_the_plain_game() -> None:
    world = AlfworldEnv(Game(_problem(), "tidy up"))
    world.reset()
    assert [world.step(command).won for command in TOUR].index(True) == len(TOUR) - 1


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (_problem(start=""), "one agent, at one location"),
        (_problem("(atLocation agent1 loc_bar_1)"), "one agent, at one location"),
        (_problem("(receptacleAtLocation Desk_bar_1 loc_bar_2)"), "at several locations"),
        (_problem(goal="(isHot ?x)"), "is undefined"),
        (_problem(goal="(forall (?o - object) (isClean ?o))"), "not understood"),
        (_problem(goal="(isClean Unicorn)"), "'unicorn' is used but not declared"),
    ],
)
def test_problems_that_are_refused(problem: str, reason: str) -> None:
    with pytest.raises(PddlError, match=reason):
        Game(problem, "tidy up")
