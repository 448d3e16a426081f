"""Households as data: display names, equality, and conversion to PDDL."""

from dataclasses import replace
from typing import Any

import pytest

from tasks.alfworld.household import (
    Household,
    Receptacle,
    Thing,
    displayed_names,
    household_key,
    type_of,
)
from tasks.alfworld.problem import problem_text
from tasks.alfworld.walkthrough import shortest_walkthrough
from tasks.errors import UserError

KITCHEN = Household(
    room="Kitchen",
    task_type="pick_heat_then_place_in_recep",
    target="Apple",
    destination="Cabinet",
    text=0,
    receptacles=(
        Receptacle("Cabinet_bar_01", 1),
        Receptacle("Cabinet_bar_02", 1),
        Receptacle("CounterTop_bar_01", 2),
        Receptacle("Microwave_bar_01", 3),
        Receptacle("Sink_bar_01_bar_SinkBasin", 4),
    ),
    objects=(
        Thing("Apple_bar_01", "CounterTop_bar_01"),
        Thing("Bowl_bar_01", "Cabinet_bar_02"),
        Thing("HousePlant_bar_01", "CounterTop_bar_01"),
    ),
    walkthrough=("look",),
)


def changed(**fields: Any) -> dict[str, Any]:
    return {**KITCHEN.to_data(), **fields}


def test_round_trip() -> None:
    assert Household.from_data(KITCHEN.to_data()) == KITCHEN


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "the fields must be"),
        (changed(extra=1), "the fields must be"),
        (changed(room="Cellar"), "room must be one of"),
        (changed(room=["Kitchen"]), "room must be one of"),
        (changed(task_type="pick_and_place_with_movable_recep"), "task_type must be one of"),
        (changed(target="apple"), "target must be a type name"),
        (changed(destination="Cabinet) (x"), "destination must be a type name"),
        (changed(text=2), "text must be 0 or 1"),
        (changed(text=True), "text must be 0 or 1"),
        (changed(text=0.0), "text must be 0 or 1"),
        (changed(receptacles=[]), "receptacles must have 1 to 200 entries"),
        (changed(receptacles={"Cabinet_bar_01": 1}), "receptacles must be a list"),
        (changed(receptacles=[["Cabinet_bar_01", True]]), "each of receptacles must be a pair"),
        (changed(receptacles=[["Cabinet_bar_01", 1, 1]]), "each of receptacles must be a pair"),
        (changed(receptacles=[["Cabinet_bar_01", 2]]), "locations must be numbered"),
        (changed(receptacles=[["Cabinet_01", 1]]), "not an id such as"),
        (changed(receptacles=[["Sink_bar_01_bar_BathtubBasin", 1]]), "not an id such as"),
        (changed(objects=[["Apple_bar_01", 1]]), "each of objects must be a pair"),
        (changed(objects=[["Apple_bar_01", "Cabinet_bar_03"]]), "which is not a receptacle"),
        (changed(objects=[["Apple_bar_01", "Cabinet_bar_01"]] * 2), "an id appears twice"),
        (changed(objects=[["Bowl_bar_01", "Cabinet_bar_01"]]), "there is no Apple"),
        (changed(destination="Fridge"), "there is no Fridge"),
        (changed(walkthrough=[]), "walkthrough must be a list"),
        (changed(walkthrough="look"), "walkthrough must be a list"),
        (changed(walkthrough=["look" * 100]), "walkthrough must be a list"),
        (changed(walkthrough=["look"] * 51), "walkthrough must be a list"),
    ],
)
def test_other_data_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Household.from_data(data)


def test_types() -> None:
    assert type_of("ButterKnife_bar_01") == "ButterKnife"
    assert type_of("Sink_bar_01_bar_SinkBasin") == "SinkBasin"
    with pytest.raises(UserError, match="not an id"):
        type_of("Apple_bar_01\n")


def test_the_first_id_has_the_highest_number() -> None:
    assert displayed_names(KITCHEN) == {
        "Cabinet_bar_01": "cabinet 2",
        "Cabinet_bar_02": "cabinet 1",
        "CounterTop_bar_01": "countertop 1",
        "Microwave_bar_01": "microwave 1",
        "Sink_bar_01_bar_SinkBasin": "sinkbasin 1",
        "Apple_bar_01": "apple 1",
        "Bowl_bar_01": "bowl 1",
        "HousePlant_bar_01": "houseplant 1",
    }


def test_the_key_does_not_see_names() -> None:
    renamed = replace(
        KITCHEN,
        text=1,
        walkthrough=("go to cabinet 1",),
        receptacles=(
            Receptacle("Sink_bar_01_bar_SinkBasin", 1),
            Receptacle("Cabinet_bar_01", 3),
            Receptacle("Cabinet_bar_02", 3),
            Receptacle("Microwave_bar_01", 2),
            Receptacle("CounterTop_bar_07", 4),
        ),
        objects=(
            Thing("HousePlant_bar_02", "CounterTop_bar_07"),
            Thing("Apple_bar_03", "CounterTop_bar_07"),
            Thing("Bowl_bar_01", "Cabinet_bar_01"),
        ),
    )
    assert household_key(renamed) == household_key(KITCHEN)


@pytest.mark.parametrize(
    "other",
    [
        replace(KITCHEN, target="Bowl"),
        replace(KITCHEN, destination="CounterTop"),
        replace(KITCHEN, task_type="pick_and_place_simple"),
        replace(KITCHEN, objects=KITCHEN.objects[:2]),
        replace(KITCHEN, objects=(Thing("Apple_bar_01", "Cabinet_bar_01"), *KITCHEN.objects[1:])),
        replace(KITCHEN, receptacles=KITCHEN.receptacles[:4]),
        replace(
            KITCHEN,
            receptacles=(
                *KITCHEN.receptacles[:1],
                Receptacle("Cabinet_bar_02", 5),
                *KITCHEN.receptacles[2:],
            ),
        ),
    ],
)
def test_the_key_sees_everything_else(other: Household) -> None:
    assert household_key(other) != household_key(KITCHEN)


def test_the_problem() -> None:
    lines = problem_text(KITCHEN).splitlines()
    assert len(set(lines)) == len(lines) - lines.count(")") + 1
    facts = lines[lines.index("(:init") + 1 : -3]
    assert sorted(facts) == [
        "(atLocation agent1 loc_bar_00)",
        "(canContain CabinetType BowlType)",
        "(canContain CounterTopType AppleType)",
        "(canContain CounterTopType BowlType)",
        "(canContain MicrowaveType AppleType)",
        "(canContain MicrowaveType BowlType)",
        "(canContain SinkBasinType AppleType)",
        "(canContain SinkBasinType BowlType)",
        "(cleanable Apple_bar_01)",
        "(cleanable Bowl_bar_01)",
        "(coolable Apple_bar_01)",
        "(coolable Bowl_bar_01)",
        "(heatable Apple_bar_01)",
        "(inReceptacle Apple_bar_01 CounterTop_bar_01)",
        "(inReceptacle Bowl_bar_01 Cabinet_bar_02)",
        "(inReceptacle HousePlant_bar_01 CounterTop_bar_01)",
        "(isReceptacleObject Bowl_bar_01)",
        "(objectAtLocation Apple_bar_01 loc_bar_02)",
        "(objectAtLocation Bowl_bar_01 loc_bar_01)",
        "(objectAtLocation HousePlant_bar_01 loc_bar_02)",
        "(objectType Apple_bar_01 AppleType)",
        "(objectType Bowl_bar_01 BowlType)",
        "(objectType HousePlant_bar_01 HousePlantType)",
        "(openable Cabinet_bar_01)",
        "(openable Cabinet_bar_02)",
        "(openable Microwave_bar_01)",
        "(pickupable Apple_bar_01)",
        "(pickupable Bowl_bar_01)",
        "(receptacleAtLocation Cabinet_bar_01 loc_bar_01)",
        "(receptacleAtLocation Cabinet_bar_02 loc_bar_01)",
        "(receptacleAtLocation CounterTop_bar_01 loc_bar_02)",
        "(receptacleAtLocation Microwave_bar_01 loc_bar_03)",
        "(receptacleAtLocation Sink_bar_01_bar_SinkBasin loc_bar_04)",
        "(receptacleType Cabinet_bar_01 CabinetType)",
        "(receptacleType Cabinet_bar_02 CabinetType)",
        "(receptacleType CounterTop_bar_01 CounterTopType)",
        "(receptacleType Microwave_bar_01 MicrowaveType)",
        "(receptacleType Sink_bar_01_bar_SinkBasin SinkBasinType)",
        "(sliceable Apple_bar_01)",
    ]


def test_what_the_package_does_not_know_is_no_problem_text() -> None:
    data = changed(
        receptacles=[["Cabinet_bar_01", 1], ["Bowl_bar_01", 2]],
        objects=[["Apple_bar_01", "Bowl_bar_01"]],
    )
    with pytest.raises(UserError, match="knows no receptacle Bowl"):
        problem_text(Household.from_data(data))
    with pytest.raises(UserError, match="of the needed kind"):
        problem_text(Household.from_data(changed(destination="HousePlant")))


def test_the_walkthrough_goes_and_opens_only_where_it_must() -> None:
    household = replace(
        KITCHEN,
        task_type="pick_two_obj_and_place",
        target="Bowl",
        destination="Cabinet",
        objects=(
            Thing("Bowl_bar_01", "CounterTop_bar_01"),
            Thing("Bowl_bar_02", "Microwave_bar_01"),
            Thing("Bowl_bar_03", "CounterTop_bar_01"),
        ),
    )
    # The microwave would have to be opened, so both come from the countertop; bowl 1 is
    # Bowl_bar_03. The cabinet stays open between the two.
    assert shortest_walkthrough(household) == (
        "go to countertop 1",
        "take bowl 1 from countertop 1",
        "go to cabinet 1",
        "open cabinet 1",
        "move bowl 1 to cabinet 1",
        "go to countertop 1",
        "take bowl 3 from countertop 1",
        "go to cabinet 1",
        "move bowl 3 to cabinet 1",
    )


def test_the_walkthrough_uses_what_is_at_hand() -> None:
    household = replace(
        KITCHEN,
        destination="CounterTop",
        objects=(
            Thing("Apple_bar_01", "Cabinet_bar_01"),
            Thing("Apple_bar_02", "Microwave_bar_01"),
        ),
    )
    # apple 2 (Apple_bar_01) needs one more walk than apple 1, which is in the microwave.
    assert shortest_walkthrough(household) == (
        "go to microwave 1",
        "open microwave 1",
        "take apple 1 from microwave 1",
        "heat apple 1 with microwave 1",
        "go to countertop 1",
        "move apple 1 to countertop 1",
    )
