"""The page's components, their wiring, and the answers of events."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import gradio as gr
import pytest

from leaderboard import app
from leaderboard.app import TABS, build
from leaderboard.board.board import Board
from leaderboard.board.protocols import BoardFacts, Protocol
from leaderboard.board.rows import FullRow
from leaderboard.page.events import (
    Page,
    key_of,
    on_control,
    on_link,
    on_panels,
    on_protocol,
    on_slow_parts,
    on_tab,
)
from leaderboard.page.query import open_query, parsed
from leaderboard.page.state import State, filled
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, first
from tests.support.board_rows import board_content, board_of, board_row


def rows(protocol: str) -> list[FullRow]:
    return [
        board_row(f"2026010{day}_{protocol}-{day}", {SOKOBAN: [first(10 * day)]}, protocol=protocol)
        for day in (1, 2, 3)
    ]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """A page with two protocols, as seen by its events."""
    content = board_content([*rows("v2"), *rows("v1")], ALFWORLD, SOKOBAN)
    panels = content.facts.protocols[0].panels
    facts = BoardFacts(content.facts.version, (Protocol("v2", panels), Protocol("v1", panels)), ())
    board = board_of(tmp_path_factory.mktemp("two"), replace(content, facts=facts))
    return wired(board)


def wired(board: Board) -> Page:
    """Build the page and capture the argument of its events."""
    found: list[Page] = []
    wire = app._wire

    def keep(demo: gr.Blocks, page: Page) -> None:
        found.append(page)
        wire(demo, page)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "_wire", keep)
        build(board, Path("nowhere"))
    return found[0]


@pytest.fixture(scope="module")
def demo(page: Page) -> gr.Blocks:
    return build(page.board, Path("nowhere"))


def dependencies(demo: gr.Blocks) -> list[dict[str, Any]]:
    return list(demo.get_config_file()["dependencies"])


def test_the_page_has_all_tabs_and_writes_nothing(demo: gr.Blocks) -> None:
    components = demo.get_config_file()["components"]
    tabs = [each["props"]["label"] for each in components if each["type"] == "tabitem"]
    assert tabs == list(TABS.values())
    kinds = {each["type"] for each in components}
    assert kinds <= {
        "accordion", "checkbox", "checkboxgroup", "column", "dropdown", "form", "html", "markdown",
        "plot", "radio", "row", "tabitem", "tabs", "textbox",
    }  # fmt: skip
    assert not demo.analytics_enabled


def test_events_are_closed_to_programs_and_set_off_no_others(demo: gr.Blocks) -> None:
    found = dependencies(demo)
    # Two of them run only in the browser.
    assert len(found) == 24
    assert sum(not each["backend_fn"] for each in found) == 2
    for each in found:
        assert each["api_visibility"] == "private"
        assert not each["queue"]
        # Gradio copies the components with progress at every event: one value, no list of choices.
        assert len(each["show_progress_on"]) == 1
        assert each["trigger_after"] is None
        assert {event for _, event in each["targets"]} <= {"input", "select", "load"}
    assert demo.get_api_info()["named_endpoints"] == {}
    assert demo.get_api_info()["unnamed_endpoints"] == {}


def part(page: Page, tab: str) -> Any:
    return next(each for each in page.parts if each.tab == tab)


def use(page: Page, tab: str, protocol: str = "v2", **values: Any) -> Any:
    """Use a tab's controls: the named ones with these values, the others with initial ones."""
    own = part(page, tab)
    given = [values.get(name, control.value) for name, control in own.controls.items()]
    return on_control(page, own, protocol, *given)[1:]


def test_controls_draw_their_tab_again(page: Page) -> None:
    _, _, _, content, sort = use(
        page, "board", panels="sokoban/builtin", search="v2-3", sort="name"
    )
    assert "1 of 3 entries, sorted by entry" in content
    assert sort == "name"
    head, _, facts, episodes = use(page, "entry", entry="20260103_v2-3")
    assert "v2-3" in head and "20260103_v2-3" in facts and "100 of 100 episodes" in episodes
    lead, *_, compared = use(page, "compare", first="20260103_v2-3", second="20260101_v2-1")
    assert "v2-3</span>" not in compared and "is better" in compared and "is better" in lead
    lead, _, against, *_ = use(page, "stability", measure="retention")
    assert "has training logs yet" in lead and "No entry" in against
    assert "Choose entries" in use(page, "curves", entries=[])[-1]


def test_panels_are_those_of_all_tabs(page: Page) -> None:
    board = part(page, "board")
    given = [control.value for control in board.controls.values()]
    given[list(board.controls).index("panels")] = "alfworld/builtin"
    drawn_for, _, _, _, content, _, asked, other = on_panels(page, board, 1, "v2", *given)
    assert asked == "alfworld/builtin"
    assert "panels=alfworld%2Fbuiltin" in drawn_for and other == "alfworld/builtin"
    assert "ALFWorld" in content and "Sokoban" not in content


def choose_tab(
    page: Page, tab: str, drawn_for: str, task: str = "", shown: str = "v2", **values: Any
) -> list[Any]:
    own = part(page, tab)
    given = [values.get(name, control.value) for name, control in own.controls.items()]
    return on_tab(page, own, "v2", shown, task, drawn_for, *given)


def test_a_tab_is_drawn_when_it_is_opened_and_only_then(page: Page) -> None:
    stability = part(page, "stability")
    assert stability.drawn_for.value == ""
    assert [component.value for component, _ in stability.contents] == ["", None, "", "", None, ""]
    drawn_for, _, _, content, *_ = choose_tab(page, "stability", "")
    assert "No entry" in content
    assert drawn_for == "tab=stability&protocol=v2&panels=sokoban%2Fbuiltin"
    assert choose_tab(page, "stability", drawn_for) == [gr.skip()] * 7
    for asked in ({"panels": "alfworld/builtin"}, {"task": "alfworld/builtin"}):
        changed, *_ = choose_tab(page, "stability", drawn_for, **asked)
        assert changed == "tab=stability&protocol=v2&panels=alfworld%2Fbuiltin"


def test_the_first_tab_is_there_at_once(page: Page) -> None:
    board = part(page, "board")
    assert choose_tab(page, "board", board.drawn_for.value) == [gr.skip()] * 6
    assert "v2-3" in board.contents[3][0].value


def test_an_episode_stays_when_its_tab_is_opened(page: Page) -> None:
    query = parsed("tab=entry&entry=20260101_v2-1&panel=sokoban/builtin&episode=builtin-0001")
    entry = part(page, "entry")
    changes = on_link(page, query, "v2")
    value = changes[entry.controls["entry"]]
    drawn_for = changes[entry.drawn_for]
    assert choose_tab(page, "entry", drawn_for, entry=value) == [gr.skip()] * 5


def test_a_control_cannot_ask_for_what_is_not_there(page: Page) -> None:
    _, _, _, content, sort = use(page, "board", panels="../etc/passwd", kinds=["<b>"], sort="no")
    assert "3 entries, sorted by success" in content
    assert (sort, "&lt;b&gt;" in content) == ("success", False)


def test_a_panel_that_is_left_cannot_be_sorted_by(page: Page) -> None:
    *_, sort = use(page, "board", panels="sokoban/builtin", sort="alfworld/builtin")
    assert sort == "success"


def values_of(page: Page, changes: dict[Any, Any]) -> dict[str, Any]:
    """The values of controls that a link changes, by tab and name."""
    return {
        f"{each.tab}.{name}": changes[control]
        for each in page.parts
        for name, control in each.controls.items()
        if control in changes
    }


def test_a_link_sets_controls_and_content_of_its_tab(page: Page) -> None:
    query = "tab=board&protocol=v2&panels=sokoban/builtin&search=v2&reverse=1&columns=date"
    changes = on_link(page, parsed(query), "v2")
    assert changes[page.tabs].selected == "board"
    assert changes[page.notice] == ""
    values = values_of(page, changes)
    # Selecting a task selects it in every tab that has a choice of panels.
    assert {name.partition(".")[0] for name in values} == {"board", "stability"}
    assert values["stability.panels"] == "sokoban/builtin"
    assert values["board.panels"] == "sokoban/builtin"
    assert values["board.search"] == "v2"
    assert values["board.columns"] == ["date"]
    assert values["board.reverse"] is True
    (content, _) = part(page, "board").contents[3]
    assert "sorted by success, worst first" in changes[content]


def test_a_link_draws_no_figure_that_is_shown_already(page: Page) -> None:
    drawn = [each.drawn_for.value for each in page.parts]
    *steady, listed = (component for component, _ in part(page, "board").contents[:4])
    query = "tab=board&protocol=v2&panels=sokoban/builtin&sort=name"
    changes = on_link(page, parsed(query), "v2", *drawn)
    assert not changes.keys() & set(steady)
    assert "sorted by entry" in changes[listed]
    other = on_link(page, parsed(query.replace("sokoban", "alfworld")), "v2", *drawn)
    assert {*steady, listed} <= set(other)
    # A tab that has not been opened is empty.
    entry = on_link(page, parsed("tab=entry&entry=20260101_v2-1"), "v2", *drawn)
    assert {component for component, _ in part(page, "entry").contents} <= set(entry)


def test_a_link_in_vain_says_so(page: Page) -> None:
    changes = on_link(page, parsed("tab=entry&entry=%3Cscript%3E"), "v2")
    assert "something that is not on the board: entry &lt;script&gt;" in changes[page.notice]
    assert changes[page.tabs].selected == "entry"


def test_no_query_changes_nothing(page: Page) -> None:
    assert list(on_link(page, {}, "v2")) == [page.notice]


def test_another_protocol_changes_all_tabs_and_what_they_offer(page: Page) -> None:
    changes = on_link(page, parsed("tab=entry&protocol=v1&entry=20260102_v1-2"), "v2")
    assert changes[page.protocol] == "v1"
    control = part(page, "entry").controls["entry"]
    assert [value for _, value in changes[control]["choices"]] == [
        "20260103_v1-3", "20260102_v1-2", "20260101_v1-1",
    ]  # fmt: skip
    assert changes[control]["value"] == "20260102_v1-2"
    # The board is drawn for the other protocol when it is opened.
    board = part(page, "board")
    (content, _) = board.contents[3]
    assert content not in changes
    given = [control.value for control in board.controls.values()]
    *_, drawn, _ = on_tab(page, board, "v1", "v1", "", board.drawn_for.value, *given)
    assert "v1-3" in drawn and "v2-3" not in drawn
    back = on_link(page, {"protocol": "v2"}, "")
    assert (changes[page.shown], back[page.shown]) == ("v1", "v2")
    assert "v2-3" in back[content]


@pytest.mark.parametrize("opened", TABS)
def test_a_tab_opened_before_the_other_protocol_has_come_is_drawn_for_it(
    page: Page, opened: str
) -> None:
    """Contents and controls stay consistent, whichever of the two answers comes first."""
    changes = on_protocol(page, "v1", opened)
    assert not {page.protocol, page.tabs} & set(changes)
    for own in page.parts:
        # Its controls are still those of the old protocol.
        given = [control.value for control in own.controls.values()]
        drawn_for, *contents = on_tab(page, own, "v1", "v2", "", own.drawn_for.value, *given)
        set_to = [changes[control] for control in own.controls.values()]
        values = [each["value"] if isinstance(each, dict) else each for each in set_to]
        # Opened again, it matches its controls.
        task = changes[page.task]
        again = on_tab(page, own, "v1", changes[page.shown], task, drawn_for, *values)
        assert again == [gr.skip()] * (len(contents) + 1)
        if own.tab == "board":
            assert "v1-3" in contents[3] and "v2-3" not in contents[3]


def test_a_protocol_chosen_in_no_known_tab_opens_the_first(page: Page) -> None:
    assert on_protocol(page, "v1", None)[page.tabs].selected == "board"


def test_an_episode_comes_by_an_event_of_its_own(page: Page) -> None:
    query = parsed("tab=entry&entry=20260101_v2-1&panel=sokoban/builtin&episode=builtin-0001")
    ((slow, _),) = part(page, "entry").slow
    waiting = on_link(page, query, "v2")[slow]
    assert "Reading the episode" in waiting
    found = re.search('data-query="([^"]*)"', waiting)
    assert found is not None
    shown = on_slow_parts(page, parsed(unescape(found[1])))[slow]
    # The submission's folder is missing.
    assert "the submission&#39;s folder is not here" in shown
    assert 'aria-current="true">builtin-0001' in shown
    assert "Reading" not in shown
    assert list(on_slow_parts(page, parsed("tab=board"))) == [slow]


def test_what_a_link_may_change_is_among_the_outputs(page: Page) -> None:
    for query in ("tab=board", "tab=curves", "tab=compare&protocol=v1", "tab=about"):
        assert set(on_link(page, parsed(query), "v2")) <= set(page.all)
        assert set(on_slow_parts(page, parsed(query))) <= set(page.slow)


def test_the_key_of_a_tab_is_what_its_controls_say(page: Page) -> None:
    state = filled(page.board, open_query(page.board, {"tab": "curves"}).state)
    assert key_of(page.board, part(page, "curves"), state) == "tab=curves&protocol=v2"
    entry = State("entry", "v2", entry="20260101_v2-1", episode="builtin-0001")
    key = key_of(page.board, part(page, "entry"), entry)
    assert key == "tab=entry&protocol=v2&entry=20260101_v2-1"


def test_what_is_drawn_is_kept(page: Page) -> None:
    one = use(page, "stability", measure="worst_seed")
    again = use(page, "stability", measure="worst_seed")
    assert all(new is old for new, old in zip(again, one, strict=True))
