"""Prompts, turns and scripted players of ALFWorld."""

import json
import pickle
from collections import Counter

import pytest

from tasks.alfworld.task import AlfworldTask
from tasks.chat.messages import text_of
from tasks.episode import Episode, View
from tasks.errors import UserError
from tasks.panels import PanelEntry
from tasks.response import format_response
from tests.tasks.alfworld.data import data_folder

TASK = AlfworldTask()
ENTRY = PanelEntry(
    "small",
    "pick_heat_then_place_in_recep",
    {
        "room": "Kitchen",
        "task_type": "pick_heat_then_place_in_recep",
        "target": "Apple",
        "destination": "Fridge",
        "text": 0,
        "receptacles": [
            ["CounterTop_bar_01", 1],
            ["Fridge_bar_01", 2],
            ["Microwave_bar_01", 3],
        ],
        "objects": [["Apple_bar_01", "CounterTop_bar_01"], ["Knife_bar_01", "CounterTop_bar_01"]],
        "walkthrough": [
            "go to countertop 1",
            "take apple 1 from countertop 1",
            "go to microwave 1",
            "heat apple 1 with microwave 1",
            "go to fridge 1",
            "open fridge 1",
            "move apple 1 to fridge 1",
        ],
    },
)


def _prompt(view: View) -> str:
    (message,) = view.messages
    assert message["role"] == "user"
    return text_of(message)


def test_the_first_prompt() -> None:
    view = TASK.episode(ENTRY, 50).reset()
    instructions, rest = _prompt(view).split("\n\n", 1)
    assert len(instructions.split()) < 120
    assert rest == (
        "Task: put a hot apple in fridge.\n"
        "Turn 1 of 50.\n"
        "\n"
        "Now:\n"
        "-= Welcome to TextWorld, ALFRED! =-\n"
        "\n"
        "You are in the middle of a room. Looking quickly around you, you see a countertop 1, "
        "a fridge 1, and a microwave 1.\n"
        "\n"
        "Your task is to: put a hot apple in fridge.\n"
        "\n"
        "Possible commands:\n"
        "go to countertop 1\n"
        "go to fridge 1\n"
        "go to microwave 1\n"
        "inventory\n"
        "look"
    )
    assert view.admissible == (
        "go to countertop 1",
        "go to fridge 1",
        "go to microwave 1",
        "inventory",
        "look",
    )


def test_the_prompt_repeats_two_turns() -> None:
    episode = TASK.episode(ENTRY, 50)
    episode.reset()
    for command in ("inventory", "go to fridge 1", "open fridge 1"):
        view = episode.step(format_response("", command)).view
    prompt = _prompt(view)
    assert (
        "Turn 4 of 50.\n\nTurn 2:\nYou are not carrying anything.\nYou did: go to fridge 1\n"
        in (prompt)
    )
    assert (
        "\n\nTurn 3:\nYou arrive at fridge 1. The fridge 1 is closed.\nYou did: open fridge 1\n"
        in (prompt)
    )
    assert "Turn 1:" not in prompt
    assert (
        "\n\nNow:\nYou open the fridge 1. The fridge 1 is open. In it, you see nothing.\n" in prompt
    )


def test_a_solution() -> None:
    episode = TASK.episode(ENTRY, 50)
    episode.reset()
    *commands, last = ENTRY.data["walkthrough"]
    for command in commands:
        step = episode.step(format_response("", command))
        assert (step.action, step.format_ok, step.action_ok) == (command, True, True)
        assert (step.reward, step.outcome) == (0.0, None)
    step = episode.step(format_response("", last))
    assert step.outcome is not None
    assert (step.reward, step.outcome.success, step.outcome.score) == (10.0, True, 10.0)
    assert step.view.messages == ()
    assert step.view.observation == "You move the apple 1 to the fridge 1."
    with pytest.raises(RuntimeError, match="not running"):
        episode.step(format_response("", "look"))


@pytest.mark.parametrize(
    ("response", "action", "format_ok", "action_ok"),
    [
        (format_response("", "  Go To\n Fridge 1 "), "go to fridge 1", True, True),
        ("<action>go to fridge 1</action>", "go to fridge 1", False, True),
        (format_response("", "help"), "help", True, True),
        (format_response("", "open fridge 1"), None, True, False),
        (format_response("", "take unicorn 1 from countertop 1"), None, True, False),
        (format_response("", ""), None, True, False),
        (format_response("", "x" * 100_000), None, True, False),
        (format_response("", "go to fridge 1; look"), None, True, False),
        ("go to fridge 1", None, False, False),
        ("", None, False, False),
    ],
)
def test_responses(response: str, action: str | None, format_ok: bool, action_ok: bool) -> None:
    episode = TASK.episode(ENTRY, 50)
    before = episode.reset()
    step = episode.step(response)
    assert (step.action, step.format_ok, step.action_ok) == (action, format_ok, action_ok)
    assert (step.view.observation == "Nothing happens.") is (not action_ok)
    if not action_ok:
        assert step.view.admissible == before.admissible
    assert len(_prompt(step.view)) < 2_000


def test_help_is_admissible_and_not_listed() -> None:
    episode = TASK.episode(ENTRY, 50)
    assert "help" not in episode.reset().admissible
    step = episode.step(format_response("", "help"))
    assert step.view.observation.startswith("Available commands:\n")


def test_the_turn_limit() -> None:
    episode = TASK.episode(ENTRY, 3)
    episode.reset()
    steps = [episode.step(format_response("", "look")) for _ in range(3)]
    assert [step.outcome is None for step in steps] == [True, True, False]
    assert steps[-1].outcome is not None
    assert (steps[-1].outcome.success, steps[-1].outcome.score) == (False, 0.0)


def test_episodes_of_one_game_do_not_touch_each_other() -> None:
    first, second = TASK.episode(ENTRY, 50), TASK.episode(ENTRY, 50)
    first.reset()
    second.reset()
    first.step(format_response("", "go to fridge 1"))
    first.step(format_response("", "open fridge 1"))
    step = second.step(format_response("", "go to fridge 1"))
    assert step.view.observation == "You arrive at fridge 1. The fridge 1 is closed."
    assert first.reset() == TASK.episode(ENTRY, 50).reset()


def test_views_and_steps_can_be_sent_to_another_process() -> None:
    episode = TASK.episode(ENTRY, 50)
    view = episode.reset()
    assert pickle.loads(pickle.dumps(view)) == view
    step = episode.step(format_response("", "look"))
    assert pickle.loads(pickle.dumps(step)) == step


def _play(episode: Episode, player: str, limit: int = 50) -> tuple[bool, list[str]]:
    responses = {
        "expert": TASK.expert_response,
        "searcher": TASK.demonstration_response,
    }[player]
    episode.reset()
    commands = []
    for _ in range(limit):
        step = episode.step(responses(episode))
        assert step.format_ok
        assert step.action_ok
        commands.append(str(step.action))
        if step.outcome is not None:
            return step.outcome.success, commands
    raise AssertionError("the episode did not end")


def test_the_expert_plays_the_walkthrough() -> None:
    assert _play(TASK.episode(ENTRY, 50), "expert") == (True, ENTRY.data["walkthrough"])


@pytest.mark.parametrize(
    "detour",
    [
        ["go to fridge 1", "open fridge 1", "close fridge 1"],
        ["go to countertop 1", "take knife 1 from countertop 1"],
        [
            "go to countertop 1",
            "take apple 1 from countertop 1",
            "go to fridge 1",
            "cool apple 1 with fridge 1",
        ],
        ["go to countertop 1", "take apple 1 from countertop 1", "move apple 1 to countertop 1"],
        [
            "go to fridge 1",
            "go to countertop 1",
            "take knife 1 from countertop 1",
            "go to fridge 1",
        ],
    ],
)
def test_the_expert_finds_back_from_anywhere(detour: list[str]) -> None:
    episode = TASK.episode(ENTRY, 50)
    episode.reset()
    for command in detour:
        assert episode.step(format_response("", command)).action_ok
    for _ in range(15):
        step = episode.step(TASK.expert_response(episode))
        assert step.action_ok
        if step.outcome is not None:
            assert step.outcome.success
            return
    raise AssertionError("the expert did not find back")


def test_the_searcher_looks_everywhere_in_the_listed_order() -> None:
    success, commands = _play(TASK.episode(ENTRY, 50), "searcher")
    assert success
    assert commands == ENTRY.data["walkthrough"]
    moved = dict(ENTRY.data, objects=[["Apple_bar_01", "Microwave_bar_01"]])
    success, commands = _play(TASK.episode(PanelEntry("b", "", moved), 50), "searcher")
    assert success
    assert commands == [
        "go to countertop 1",
        "go to fridge 1",
        "open fridge 1",
        "go to microwave 1",
        "open microwave 1",
        "take apple 1 from microwave 1",
        "heat apple 1 with microwave 1",
        "go to fridge 1",
        "move apple 1 to fridge 1",
    ]


@pytest.mark.slow
def test_the_scripted_players_solve_the_builtin_panel() -> None:
    solved: Counter[tuple[str, str]] = Counter()
    entries = TASK.panel("builtin").entries
    for entry in entries:
        for player in ("expert", "searcher"):
            success, commands = _play(TASK.episode(entry, 50), player)
            solved[player, entry.category] += success
            if player == "expert":
                assert commands == entry.data["walkthrough"]
    assert set(solved.values()) == {24}
    assert len(solved) == 12


@pytest.mark.slow
def test_the_expert_solves_every_real_game_without_a_walkthrough() -> None:
    folder = data_folder()
    names = [name for name in ("valid_seen", "valid_unseen") if TASK.available(name)]
    assert names, f"{folder} has some games of both panels, but not all"
    for name in names:
        for entry in TASK.panel(name).entries:
            success, commands = _play(TASK.episode(entry, 50), "expert")
            assert success, entry.id
            assert len(commands) <= 13, entry.id


def test_panels() -> None:
    infos = TASK.panels()
    assert {name: info.episodes for name, info in infos.items()} == {
        "builtin": 144,
        "valid_seen": 140,
        "valid_unseen": 134,
        "train": 3553,
    }
    assert {info.max_turns for info in infos.values()} == {50}
    assert infos["train"].trace_sha256 is None
    with pytest.raises(
        UserError, match="no panel 'valid'; did you mean valid_seen or valid_unseen"
    ):
        TASK.panel("valid")


def test_entries_are_json() -> None:
    entry = TASK.training_entry(5, 3)
    assert entry.id == "train-3-5"
    assert json.loads(json.dumps(dict(entry.data))) == entry.data
    assert TASK.identity(entry) != TASK.identity(TASK.training_entry(11, 3))


def test_a_household_that_the_package_does_not_know() -> None:
    data = dict(ENTRY.data, receptacles=[["Spaceship_bar_01", 1], *ENTRY.data["receptacles"][1:]])
    data["objects"] = [["Apple_bar_01", "Spaceship_bar_01"]]
    with pytest.raises(UserError, match="knows no receptacle Spaceship"):
        TASK.episode(PanelEntry("x", "", data), 50).reset()
