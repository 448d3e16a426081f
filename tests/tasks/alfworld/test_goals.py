"""Texts and goals of the six task types, and the names of real games."""

import json
import os
import re
from pathlib import Path

import pytest

from tasks.alfworld.goals import (
    TASK_TYPES,
    GameName,
    goal_pddl,
    parse_game_name,
    task_texts,
)
from tasks.errors import UserError


@pytest.mark.parametrize(
    ("task_type", "target", "destination", "texts"),
    [
        (
            "pick_and_place_simple",
            "SoapBar",
            "Toilet",
            ("put a soapbar in toilet", "put some soapbar on toilet"),
        ),
        (
            "look_at_obj_in_light",
            "CD",
            "DeskLamp",
            ("look at cd under the desklamp", "examine the cd with the desklamp"),
        ),
        (
            "pick_clean_then_place_in_recep",
            "Cup",
            "Cabinet",
            ("put a clean cup in cabinet", "clean some cup and put it in cabinet"),
        ),
        (
            "pick_heat_then_place_in_recep",
            "Apple",
            "Fridge",
            ("put a hot apple in fridge", "heat some apple and put it in fridge"),
        ),
        (
            "pick_cool_then_place_in_recep",
            "Pan",
            "StoveBurner",
            ("put a cool pan in stoveburner", "cool some pan and put it in stoveburner"),
        ),
        (
            "pick_two_obj_and_place",
            "Book",
            "Bed",
            ("put two book in bed", "find two book and put them in bed"),
        ),
    ],
)
def test_texts(task_type: str, target: str, destination: str, texts: tuple[str, str]) -> None:
    assert task_texts(task_type, target, destination) == texts


def test_a_goal() -> None:
    assert goal_pddl("pick_heat_then_place_in_recep", "Apple", "Fridge") == (
        "(:goal (and (exists (?r - receptacle) (exists (?o - object) (and (heatable ?o) "
        "(objectType ?o AppleType) (receptacleType ?r FridgeType) (isHot ?o) "
        "(inReceptacle ?o ?r) ) ) ) ) )"
    )


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_goals_are_whole(task_type: str) -> None:
    goal = goal_pddl(task_type, "Apple", "Fridge")
    depth = 0
    for position, character in enumerate(goal):
        depth += {"(": 1, ")": -1}.get(character, 0)
        assert (depth == 0) == (position == len(goal) - 1)
    assert not set("#{}") & set(goal)


def test_names_of_real_games() -> None:
    assert parse_game_name(
        "pick_clean_then_place_in_recep-ButterKnife-None-DiningTable-16"
    ) == GameName("pick_clean_then_place_in_recep", "ButterKnife", None, "DiningTable", 16)
    assert parse_game_name("look_at_obj_in_light-CD-None-DeskLamp-308").target == "CD"


@pytest.mark.parametrize(
    "name",
    [
        "",
        "pick_and_place_simple-Apple-None-Fridge",
        "pick_and_place_simple-Apple-None-Fridge-1/trial",
        "pick_and_place_simple-apple-None-Fridge-1",
        "pick_and_place_simple-Apple-None-Fridge-1\n",
        "pick_and_place_with_movable_recep-Apple-Bowl-Fridge-1",
    ],
)
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(UserError):
        parse_game_name(name)


def test_texts_and_goals_are_those_of_the_real_games() -> None:
    root = Path(os.environ.get("ALFWORLD_DATA", "")) / "json_2.1.1"
    files = sorted(root.glob("*/*/*/game.tw-pddl")) if "ALFWORLD_DATA" in os.environ else []
    if not files:
        pytest.skip("needs the real games: $ALFWORLD_DATA names no folder with json_2.1.1")
    checked = set()
    for file in files[::5]:
        name = file.parent.parent.name
        if "movable" in name or "Sliced" in name:
            continue
        game = parse_game_name(name)
        content = json.loads(file.read_text("utf-8"))
        arguments = (game.task_type, game.target, game.destination)
        task = re.search(r'"Your task is to: (.*?)\."', content["grammar"])
        assert task is not None
        assert task[1] in task_texts(*arguments)
        problem = content["pddl_problem"]
        goal = " ".join(problem[problem.index("(:goal") :].split())
        assert goal == f"{goal_pddl(*arguments)} )"
        checked.add(game.task_type)
    assert checked == set(TASK_TYPES)
