"""Generated households are determined by their seed, plausible, unsolved, and solvable."""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.alfworld.engine.package import constants
from tasks.alfworld.generator import generate
from tasks.alfworld.goals import TASK_TYPES
from tasks.alfworld.household import Household
from tasks.alfworld.rooms import FIXTURE_PLACES, ROOMS, SPACES, rooms_of
from tasks.seeding import canonical_json, sha256_text
from tests.tasks.alfworld.house import DONE_WITH, OPENS, STATE, House

KINDS = [(task_type, room) for task_type in TASK_TYPES for room in rooms_of(task_type)]
households = st.builds(
    lambda kind, seed: generate(kind[0], kind[1], random.Random(seed)),
    st.sampled_from(KINDS),
    st.integers(0, 2**32),
)


def test_rooms_of_task_types() -> None:
    assert Counter(room for _, room in KINDS) == {
        "Kitchen": 5,
        "LivingRoom": 3,
        "Bedroom": 3,
        "Bathroom": 3,
    }
    assert rooms_of("look_at_obj_in_light") == ("LivingRoom", "Bedroom")
    with pytest.raises(ValueError, match="not asked in a Bathroom"):
        generate("pick_heat_then_place_in_recep", "Bathroom", random.Random(0))


def test_tables_name_only_what_the_package_knows() -> None:
    contains = constants().contains
    for kind in ROOMS.values():
        types = {piece.type for piece in kind.furniture}
        assert types <= set(contains)
        assert types <= set(SPACES)
        for name in kind.stock:
            assert any(name in contains[furniture] for furniture in types), name
        assert set(kind.fixtures) <= set(FIXTURE_PLACES)
    assert constants().openable & set(SPACES) == OPENS


def test_twenty_households_are_the_same_everywhere() -> None:
    made = [
        generate(*KINDS[number % len(KINDS)], random.Random(number)).to_data()
        for number in range(20)
    ]
    assert sha256_text(canonical_json(made)) == (
        "d106337b6b75df51a8aab371efa456fab56bbf483dbc55ddc418a361c1b0dba3"
    )


@given(households)
def test_round_trip(household: Household) -> None:
    assert Household.from_data(household.to_data()) == household


@given(households)
def test_the_walkthrough_wins_with_its_last_command_and_not_before(household: Household) -> None:
    house = House(household)
    assert not house.won
    for command in household.walkthrough[:-1]:
        house.play(command)
        assert not house.won
    house.play(household.walkthrough[-1])
    assert house.won


@given(households)
def test_what_lies_where_is_what_the_package_allows(household: Household) -> None:
    contains = constants().contains
    receptacles = {item.id: item for item in household.receptacles}
    for thing in household.objects:
        inside = receptacles[thing.inside].type
        if thing.type in FIXTURE_PLACES:
            assert inside in FIXTURE_PLACES[thing.type]
        else:
            assert thing.type in contains[inside]
    filled = Counter(thing.inside for thing in household.objects)
    assert all(count <= SPACES[receptacles[name].type].places for name, count in filled.items())
    assert 8 <= len(household.receptacles) <= 25


@given(households)
def test_the_task_can_be_asked_and_is_not_begun(household: Household) -> None:
    table = constants()
    places = {item.id: item for item in household.receptacles}
    targets = [thing for thing in household.objects if thing.type == household.target]
    inside = [places[thing.inside] for thing in targets]
    state = STATE.get(household.task_type)
    if household.task_type == "look_at_obj_in_light":
        lamps = [thing for thing in household.objects if thing.type == household.destination]
        assert [lamp.type for lamp in lamps] == ["DeskLamp"]
        beside = places[lamps[0].inside].location
        assert all(item.location != beside for item in inside)
    else:
        assert household.target in table.contains[household.destination]
        assert household.destination in {item.type for item in household.receptacles}
    if state is None:
        assert all(item.type != household.destination for item in inside)
    else:
        assert household.target in table.actions[f"{state.capitalize()}able"]
        assert any(item.type == DONE_WITH[state] for item in household.receptacles)
        assert household.destination != DONE_WITH[state]
        assert any(item.type != household.destination for item in inside)
    if household.task_type == "pick_two_obj_and_place":
        assert len(targets) >= 2


@pytest.mark.slow
def test_households_vary() -> None:
    made = [generate(*KINDS[number % len(KINDS)], random.Random(number)) for number in range(700)]
    targets = [
        (household, [thing for thing in household.objects if thing.type == household.target])
        for household in made
    ]
    several = sum(len(things) > 1 for _, things in targets) / len(made)
    closed = [thing.inside.split("_")[0] in OPENS for _, things in targets for thing in things]
    opens = sum(household.destination in OPENS for household in made) / len(made)
    shared = sum(
        len({item.location for item in household.receptacles}) < len(household.receptacles)
        for household in made
    )
    assert 0.4 < several < 0.8
    # It is 0.15 in the real games.
    assert 0.1 < sum(closed) / len(closed) < 0.3
    assert 0.15 < opens < 0.4
    assert 0.3 < shared / len(made) < 0.9
    assert {household.text for household in made} == {0, 1}
    assert min(len(household.walkthrough) for household in made) == 4
    assert max(len(household.walkthrough) for household in made) <= 12
