"""Curves and Compare open with entries of the task and the track selected on the board."""

from typing import Any

import gradio as gr
import pytest

from leaderboard.board.protocols import PanelFacts
from leaderboard.board.rows import FullRow
from leaderboard.board.training_rows import EventCount, Stability
from leaderboard.page.events import Page, TabPart, on_following_tab, on_link
from leaderboard.page.query import parsed
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, first
from tests.leaderboard.page.test_app_events import part, wired
from tests.support.board_rows import board_content, board_of, board_row

TABS = ("curves", "compare")


def trained(name: str, panel: PanelFacts, track: str) -> FullRow:
    found = Stability((0,), (), (), (EventCount("collapse", 0, 1, 0.0, 0.0, 1.0),), (), None, None)
    solved = {panel: [first(50)]}
    return board_row(f"20260101_{name}", solved, (found, ()), recipe=name, track=track)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """Most runs are on sokoban-stress; two other tracks have two entries each."""
    rows = [trained(f"stress{n}", SOKOBAN, "sokoban-stress") for n in range(3)]
    rows += [trained(f"standard{n}", SOKOBAN, "sokoban-standard") for n in range(2)]
    rows += [trained(f"house{n}", ALFWORLD, "alfworld-standard") for n in range(2)]
    content = board_content(rows, ALFWORLD, SOKOBAN)
    return wired(board_of(tmp_path_factory.mktemp("following"), content))


def open_tab(
    page: Page, tab: str, task: str = "", track: str = "", followed: str = "", **values: Any
) -> tuple[str, str, list[str]]:
    """Open a tab; returns the choice its entries follow, the state it shows, and the entries."""
    own: TabPart = part(page, tab)
    given = [values.get(name, control.value) for name, control in own.controls.items()]
    key, choice, *rest = on_following_tab(page, own, "v1", "v1", task, track, followed, "", *given)
    assert len(rest) == len(own.controls) + len(own.contents)
    if choice == gr.skip():
        choice, rest = followed, given
    chosen = dict(zip(own.controls, rest, strict=False))
    entries = chosen.get("entries", [chosen.get("first"), chosen.get("second")])
    return choice, key, [str(each).removeprefix("20260101_")[:-1] for each in entries]


@pytest.mark.parametrize("tab", TABS)
def test_a_tab_follows_the_task_and_the_track(page: Page, tab: str) -> None:
    assert set(open_tab(page, tab)[2]) == {"stress"}
    choice, key, entries = open_tab(page, tab, "alfworld/builtin")
    assert set(entries) == {"house"} and key.count("house") == 2
    assert choice == "panels=alfworld%2Fbuiltin"
    assert set(open_tab(page, tab, "sokoban/builtin", "sokoban-standard")[2]) == {"standard"}
    assert set(open_tab(page, tab, "", "sokoban-standard")[2]) == {"standard"}


@pytest.mark.parametrize("tab", TABS)
def test_entries_of_ones_own_stay_until_another_task_is_chosen(page: Page, tab: str) -> None:
    own = {"entries": ["20260101_stress2"], "first": "20260101_stress2"}
    own["second"] = "20260101_stress1"
    task, followed = "alfworld/builtin", "panels=alfworld%2Fbuiltin"
    assert set(open_tab(page, tab, task, "", followed, **own)[2]) == {"stress"}
    assert set(open_tab(page, tab, task, "alfworld-standard", followed, **own)[2]) == {"house"}


def test_what_a_link_names_wins(page: Page) -> None:
    task = "alfworld/builtin"
    own = part(page, "curves")
    changes = on_link(page, parsed("tab=curves&entries=20260101_stress2"), "v1", task=task)
    assert changes[own.controls["entries"]] == ["20260101_stress2"]
    choice = changes[own.followed]
    values = {"entries": changes[own.controls["entries"]]}
    assert open_tab(page, "curves", task, "", choice, **values)[2] == ["stress"]
    bare = on_link(page, parsed("tab=curves"), "v1", task=task)
    assert bare[own.controls["entries"]] == ["20260101_house0", "20260101_house1"]
    assert own.followed not in on_link(page, parsed("tab=board"), "v1")
    assert set(changes) <= set(page.all)


def test_a_link_to_a_comparison_keeps_the_entry_that_it_names(page: Page) -> None:
    changes = on_link(page, parsed("tab=compare&first=20260101_stress2"), "v1", task="x")
    own = part(page, "compare")
    assert changes[own.controls["first"]] == "20260101_stress2"
    assert changes[own.controls["second"]] in ("20260101_stress0", "20260101_stress1")
