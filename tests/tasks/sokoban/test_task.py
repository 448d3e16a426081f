"""Prompts, episodes and scripted players of Sokoban."""

import random

import pytest

from tasks.chat.messages import text_of
from tasks.panels import PanelEntry
from tasks.response import format_response
from tasks.sokoban.task import SokobanTask

TASK = SokobanTask()
ENTRY = PanelEntry("x", "2", {"board": ["######", "#@$_.#", "#____#", "######"]})


def test_the_first_prompt() -> None:
    view = TASK.episode(ENTRY, 15).reset()
    (message,) = view.messages
    instructions, rest = text_of(message).split("\n\n", 1)
    assert message["role"] == "user"
    assert len(instructions.split()) < 120
    assert rest == f"Turn 1 of 15.\n\n{view.observation}"
    assert view.admissible == ("up", "down", "left", "right")


def test_the_prompt_is_the_board_and_the_turn_and_nothing_past() -> None:
    episode = TASK.episode(ENTRY, 15)
    first = episode.reset()
    for move in ("down", "up", "nonsense"):
        view = episode.step(format_response("", move)).view
    before, after = (text_of(shown.messages[0]) for shown in (first, view))
    assert view.observation == first.observation
    assert after == before.replace("Turn 1 of 15.", "Turn 4 of 15.")


def test_all_prompts_start_alike() -> None:
    fixed = TASK.prompt_template().split("\n\n")[0]
    for entry in TASK.panel("two_boxes").entries[:5]:
        assert text_of(TASK.episode(entry, 40).reset().messages[0]).startswith(fixed)


def test_a_solution() -> None:
    episode = TASK.episode(ENTRY, 15)
    episode.reset()
    first = episode.step(format_response("", "right"))
    assert (first.action, first.format_ok, first.action_ok) == ("right", True, True)
    assert (first.reward, first.outcome) == (-0.1, None)
    last = episode.step(format_response("", " Right "))
    assert last.reward == pytest.approx(10.9)
    assert last.outcome is not None
    assert last.outcome.success
    assert last.outcome.score == pytest.approx(10.8)
    assert last.view.messages == ()
    assert "#__@*#" in last.view.observation
    with pytest.raises(RuntimeError, match="not running"):
        episode.step(format_response("", "up"))


@pytest.mark.parametrize(
    ("response", "format_ok", "action_ok", "action"),
    [
        (format_response("a", "down"), True, True, "down"),
        (format_response("a", "left"), True, True, "left"),
        (format_response("a", "up, right"), True, False, None),
        (format_response("a", "push"), True, False, None),
        (format_response("a", ""), True, False, None),
        ("<action>down</action>", False, True, "down"),
        ("down", False, False, None),
    ],
)
def test_flags(response: str, format_ok: bool, action_ok: bool, action: str | None) -> None:
    episode = TASK.episode(ENTRY, 15)
    start = episode.reset()
    step = episode.step(response)
    assert (step.format_ok, step.action_ok, step.action) == (format_ok, action_ok, action)
    assert step.reward == -0.1
    assert (step.view.observation != start.observation) == (action == "down")


def test_the_turn_limit_ends_the_episode() -> None:
    episode = TASK.episode(ENTRY, 3)
    episode.reset()
    steps = [episode.step("nothing") for _ in range(3)]
    assert [step.outcome is None for step in steps] == [True, True, False]
    assert steps[-1].outcome is not None
    assert not steps[-1].outcome.success
    assert steps[-1].outcome.score == pytest.approx(-0.3)


def test_reset_starts_over() -> None:
    episode = TASK.episode(ENTRY, 15)
    first = episode.reset()
    episode.step(format_response("", "right"))
    assert episode.reset() == first


def test_an_episode_that_was_not_reset_does_not_play() -> None:
    with pytest.raises(RuntimeError, match="not running"):
        TASK.episode(ENTRY, 15).step("x")


def test_episodes_share_nothing() -> None:
    one, two = TASK.episode(ENTRY, 15), TASK.episode(ENTRY, 15)
    one.reset()
    before = two.reset()
    one.step(format_response("", "right"))
    assert two.reset() == before


def test_the_random_policy_depends_on_its_generator_alone() -> None:
    episode = TASK.episode(ENTRY, 15)
    episode.reset()
    draws = [TASK.random_response(episode, random.Random(i)) for i in range(50)]
    assert draws == [TASK.random_response(episode, random.Random(i)) for i in range(50)]
    assert len(set(draws)) == 4
