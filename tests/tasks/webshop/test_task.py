"""The task: prompts, episodes, scripted players, panels."""

import pickle
import random
from collections import Counter

import pytest

from benchmark.task_checks.validate import validate
from tasks.chat.messages import text_of
from tasks.episode import Episode, Step, View
from tasks.errors import UserError
from tasks.panels import PanelEntry
from tasks.registry import load_task
from tasks.response import format_response
from tasks.text_task import TextEpisode
from tasks.webshop.data.catalogues import builtin_products, open_catalogue
from tasks.webshop.nouns import ContentWords
from tasks.webshop.panel_goals import goal_of
from tasks.webshop.reward import judge
from tasks.webshop.stream import wish_key
from tests.tasks.webshop.worlds import needs_recordings

TASK = load_task("webshop")
PANEL_SIZE = 256


def first_entry() -> PanelEntry:
    """The panel's first entry."""
    return TASK.panel("builtin").entries[0]


def act(episode: Episode, action: str) -> Step:
    return episode.step(format_response("", action))


def prompt(view: View) -> str:
    (message,) = view.messages
    return text_of(message)


def test_the_prompt_names_task_turn_page_and_actions() -> None:
    entry = first_entry()
    episode = TASK.episode(entry, 15)
    text = prompt(episode.reset())
    assert f"Task: {entry.data['instruction']}\nTurn 1 of 15.\n\nNow:\n" in text
    assert text.endswith("Possible actions:\nsearch[your words]")
    for turn in range(1, 4):
        text = prompt(act(episode, f"click[nothing {turn}]").view)
    assert "Turn 4 of 15." in text
    assert "Turn 1:" not in text
    assert text.count("You did: ") == 2
    assert "You did: click[nothing 3]" in text


def test_values_of_an_option_stand_on_one_line() -> None:
    entry = next(e for e in TASK.panel("builtin").entries if len(e.data["options"]) > 1)
    episode = TASK.episode(entry, 15)
    view = episode.reset()
    while "buy now" not in prompt(view):
        view = episode.step(TASK.expert_response(episode)).view
    listed = prompt(view).split("Possible actions:\n")[1].splitlines()
    product = open_catalogue("builtin").product(entry.data["asin"])
    for line, (option, values) in zip(listed, product.options.items(), strict=False):
        assert line == f"{option}: " + ", ".join(f"click[{value}]" for value in values)
    assert {f"click[{value}]" for values in product.options.values() for value in values} <= set(
        view.admissible
    )


def test_a_purchase_ends_the_episode_with_the_rewards_parts() -> None:
    entry = first_entry()
    episode = TASK.episode(entry, 15)
    episode.reset()
    while True:
        step = episode.step(TASK.expert_response(episode))
        assert step.format_ok
        assert step.action_ok
        if step.outcome is not None:
            break
        assert (step.reward, step.info) == (0.0, {})
    goal = goal_of(entry)
    assert step.outcome.success
    assert (step.reward, step.outcome.score) == (10.0, 100.0)
    assert step.info == {
        "value": 1.0,
        "type": 1.0,
        "attributes": len(goal.attributes),
        "attributes_asked": len(goal.attributes),
        "options": len(goal.options),
        "options_asked": len(goal.options),
        "price": True,
    }
    assert step.view.messages == ()
    with pytest.raises(RuntimeError, match="not running"):
        act(episode, "search[mug]")


def test_partial_credit_is_in_the_score_alone() -> None:
    entry = next(e for e in TASK.panel("builtin").entries if e.data["options"])
    episode = TASK.episode(entry, 15)
    episode.reset()
    for _ in range(2):
        episode.step(TASK.expert_response(episode))
    step = act(episode, "click[buy now]")
    assert step.outcome is not None
    assert not step.outcome.success
    assert step.reward == 0.0
    assert 0 < step.outcome.score < 100


def test_turns_run_out() -> None:
    episode = TASK.episode(first_entry(), 2)
    episode.reset()
    assert act(episode, "search[tin]").outcome is None
    step = act(episode, "click[back to search]")
    assert step.outcome is not None
    assert (step.outcome.success, step.outcome.score, step.info) == (False, 0.0, {})


@pytest.mark.parametrize(
    ("response", "format_ok", "action_ok"),
    [
        ("<think>x</think><action> SEARCH[Steel  Bottle] </action>", True, True),
        ("<action>search[bottle]</action>", False, True),
        ("<think>x</think><action>search[]</action>", True, False),
        ("<think>x</think><action>click[buy now]</action>", True, False),
        ("buy now", False, False),
        ("", False, False),
        ("<think>x</think><action>search[" + "a " * 50_000 + "]</action>", True, True),
        ("<think>x</think><action>search[\U0001f600\U0001f600]</action>", True, True),
        ("<think>x</think><action>search[\u0633\u0627\u0639\u0629]</action>", True, True),
        ("<think>x</think><action>search[\ud800]</action>", True, True),
        ("<think>x</think><action>search" + "[" * 100_000 + "</action>", True, False),
    ],
)
def test_responses_of_all_kinds(response: str, format_ok: bool, action_ok: bool) -> None:
    episode = TASK.episode(first_entry(), 15)
    episode.reset()
    step = episode.step(response)
    assert (step.format_ok, step.action_ok) == (format_ok, action_ok)
    assert (step.action is None) is not action_ok
    assert len(prompt(step.view)) < 13_000


def test_a_long_prompt_is_shown_without_the_past() -> None:
    """Truncated at 13,000 characters, as usual in the field."""
    episode = TASK.episode(first_entry(), 15)
    episode.reset()
    act(episode, "search[bottle]")
    text = prompt(act(episode, "click[" + "x" * 199 + "]").view)
    assert "You did:" in text
    assert isinstance(episode, TextEpisode)
    episode._history[-1]["observation"] = "x" * 13_000
    assert "You did:" not in prompt(act(episode, "click[nothing]").view)


def test_the_standard_settings_are_part_of_the_protocol() -> None:
    assert TASK.settings() == {"compat": "off", "tagger": "content-words"}
    other = TASK.configured({"compat": "on"})
    assert other.settings()["compat"] == "on"
    assert other.panel("builtin").info.trace_sha256 is None
    with pytest.raises(UserError, match="webshop.compat must be off or on, not 'yes'"):
        TASK.configured({"compat": "yes"})
    with pytest.raises(UserError, match="use content-words or spacy:PIPELINE"):
        TASK.configured({"tagger": "nltk"}).panel("builtin")


def test_with_compat_the_originals_pages_are_played() -> None:
    task = pickle.loads(pickle.dumps(TASK.configured({"compat": "on"})))
    episode = task.episode(first_entry(), 15)
    view = episode.reset()
    assert view.observation.startswith("WebShop [SEP] Instruction: [SEP] ")
    assert "Now:\n'Search'\n" in prompt(view)
    step = act(episode, "search[bottle]")
    assert step.view.observation.startswith("Instruction: [SEP] ")
    assert "Now:\n'Back to Search' [SEP] 'Page 1 (Total results: " in prompt(step.view)


def test_the_panel_is_balanced_and_asks_for_a_product_once() -> None:
    entries = TASK.panel("builtin").entries
    assert len(entries) == PANEL_SIZE
    counts = Counter(entry.category for entry in entries)
    assert len(counts) >= 10
    assert len(set(counts.values())) == 1
    assert len({TASK.identity(entry) for entry in entries}) == PANEL_SIZE
    assert len(builtin_products()) >= 1000
    assert {product.category for product in builtin_products()} == set(counts)


def test_no_tested_product_is_asked_for_in_training() -> None:
    tested = {TASK.identity(entry) for entry in TASK.panel("builtin").entries}
    drawn = [TASK.training_entry(index, seed) for seed in (0, 1000) for index in range(1500)]
    asked = {TASK.identity(entry) for entry in drawn}
    assert not tested & asked
    assert len(asked) > 1000
    assert len({entry.id for entry in drawn}) == len(drawn)
    assert TASK.training_entry(7, 3) == TASK.training_entry(7, 3)
    # Nor is one of them what another wish was made from: only the product counts.
    assert all(goal_of(entry).asin == entry.data["asin"] for entry in drawn)


@pytest.mark.slow
def test_no_training_wish_asks_for_the_same_as_a_test() -> None:
    products = {product.asin: product for product in builtin_products()}
    entries = [
        TASK.panel("builtin").entries,
        [TASK.training_entry(index) for index in range(20_000)],
    ]
    tested, trained = (
        {wish_key(products[entry.data["asin"]], goal_of(entry)) for entry in part}
        for part in entries
    )
    assert not tested & trained


@pytest.mark.slow
def test_no_product_of_another_kind_can_win() -> None:
    for entry in TASK.panel("builtin").entries:
        goal = goal_of(entry)
        wanted = open_catalogue("builtin").product(goal.asin)
        assert isinstance(goal.options, dict)
        for other in builtin_products():
            judged = judge(goal, wanted, other, goal.options, 0.0, ContentWords(), compat=False)
            assert judged.value < 1.0 or other.query == wanted.query, (entry.id, other.title)


def test_the_players_of_demonstrations_win_most() -> None:
    """They use only what the prompt shows."""
    won = 0
    for index in range(60):
        episode = TASK.episode(TASK.training_entry(index, 5), 15)
        episode.reset()
        while True:
            step = episode.step(TASK.demonstration_response(episode))
            assert step.format_ok
            assert step.action_ok
            if step.outcome is not None:
                break
        won += step.outcome.success
    assert won > 40


def test_random_responses_are_possible_ones() -> None:
    rng = random.Random(0)
    for index in range(10):
        episode = TASK.episode(TASK.training_entry(index), 15)
        episode.reset()
        for _ in range(15):
            step = episode.step(TASK.random_response(episode, rng))
            assert step.action_ok
            if step.outcome is not None:
                break


@pytest.mark.slow
def test_the_builtin_panel_holds() -> None:
    for check in validate(TASK, "builtin", 200, 1):
        assert check.ok, f"{check.name}: {check.detail}"


@pytest.mark.slow
@needs_recordings
@pytest.mark.parametrize("panel", ["small_1000", "small_1000_train"])
def test_the_public_panels_hold(panel: str) -> None:
    assert TASK.available(panel)
    opened = TASK.panel(panel)
    assert len(opened.entries) == opened.info.episodes
    for check in validate(TASK, panel, 50, 1):
        assert check.ok, f"{check.name}: {check.detail}"


@pytest.mark.slow
@needs_recordings
def test_the_public_split_is_by_product() -> None:
    test, train = (TASK.panel(name).entries for name in ("small_1000", "small_1000_train"))
    tested, trained = ({entry.data["asin"] for entry in part} for part in (test, train))
    assert (len(tested), len(trained)) == (200, 215)
    assert not tested & trained
