"""A view as a query, and back."""

from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.columns import SUCCESS
from leaderboard.data import Board
from leaderboard.links import (
    MOST_CURVES,
    TABS,
    USUAL,
    State,
    ignored_text,
    open_query,
    panel_choices,
    panels_of_name,
    parsed,
    query_of,
    view_of,
)
from tests.board_rows import board_content, board_of, board_row, panel_facts
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, first

SEEN = panel_facts("alfworld", "valid_seen", "ALFWorld", "points", 100)
ENTRIES = tuple(f"2026010{day}_entry-{day}" for day in range(1, 9))


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    rows = [
        board_row(entry, {SOKOBAN: [first(50), first(40)], ALFWORLD: [first(9)] * 2}, kind=kind)
        for entry, kind in zip(ENTRIES, ["init", "trained"] * 4, strict=True)
    ]
    rows.append(board_row("20260201_seen", {SEEN: [first(3)]}))
    content = board_content(rows, ALFWORLD, SEEN, SOKOBAN)
    return board_of(tmp_path_factory.mktemp("board"), content)


def opened(board: Board, query: str) -> State:
    found = open_query(board, parsed(query))
    assert found.ignored == ()
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
    assert [name for _, name in panel_choices(board, "v1")] == [
        "built-in", "field", "alfworld/builtin", "alfworld/valid_seen", "sokoban/builtin",
    ]  # fmt: skip
    assert panels_of_name(board, "v1", "field") == (SEEN.key, SOKOBAN.key)
    assert panels_of_name(board, "v1", "nothing") == ()


STATES = st.builds(
    State,
    tab=st.sampled_from(TABS),
    protocol=st.just("v1"),
    panels=st.sampled_from(("built-in", "field", "alfworld/valid_seen")),
    search=st.text(max_size=30).map(str.strip),
    kinds=st.lists(st.sampled_from(("init", "trained")), unique=True).map(tuple),
    badges=st.lists(st.sampled_from(("replayed", "re-run")), unique=True).map(tuple),
    size=st.sampled_from(("any", "to-1b")),
    columns=st.lists(st.sampled_from((*USUAL, "authors")), unique=True).map(tuple),
    sort=st.sampled_from((SUCCESS, "name", "retention")),
    reverse=st.booleans(),
    all=st.booleans(),
    measure=st.sampled_from(("retention", "collapse_rate")),
    entries=st.lists(st.sampled_from(ENTRIES), max_size=MOST_CURVES, unique=True).map(tuple),
    entry=st.sampled_from(ENTRIES),
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
        assert again.columns == columns_as_set(state.columns)
        assert view_of(board, again) == view_of(board, state)
    if state.tab == "entry":
        named = ("entry", "panel", "show", "seed", "episode")
        assert [getattr(again, n) for n in named] == [getattr(state, n) for n in named]
    if state.tab == "curves":
        assert again.entries == state.entries
    if state.tab == "compare":
        assert (again.first, again.second) == (state.first, state.second)


def columns_as_set(columns: tuple[str, ...]) -> tuple[str, ...]:
    return USUAL if set(columns) == set(USUAL) else columns


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
    assert state.panels in {name for _, name in panel_choices(board, "v1")}
    assert opened(board, query_of(state)) is not None


@given(st.text(max_size=300))
def test_any_query_opens_something(board: Board, query: str) -> None:
    assert open_query(board, parsed(query)).state.tab in TABS


def test_what_is_not_there_is_said(board: Board) -> None:
    found = open_query(board, parsed("tab=x&protocol=v9&entry=%3Cb%3E&bases=no&kinds=policy"))
    assert found.state == State(protocol="v1", panels="built-in")
    said = ignored_text(found.ignored)
    assert said == (
        "This address asks for something that is not on this board: protocol v9, tab x, "
        "kinds policy and 2 more."
    )
    assert ignored_text(()) == ""


def test_a_seed_and_an_episode_belong_to_what_is_shown(board: Board) -> None:
    found = open_query(
        board, parsed(f"tab=entry&entry={ENTRIES[0]}&panel=sokoban/builtin&seed=2&episode=x")
    )
    assert found.ignored == ("seed 2", "episode x")
    assert open_query(board, parsed("tab=entry&episode=builtin-0001")).state.episode == ""


def test_a_panel_that_is_not_shown_sorts_nothing(board: Board) -> None:
    assert opened(board, "panels=sokoban/builtin&sort=alfworld/builtin").sort == SUCCESS
    assert opened(board, "panels=built-in&sort=alfworld/builtin").sort == "alfworld/builtin"


def test_a_query_beyond_all_bounds() -> None:
    assert parsed("&".join(f"kinds={number}" for number in range(1000))) == {}
