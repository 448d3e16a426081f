"""A view as a query, and back."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.board.board import Board
from leaderboard.board.rows import FullRow
from leaderboard.page.query import MAX_LINK, MAX_SEARCH, Ignored, open_query, panel_choices, parsed
from leaderboard.page.state import (
    MOST_CURVES,
    SIZES,
    TABS,
    USUAL,
    State,
    panels_of_name,
    query_of,
    repeats_of,
    view_of,
)
from leaderboard.table.columns import SUCCESS
from leaderboard.table.view import wanted
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, first
from tests.support.board_rows import board_content, board_of, board_row, panel_facts

SEEN = panel_facts("alfworld", "valid_seen", "ALFWorld", "points", 100)
ENTRIES = tuple(f"2026010{day}_entry-{day}" for day in range(1, 9))


THRICE = "20260202_thrice"


def thrice(row: FullRow) -> FullRow:
    (panel,), (outcomes,) = row.panels, row.outcomes
    solved = tuple(3 * count for count in outcomes.solved)
    return replace(
        row,
        panels=(replace(panel, plays=3 * panel.plays),),
        outcomes=(replace(outcomes, solved=solved),),
    )


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    rows = [
        board_row(entry, {SOKOBAN: [first(50), first(40)], ALFWORLD: [first(9)] * 2}, kind=kind)
        for entry, kind in zip(ENTRIES, ["init", "trained"] * 4, strict=True)
    ]
    rows.append(board_row("20260201_seen", {SEEN: [first(3)]}))
    # Each checkpoint has played every episode three times.
    rows.append(thrice(board_row(THRICE, {SOKOBAN: [first(50), first(40)]})))
    content = board_content(rows, ALFWORLD, SEEN, SOKOBAN)
    return board_of(tmp_path_factory.mktemp("board"), content)


def opened(board: Board, query: str) -> State:
    found = open_query(board, parsed(query))
    assert found.ignored == Ignored()
    return found.state


def test_a_query_by_hand(board: Board) -> None:
    state = opened(board, "tab=board&panels=sokoban/builtin&kinds=init&search=a+b&reverse=1")
    assert state == State(
        tab="board",
        protocol="v1",
        panels="sokoban/builtin",
        kinds=("init",),
        search="a b",
        reverse=True,
    )
    assert query_of(state) == (
        "tab=board&protocol=v1&panels=sokoban%2Fbuiltin&search=a+b&kinds=init&reverse=1"
    )
    view = view_of(board, state)
    assert (view.panels, view.kinds, view.reverse) == (((SOKOBAN.key),), ("init",), True)


def test_nothing_asked_for_is_the_first_view(board: Board) -> None:
    assert opened(board, "") == State(protocol="v1", panels="built-in")
    assert query_of(opened(board, "")) == "tab=board&protocol=v1&panels=built-in"


def test_names_of_panels(board: Board) -> None:
    # A mean without any trained entry is not offered, but its URL still works.
    assert [name for _, name in panel_choices(board, "v1")] == [
        "built-in", "alfworld/builtin", "alfworld/valid_seen", "sokoban/builtin",
    ]  # fmt: skip
    assert opened(board, "panels=field").panels == "field"
    assert dict(panel_choices(board, "v1"))["Sokoban (5)"] == "sokoban/builtin"
    assert panels_of_name(board, "v1", "field") == (SEEN.key, SOKOBAN.key)
    assert panels_of_name(board, "v1", "nothing") == ()


def columns_as_set(columns: tuple[str, ...]) -> tuple[str, ...]:
    return USUAL if set(columns) == set(USUAL) else columns


STATES = st.builds(
    State,
    tab=st.sampled_from(sorted(TABS)),
    protocol=st.just("v1"),
    panels=st.sampled_from(("built-in", "field", "alfworld/valid_seen")),
    search=st.text(max_size=30).map(str.strip),
    kinds=st.lists(st.sampled_from(("init", "trained")), unique=True).map(tuple),
    badges=st.lists(st.sampled_from(("replayed", "re-run")), unique=True).map(tuple),
    size=st.sampled_from(tuple(SIZES)),
    columns=st.lists(st.sampled_from((*USUAL, "authors")), unique=True).map(
        lambda columns: columns_as_set(tuple(columns))
    ),
    sort=st.sampled_from((SUCCESS, "name", "retention")),
    reverse=st.booleans(),
    all=st.booleans(),
    measure=st.sampled_from(("retention", "collapse_rate")),
    entries=st.lists(st.sampled_from(ENTRIES), max_size=MOST_CURVES, unique=True).map(tuple),
    entry=st.sampled_from((*ENTRIES, THRICE)),
    panel=st.sampled_from(("sokoban/builtin", "alfworld/builtin")),
    show=st.sampled_from(("all", "failed")),
    seed=st.sampled_from(("0", "1")),
    episode=st.just("builtin-0007"),
    first=st.sampled_from(ENTRIES),
    second=st.sampled_from(ENTRIES),
)


@given(STATES)
def test_a_link_shows_what_its_sender_saw(board: Board, state: State) -> None:
    query = query_of(state)
    again = opened(board, query)
    assert query_of(again) == query
    assert again.tab == state.tab
    if state.tab == "board":
        assert (again.search, again.all) == (state.search, state.all)
        assert again.columns == state.columns
        assert view_of(board, again) == view_of(board, state)
    if state.tab == "entry":
        named = ("entry", "panel", "show", "seed", "episode")
        assert [getattr(again, n) for n in named] == [getattr(state, n) for n in named]
    if state.tab == "curves":
        assert again.entries == state.entries
    if state.tab == "compare":
        assert (again.first, again.second) == (state.first, state.second)


def test_no_columns_are_no_columns(board: Board) -> None:
    none = open_query(board, {"columns": []}).state
    assert none.columns == ()
    assert opened(board, query_of(none)).columns == ()
    assert opened(board, "").columns == USUAL


@given(st.dictionaries(st.sampled_from(State.__slots__), st.lists(st.text(max_size=12))))
def test_nothing_unknown_is_taken_over(board: Board, asked: dict[str, list[str]]) -> None:
    state = open_query(board, parsed(urlencode(asked, doseq=True, errors="replace"))).state
    assert state.tab in TABS
    assert {*state.entries, state.entry, state.first, state.second} <= {*ENTRIES, ""}
    assert state.panels in {"field", *(name for _, name in panel_choices(board, "v1"))}
    assert opened(board, query_of(state)) is not None


@given(st.text(max_size=300))
def test_any_query_opens_something(board: Board, query: str) -> None:
    assert open_query(board, parsed(query)).state.tab in TABS


def test_what_is_not_there_is_said(board: Board) -> None:
    found = open_query(board, parsed("tab=x&protocol=v9&entry=%3Cb%3E&bases=no&kinds=policy"))
    assert found.state == State(protocol="v1", panels="built-in")
    said = found.ignored.text
    assert said == (
        "This link asks for something that is not on the board: tab x, protocol v9, kind policy "
        "and 2 more."
    )
    assert Ignored().text == ""
    long = open_query(board, parsed(f"panels={'b' * 500}")).ignored.text
    assert long.endswith(f"not on the board: task {'b' * 59}\u2026.")


def test_a_seed_and_an_episode_belong_to_what_is_shown(board: Board) -> None:
    found = open_query(
        board, parsed(f"tab=entry&entry={ENTRIES[0]}&panel=sokoban/builtin&seed=2&episode=x")
    )
    assert found.ignored == Ignored(("seed 2", "episode x"))
    assert open_query(board, parsed("tab=entry&episode=builtin-0001")).state.episode == ""


def test_a_panel_that_is_not_shown_sorts_nothing(board: Board) -> None:
    assert opened(board, "panels=sokoban/builtin&sort=alfworld/builtin").sort == SUCCESS
    assert opened(board, "panels=built-in&sort=alfworld/builtin").sort == "alfworld/builtin"


def test_a_play_belongs_to_what_is_shown(board: Board) -> None:
    query = f"tab=entry&protocol=v1&entry={THRICE}&panel=sokoban%2Fbuiltin"
    query += "&seed=1&repeat=3&episode=builtin-0007"
    state = opened(board, query)
    assert (state.seed, state.repeat) == ("1", "3")
    assert query_of(state) == query
    row, other = board.row(THRICE), board.row(ENTRIES[0])
    assert row is not None and other is not None
    assert repeats_of(row, "sokoban/builtin") == repeats_of(row, "") == ("1", "2", "3")
    assert repeats_of(row, "alfworld/builtin") == ()
    assert repeats_of(other, "sokoban/builtin") == ("1",)
    for entry, repeat in ((THRICE, "4"), (THRICE, "0"), (ENTRIES[0], "2")):
        found = open_query(board, {"tab": "entry", "entry": entry, "repeat": repeat})
        assert found.ignored == Ignored((f"repeat {repeat}",))
        assert found.state.repeat == ""


def test_an_entry_on_a_bound_is_found_once(tmp_path: Path) -> None:
    sizes = (10**7, 10**7 + 1, 10**9, 10**10, 10**10 + 1)
    rows = [
        board_row(entry, {SOKOBAN: [first(5)]}, parameters=size)
        for entry, size in zip(ENTRIES, sizes, strict=False)
    ]
    board = board_of(tmp_path, board_content(rows, SOKOBAN))
    found = {
        name: [
            row.parameters
            for row in board.rows()
            if wanted(row, view_of(board, opened(board, f"panels=sokoban/builtin&size={name}")))
        ]
        for name in SIZES
    }
    assert found == {
        "any": list(sizes), "to-10m": [10**7], "to-1b": [10**7 + 1, 10**9], "to-10b": [10**10],
        "more": [10**10 + 1],
    }  # fmt: skip


def many_bases(folder: Path, count: int, base: str) -> Board:
    """A board on which every entry has its own base model."""
    rows = [
        board_row(f"20260101_e{number}", {SOKOBAN: [first(5)]}, base_model=f"{base}{number:03}")
        for number in range(count)
    ]
    return board_of(folder, board_content(rows, SOKOBAN))


def test_a_link_of_many_values_opens_as_it_was(tmp_path: Path) -> None:
    board = many_bases(tmp_path, 150, "base-")
    bases = [f"base-{number:03}" for number in range(150)]
    chosen = open_query(board, {"tab": "board", "bases": bases, "columns": ["date", "authors"]})
    assert chosen.ignored == Ignored()
    assert chosen.state.bases == tuple(bases)
    query = query_of(chosen.state)
    assert query.count("&") > 150
    assert opened(board, query) == chosen.state


def test_what_is_too_much_is_said(board: Board) -> None:
    entries = "&".join(f"entries={entry}" for entry in ENTRIES)
    found = open_query(board, parsed(f"tab=curves&{entries}"))
    assert found.state.entries == ENTRIES[:MOST_CURVES]
    assert found.ignored.text == (
        "This link asks for more than is shown: only the first 6 of 8 entries fit."
    )
    found = open_query(board, parsed(f"tab=x&search={'a' * (MAX_SEARCH + 1)}"))
    assert found.state.search == "a" * MAX_SEARCH
    assert found.ignored.text == (
        "This link asks for something that is not on the board: tab x. "
        "This link asks for more than is shown: a search has at most 200 characters."
    )


def test_a_query_beyond_all_bounds(board: Board) -> None:
    query = "tab=curves&search=" + "a" * (MAX_LINK - 19)
    assert len(parsed(query)) == 2
    found = open_query(board, parsed(f"{query}a&kinds=init"))
    assert (found.state.tab, found.state.kinds) == ("curves", ())
    assert "an address has at most 16,000 characters" in found.ignored.cut
    assert parsed("") == {}
