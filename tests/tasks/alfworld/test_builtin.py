"""The built-in panel's households and the training stream."""

import json
from collections import Counter

import pytest

from tasks.alfworld import stream
from tasks.alfworld.goals import TASK_TYPES
from tasks.alfworld.household import Household, household_key
from tasks.alfworld.make_panels import builtin_entries
from tasks.alfworld.stream import BUILTIN, panel_keys, training_household
from tasks.panels import panel_bytes
from tasks.seeding import canonical_json, sha256_text
from tests.tasks.alfworld.house import House


@pytest.mark.slow
def test_the_file_comes_out_the_same_again() -> None:
    assert panel_bytes(builtin_entries()) == BUILTIN.read_bytes()


def test_the_panel_is_balanced_and_its_households_are_distinct() -> None:
    rows = [json.loads(line) for line in BUILTIN.read_text("utf-8").splitlines()]
    households = [Household.from_data(row["data"]) for row in rows]
    assert [row["category"] for row in rows] == [h.task_type for h in households]
    assert Counter(h.task_type for h in households) == dict.fromkeys(TASK_TYPES, 24)
    assert Counter(h.room for h in households) == {
        "Kitchen": 72,
        "LivingRoom": 24,
        "Bedroom": 24,
        "Bathroom": 24,
    }
    assert len({household_key(h) for h in households}) == len(panel_keys()) == 144
    assert rows[0]["id"] == "place-000"
    assert rows[-1]["id"] == "two-023"
    assert len({row["id"] for row in rows}) == 144
    for task_type in TASK_TYPES:
        asked = {(h.target, h.destination) for h in households if h.task_type == task_type}
        assert len(asked) >= 20


@pytest.mark.slow
def test_every_walkthrough_of_the_panel_wins() -> None:
    for entry in builtin_entries():
        house = House(Household.from_data(entry.data))
        for command in house.household.walkthrough:
            assert not house.won
            house.play(command)
        assert house.won


@pytest.mark.slow
def test_training_holds_no_household_of_the_panel() -> None:
    made = [training_household(index, seed) for seed in (0, 1) for index in range(300)]
    assert not panel_keys() & {household_key(household) for household in made}
    assert Counter(household.task_type for household in made) == dict.fromkeys(TASK_TYPES, 100)


def test_the_training_stream_is_the_same_everywhere() -> None:
    made = [training_household(index, seed).to_data() for seed in (0, 1) for index in range(20)]
    assert sha256_text(canonical_json(made)) == (
        "6da9baaf470a5a50bb5df0f56db1cb138eeae5a93480a922e8f7001e3187da85"
    )
    assert training_household(3, 0) != training_household(3, 1)
    with pytest.raises(ValueError, match="must not be negative"):
        training_household(-1)


def test_a_household_of_the_panel_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    first = training_household(5)
    monkeypatch.setattr(stream, "panel_keys", lambda: frozenset({household_key(first)}))
    assert household_key(training_household(5)) != household_key(first)
