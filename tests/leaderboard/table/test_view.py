"""Filters: the part of the board to show."""

from dataclasses import replace

import pytest

from leaderboard.board.board import Board
from leaderboard.board.rows import BoardBadges, Model
from leaderboard.table.view import BoardView, Options, default_view, options, panels_of, wanted
from tasks.errors import UserError
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, Boards, first
from tests.support.board_rows import PROTOCOL, board_content, board_of, board_row, panel_facts

SEEN = panel_facts("alfworld", "valid_seen", "ALFWorld", "points", 100)


SOLVED = {SOKOBAN: [first(50)]}
ROWS = (
    board_row(
        "20260101_expert",
        SOLVED,
        kind="policy",
        base_model=None,
        parameters=None,
        init=None,
        badges=BoardBadges(True, "none", None, False, None),
    ),
    board_row("20260102_small", SOLVED, name="Small GRPO", authors=("Émilie du Châtelet",)),
    board_row(
        "20260103_large",
        {ALFWORLD: [first(50)]},
        recipe="gspo",
        base_model="Qwen3-4B",
        parameters=4_000_000_000,
        init=Model("own", "folder", None, "0" * 64),
        badges=BoardBadges(True, "logs", "open", True, "2026-02-01, Ada: the same"),
    ),
)


@pytest.fixture
def board(boards: Boards) -> Board:
    return boards(*ROWS)


def seen(board: Board, **changes: object) -> list[str]:
    """Names of the entries in a view, by default with both panels."""
    view = replace(BoardView("v1", (SOKOBAN.key, ALFWORLD.key)), **changes)  # type: ignore[arg-type]
    return [row.id[9:] for row in board.rows() if wanted(row, view)]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, ["expert", "small", "large"]),
        ({"panels": (SOKOBAN.key,)}, ["expert", "small"]),
        ({"panels": ()}, []),
        ({"kinds": ("policy", "init")}, ["expert"]),
        ({"bases": ("Qwen3-4B",)}, ["large"]),
        ({"inits": ("tiny-sokoban",)}, ["small"]),
        ({"badges": ("replayed",)}, ["expert", "small", "large"]),
        ({"badges": ("init: fixed",)}, ["small"]),
        ({"badges": ("init: open", "re-run", "stability: logs")}, ["large"]),
        ({"badges": ("init: open", "init: fixed")}, []),
        ({"least_parameters": 407_904}, ["small", "large"]),
        ({"least_parameters": 407_905}, ["large"]),
        ({"most_parameters": 407_904}, ["small"]),
        ({"most_parameters": 0}, []),
        ({"search": "gSpO"}, ["large"]),
        ({"search": "grpo small"}, ["small"]),
        ({"search": "ÉMILIE"}, ["small"]),
        ({"search": "small gspo"}, []),
        ({"search": "  "}, ["expert", "small", "large"]),
        ({"search": ".*"}, []),
    ],
)
def test_filters(board: Board, changes: dict[str, object], names: list[str]) -> None:
    assert seen(board, **changes) == names


def test_what_can_be_chosen(board: Board) -> None:
    assert options(board) == Options(
        kinds=("policy", "trained"),
        bases=("Qwen3-4B", "tiny-sokoban"),
        inits=("own", "tiny-sokoban"),
        badges=("replayed", "stability: logs", "init: fixed", "init: open", "re-run"),
        tracks=("open",),
        parameters=(407_904, 4_000_000_000),
    )
    assert options(board, "v0") == Options((), (), (), (), (), None)


def test_an_init_counts_as_its_own(boards: Boards) -> None:
    row = board_row("20260101_init", {SOKOBAN: [first(5)]}, kind="init", init=None)
    point = replace(row.checkpoints[0], model=Model("tiny-sokoban", "init", None, "0" * 64))
    board = boards(replace(row, checkpoints=(point,)))
    assert seen(board, inits=("tiny-sokoban",)) == ["init"]


def test_the_first_view_has_something_to_sort_by(boards: Boards, board: Board) -> None:
    # No entry has played both panels; most have played Sokoban.
    assert default_view(board) == BoardView("v1", (SOKOBAN.key,))
    both = {SOKOBAN: [first(5)], ALFWORLD: [first(5)]}
    policy = boards(*ROWS, board_row("20260104_policy", both, kind="policy"))
    assert default_view(policy).panels == (SOKOBAN.key,)
    trained = boards(*ROWS, board_row("20260104_trained", both))
    assert default_view(trained).panels == (ALFWORLD.key, SOKOBAN.key)


def test_unknown_words(board: Board) -> None:
    with pytest.raises(UserError, match="there is no protocol 'v2'; did you mean v1"):
        default_view(board, "v2")
    with pytest.raises(UserError, match="there is no protocol 'v2'"):
        panels_of(board, BoardView("v2", ()))
    with pytest.raises(UserError, match="no entry has played sokoban/two under v1; did you mean"):
        panels_of(board, BoardView("v1", (("sokoban", "two"),)))


def test_a_task_counts_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    row = board_row("20260101_a", {ALFWORLD: [first(5)], SEEN: [first(5)]})
    board = board_of(tmp_path_factory.mktemp("two"), board_content([row], ALFWORLD, SEEN))
    with pytest.raises(UserError, match="alfworld/valid_seen: choose one panel of alfworld"):
        panels_of(board, BoardView("v1", (ALFWORLD.key, SEEN.key)))


def test_a_track_is_chosen_alone(boards: Boards) -> None:
    rows = [
        board_row(f"2026010{number}_{track}", {SOKOBAN: [first(50)]}, track=track)
        for number, track in enumerate(("one", "two", "open"), 1)
    ]
    board = boards(*rows)
    assert options(board).tracks == ("one", "open", "two")
    chosen = BoardView(PROTOCOL, (SOKOBAN.key,), track="two")
    assert [row.id for row in board.rows() if wanted(row, chosen)] == ["20260102_two"]
    every = BoardView(PROTOCOL, (SOKOBAN.key,))
    assert sum(wanted(row, every) for row in board.rows()) == 3
