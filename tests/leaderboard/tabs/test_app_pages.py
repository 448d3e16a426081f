"""The contents of tabs, as functions from a board and a state to HTML."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it comes without types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.board.board import Board
from leaderboard.board.curves import CURVES
from leaderboard.board.rows import FullRow
from leaderboard.board.training_rows import EventCount, NamedValue, Stability
from leaderboard.page.query import choices_of, open_query
from leaderboard.page.state import State, filled, frame_of, ranked, view_of
from leaderboard.table.table import table
from leaderboard.tabs.board import board_page, csv
from leaderboard.tabs.compare import compare_lead, compare_page
from leaderboard.tabs.curve_charts import curve_chart
from leaderboard.tabs.curves import curves_page
from leaderboard.tabs.entry.head import entry_head
from leaderboard.tabs.entry.page import entry_page
from leaderboard.tabs.episodes import episodes_page
from leaderboard.tabs.published import published_tables
from leaderboard.tabs.stability import (
    choices_lead,
    choices_page,
    stability_lead,
    stability_page,
)
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, Boards, first
from tests.leaderboard.pages import text_of
from tests.support.board_rows import (
    PANELS,
    board_content,
    board_of,
    board_row,
    hostile,
    panel_facts,
    synthetic_content,
)
from tests.support.runs.report_runs import INJECTION

CELLS = ("both", "first", "second", "none")
HOSTILE = INJECTION + ' ${alert(1)} [link](javascript:alert(1)) **bold** =HYPERLINK("x") " \' >'
ELEMENTS = {
    "a", "br", "button", "caption", "circle", "code", "dd", "details", "div", "dl", "dt", "em", "g",
    "h1", "h2", "h3", "h4", "i", "input", "li", "line", "ol", "p", "path", "polyline", "pre",
    "rect", "section", "span", "strong", "summary", "svg", "table", "tbody", "td", "text", "th",
    "thead", "title", "tr", "ul",
}  # fmt: skip


class Seen(HTMLParser):
    """All elements, attributes and texts of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}
        # A Space is a frame, in which other sites cannot be displayed.
        given = dict(attrs)
        if tag == "a" and (given.get("href") or "").startswith("https://"):
            assert given.get("target") == "_blank"
        if tag == "a" and (given.get("href") or "").startswith("leaderboard."):
            assert "download" in given
        if tag != "input":  # it has no closing tag
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.texts)).strip()


def harmless(page: str) -> Seen:
    """A page with our own elements only, and no links except to itself or to https."""
    seen = Seen(page)
    assert seen.elements <= ELEMENTS
    assert not [name for name, _ in seen.attributes if name.startswith("on") or name == "style"]
    for name, value in seen.attributes:
        if name == "href":
            assert re.match(r"\?tab=|https://|leaderboard\.(csv\?|json$)", value), value
        assert name != "src"
    hidden = [c for c in page if not c.isprintable() and c not in "\n\t"]
    assert hidden == []
    return seen


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return board_of(tmp_path_factory.mktemp("synthetic"), synthetic_content(24, 40))


@pytest.fixture(scope="module")
def hostile_board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    """Every free text of every entry is hostile, and so are the names of the panels' parts."""
    content = synthetic_content(12, 20)
    rows = [hostile(row, HOSTILE) for row in content.rows]
    return board_of(tmp_path_factory.mktemp("hostile"), replace(content, rows=tuple(rows)))


def stability_whole(board: Board, state: State) -> str:
    parts = (stability_lead, stability_page, choices_lead, choices_page)
    return "".join(part(board, state) for part in parts)


def compare_whole(board: Board, state: State) -> str:
    return compare_lead(board, state) + compare_page(board, state)


def pages(board: Board) -> dict[str, str]:
    """The initial contents of every tab, by its name."""
    draw: dict[str, Callable[[Board, State], str]] = {
        "board": board_page,
        "stability": stability_whole,
        "curves": curves_page,
        "entry": entry_page,
        "compare": compare_whole,
    }
    shown = {
        tab: page(board, filled(board, open_query(board, {"tab": tab}).state))
        for tab, page in draw.items()
    }
    state = filled(board, open_query(board, {"tab": "entry"}).state)
    return shown | {"episodes": episodes_page(board, Path("nowhere"), state)}


def test_every_tab_shows_something(board: Board) -> None:
    for tab, page in pages(board).items():
        assert len(harmless(page).text) > 200, tab


def test_hostile_texts_are_seen_as_they_are(hostile_board: Board) -> None:
    shown = pages(hostile_board)
    for tab, page in shown.items():
        seen = harmless(page)
        if tab != "episodes":
            assert '</script><script>document.title = "owned"' in seen.text, tab
            assert "U+202E" in seen.text, tab
    assert "owned" not in shown["episodes"]


def test_a_view_of_columns_shows_hostile_texts_too(hostile_board: Board) -> None:
    columns = ["recipe", "base_model", "init", "advantage", "clipping", "authors", "code", "paper"]
    state = open_query(hostile_board, {"columns": columns}).state
    seen = harmless(board_page(hostile_board, state))
    assert seen.text.count("owned") >= len(columns)
    state = open_query(hostile_board, {"search": HOSTILE}).state
    harmless(board_page(hostile_board, state))


def test_controls_offer_no_hidden_characters(hostile_board: Board) -> None:
    offered = choices_of(hostile_board, "v1")
    for name, choices in offered.items():
        for title, _ in choices:
            assert title.isprintable(), name


def test_csv_of_a_view(boards: Boards) -> None:
    rows = [board_row("20260101_a", {SOKOBAN: [first(50)]}, name="=HYPERLINK(1)", recipe="@x")]
    board = boards(*rows)
    state = open_query(board, {"panels": "sokoban/builtin"}).state
    head, line = csv(board, state).splitlines()
    assert head.startswith("id,rank [place],rank:last [place],name,")
    assert line.startswith("20260101_a,1,1,'=HYPERLINK(1),trained,'@x,")


def rows_of(page: str) -> list[list[str]]:
    """Cells of the first table, row by row."""
    table = page[page.index("<tbody>") : page.index("</tbody>")]
    return [
        [Seen(cell).text for cell in re.findall(r"<t[hd].*?</t[hd]>", row)]
        for row in re.findall(r"<tr.*?</tr>", table)
    ]


def test_the_board_by_hand(boards: Boards) -> None:
    board = boards(
        board_row("20260101_good", {SOKOBAN: [first(60)]}, date="2026-01-01"),
        board_row("20260102_bad", {SOKOBAN: [first(20)]}, date="2026-01-02"),
        board_row(
            "20260103_program", {SOKOBAN: [first(100)]}, kind="policy", base_model=None,
            parameters=None, init=None,
        ),
    )  # fmt: skip
    state = open_query(board, {"panels": "sokoban/builtin", "columns": ["date"]}).state
    page = board_page(board, state)
    cells = rows_of(page)
    assert [row[:2] for row in cells] == [
        ["1", "good grpo, as declared · tiny-sokoban 408K · code"],
        ["2", "bad grpo, as declared · tiny-sokoban 408K · code"],
        ["Reference, not ranked: scripted policies and inits"],
        ["–", "program policy · code"],
    ]
    assert cells[0][2].startswith("60.0 50.2–69.1")
    assert "60.0%, 95% interval 50.2 to 69.1" in cells[0][2]
    assert [row[3] for row in cells if len(row) > 3] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert "3 entries, sorted by success" in Seen(page).text


def test_ties_share_a_rank(boards: Boards) -> None:
    rows = [
        board_row(f"2026010{place}_e{place}", {SOKOBAN: [first(count)]})
        for place, count in enumerate((60, 59, 20), 1)
    ]
    page = board_page(boards(*rows), State(protocol="v1", panels="sokoban/builtin"))
    assert [row[0] for row in rows_of(page)] == ["1–2", "1–2", "3"]


def test_a_head_sorts_and_sorts_back(board: Board) -> None:
    state = open_query(board, {"sort": "retention"}).state
    page = board_page(board, state)
    assert page.count("aria-sort=") == 1
    assert 'aria-sort="descending"' in page
    assert "sort=retention&amp;reverse=1" in page
    turned = board_page(board, replace(state, reverse=True))
    assert 'aria-sort="ascending"' in turned
    lower = board_page(board, open_query(board, {"sort": "collapse_rate"}).state)
    assert 'aria-sort="ascending"' in lower


def test_published_numbers_are_marked_and_apart(board: Board) -> None:
    page = board_page(board, open_query(board, {"panels": "field"}).state)
    table, _, published = page.partition("Published by the paper: not verified, not ranked")
    assert "SAMPO" not in table and "SAMPO" in published
    assert "92.72" in published
    assert published.index("SAMPO") < published.index("GSPO") < published.index("SAPO")
    # Its numbers are for its own episodes, whichever panel of the task is shown.
    own = board_page(board, open_query(board, {"panels": "webshop/builtin"}).state)
    assert "WebShop, the paper&#39;s own episodes (%)" in own
    none = board_page(board, open_query(board, {"panels": "tir_math/builtin"}).state)
    assert "The paper has no success rates on TIR Math" in none
    assert "Table S3" in Seen(published_tables()).text


def test_what_is_refused_is_named(board: Board) -> None:
    from leaderboard.board.protocols import Refused

    facts = replace(board.facts, refused=(Refused("20260101_gone", ("a <b> reason",)),))
    with_refused = Board(facts, board._table)
    seen = harmless(board_page(with_refused, open_query(with_refused, {}).state))
    assert "Not accepted: 1 submission" in seen.text
    assert "20260101_gone: a <b> reason" in seen.text


def test_an_empty_board_says_so(tmp_path: Path) -> None:
    board = board_of(tmp_path, board_content([]))
    for tab, page in pages(board).items():
        harmless(page)
        assert tab == "episodes" or Seen(page).text


def test_filters_leave_ranks_alone(board: Board) -> None:
    every = rows_of(board_page(board, state_of(board)))
    whole = {row[1].split(" ·")[0]: row[0] for row in every if len(row) > 1}
    some = [row for row in rows_of(board_page(board, state_of(board, search="sampo"))) if row[1:]]
    assert 0 < len(some) < len(whole)
    assert all(whole[row[1].split(" ·")[0]] == row[0] for row in some)
    none = board_page(board, state_of(board, search="there is no such word"))
    assert "No entry matches these filters." in none


def state_of(board: Board, **asked: str) -> State:
    return open_query(board, asked).state


def test_curves_say_where_they_end(board: Board) -> None:
    state = filled(board, open_query(board, {"tab": "curves"}).state)
    for name in CURVES:
        said = json.loads(curve_chart(name, board, state)["plot"])["description"]
        assert re.search("ends at [0-9.]+", said), name
    without = next(r for r in board.rows() if r.stability is None)
    page = curves_page(board, replace(state, entries=(without.id,)))
    assert f"Without training logs, so without curves: {without.name}." in Seen(page).text


def test_compare_by_hand(boards: Boards) -> None:
    board = boards(
        board_row("20260101_one", {SOKOBAN: [first(60)], ALFWORLD: [first(50)]}),
        board_row("20260102_two", {SOKOBAN: [first(40)], ALFWORLD: [first(50)]}),
        board_row("20260103_three", {ALFWORLD: [first(50)]}),
    )
    state = State(tab="compare", protocol="v1", first="20260101_one", second="20260102_two")
    page = compare_page(board, replace(state, panel="sokoban/builtin"))
    cells = {row[0]: row for row in rows_of(page)}
    assert cells["alfworld/builtin"][-1] == "a tie"
    assert cells["sokoban/builtin"][1:3] == ["60.0", "40.0"]
    assert cells["sokoban/builtin"][3].startswith("+20.0 [")
    assert cells["sokoban/builtin"][5:7] == ["<0.001", "McNemar exact"]
    assert "No p-value" not in page
    assert cells["sokoban/builtin"][-1] == "one is better"
    grid, listed = page.split("on which they differ</summary>")
    assert "builtin-0040" in listed and "builtin-0039" not in listed
    assert "builtin-0060" not in listed
    # Both solve 40, the first one 20 more, and neither the remaining 40.
    counts = {name: grid.count(f'class="lb-cell lb-cell-{name}" href') for name in CELLS}
    assert counts == {"both": 40, "first": 20, "second": 0, "none": 40}
    assert "no panel in common" not in page
    lead = compare_lead(board, replace(state, second="20260103_three"))
    names = "one (grpo, as declared) minus three (grpo, as declared)"
    assert f"{names} on alfworld/builtin: 0.0 [" in text_of(lead) and "a tie." in lead
    assert "on 2 panels that both have played; 1 is a tie." in text_of(compare_lead(board, state))
    assert "two different entries" in compare_lead(board, replace(state, second=state.first))
    assert compare_page(board, replace(state, second=state.first)) == ""


def test_a_test_stands_only_beside_an_interval_of_the_same(boards: Boards) -> None:
    """With several seeds, the interval may contain 0 although the checkpoints alone differ."""
    solved = [first(95), first(60), first(55)]
    board = boards(
        board_row("20260101_three", {SOKOBAN: solved}),
        board_row("20260102_one", {SOKOBAN: [first(50)]}),
        board_row("20260103_two", {SOKOBAN: [first(40)]}),
    )
    state = State(tab="compare", protocol="v1", first="20260101_three", second="20260102_one")
    lead = text_of(compare_lead(board, state))
    assert "one has one seed, and another seed may differ by more than the intervals say" in lead
    lead = text_of(compare_lead(board, replace(state, first="20260103_two")))
    assert "two and one have one seed each, and another seed" in lead
    page = compare_page(board, state)
    (cells,) = [row for row in rows_of(page) if row[0] == "sokoban/builtin"]
    assert cells[3:] == [
        cells[3],
        "paired over episodes and the seeds of one side (Newcombe, Welch)",
        "100",
        "45",
        "a tie",
    ]
    assert "No p-value: the interval is over seeds, too" in text_of(page) and ">test<" not in page


def test_the_first_comparison_has_a_panel_in_common(boards: Boards) -> None:
    board = boards(
        board_row("20260101_a", {SOKOBAN: [first(90)]}),
        board_row("20260102_b", {ALFWORLD: [first(80)]}),
        board_row("20260103_c", {SOKOBAN: [first(10)]}),
    )
    state = filled(board, State(tab="compare", protocol="v1", first="20260101_a"))
    assert state.second == "20260103_c"


def test_programs_come_last_where_entries_are_chosen(boards: Boards) -> None:
    board = boards(
        board_row("20260101_program", {SOKOBAN: [first(100)]}, kind="policy"),
        board_row("20260102_a", {SOKOBAN: [first(10)]}),
    )
    assert [row.id for row in ranked(board, "v1")] == ["20260102_a", "20260101_program"]


def test_an_entry_page_says_everything(board: Board) -> None:
    row = next(row for row in board.rows() if row.stability is not None)
    state = State(tab="entry", protocol="v1", entry=row.id)
    page = entry_head(board, state) + entry_page(board, state)
    seen = harmless(page)
    for text in (row.name, row.description, row.contact, *row.authors, row.submission_sha256):
        assert text in seen.text
    assert f"arlarena-bench submit check submissions/{row.id}" in seen.text
    for panel in row.panels:
        assert panel.fingerprint in seen.text
        for category in panel.categories:
            assert category.category in seen.text
    for number in ("final success", "collapse", "gradient spikes"):
        assert number in seen.text
    facts = panel_facts(*PANELS[0])
    assert facts.category_name in seen.text


VIEWS = st.fixed_dictionaries(
    {
        "panels": st.sampled_from(("built-in", "field", "sokoban/builtin", "webshop/small_1000")),
        "sort": st.sampled_from(
            ("success", "rank", "name", "collapse_rate", "retention", "date", "sokoban/builtin")
        ),
        "reverse": st.booleans(),
        "search": st.sampled_from(("", "grpo", "4B", "no such")),
        "kinds": st.sampled_from(((), ("init",), ("trained", "policy"))),
        "badges": st.sampled_from(((), ("stability: logs",))),
        "size": st.sampled_from(("any", "to-1b")),
    }
)


@pytest.mark.slow
@given(VIEWS)
def test_kept_numbers_give_the_same_table(board: Board, asked: dict[str, Any]) -> None:
    state = open_query(board, asked).state
    pd.testing.assert_frame_equal(frame_of(board, state), table(board, view_of(board, state)))


def test_a_long_table_is_cut_until_all_is_asked_for(boards: Boards) -> None:
    board = boards(
        *(board_row(f"20260101_e{number}", {SOKOBAN: [first(number)]}) for number in range(60))
    )
    state = state_of(board, panels="sokoban/builtin")
    page = board_page(board, state)
    assert "60 entries, sorted by success; showing the first 30" in page
    assert "Show all 60 entries" in page
    assert [row[1].split()[0] for row in rows_of(page)] == [f"e{n}" for n in range(59, 29, -1)]
    whole = board_page(board, replace(state, all=True))
    assert len(rows_of(whole)) == 60
    assert "Show all" not in whole
    assert len(csv(board, state).splitlines()) == 61


def test_stability_says_first_what_collapsed(boards: Boards) -> None:
    def entry(name: str, happened: int, known: int) -> FullRow:
        rate = (happened / known, 0.0, 1.0) if known else (None, None, None)
        event = EventCount("collapse", happened, known, *rate)
        seeds = tuple(range(max(1, known)))
        found = Stability(seeds, (NamedValue("retention", 0.5),), (), (event,), (), None, None)
        return board_row(f"20260101_{name}", {SOKOBAN: [first(50)] * len(seeds)}, (found, ()))

    state = State(tab="stability", protocol="v1", panels="sokoban/builtin")
    board = boards(entry("a", 1, 3), entry("b", 2, 2), entry("c", 0, 1))
    said = text_of(stability_lead(board, state))
    assert said == (
        "3 of 6 training runs collapsed on the panels shown: "
        "b (grpo, as declared: 2 of 2), a (grpo, as declared: 1 of 3)."
    )
    assert text_of(stability_lead(boards(entry("c", 0, 1)), state)) == (
        "0 of 1 training run collapsed on the panels shown."
    )
    assert "has training logs yet" in stability_lead(boards(), state)
    few = stability_lead(boards(entry("d", 0, 0)), state)
    assert "No run on this task has validations enough to show whether it collapsed." in few
