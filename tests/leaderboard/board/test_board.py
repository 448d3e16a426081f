"""The board as the app reads it."""

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from leaderboard.board.board import BUILT_IN, FIELD, Board, panel_sets
from leaderboard.board.file import VERSION, BoardContent
from leaderboard.board.protocols import BoardFacts, Protocol, Refused
from leaderboard.board.rows import BoardRow
from leaderboard.table.ranks import ranks
from leaderboard.table.table import table
from leaderboard.table.view import default_view
from tests.leaderboard.conftest import SOKOBAN, Boards, first
from tests.support.board_rows import (
    PANELS,
    board_content,
    board_of,
    board_row,
    panel_facts,
    synthetic_content,
)

SMALL = synthetic_content(entries=12, curves=20)


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Board:
    return board_of(tmp_path_factory.mktemp("board"), SMALL)


def test_rows_are_what_was_written_without_the_long_parts(board: Board) -> None:
    names = [field.name for field in fields(BoardRow)]
    assert len(board.rows()) == 12
    for row, full in zip(board.rows(), SMALL.rows, strict=True):
        assert type(row) is BoardRow
        assert {name: getattr(row, name) for name in names} == {
            name: getattr(full, name) for name in names
        }


def test_the_long_parts_of_every_row(board: Board) -> None:
    for row, full in zip(board.rows(), SMALL.rows, strict=True):
        assert board.curves(row) == full.curves
        for outcome in full.outcomes:
            found = board.solved(row, (outcome.task, outcome.panel))
            assert found is not None
            assert found.tolist() == list(outcome.solved)
    assert board.solved(board.rows()[0], ("sokoban", "none")) is None


def test_nobody_can_change_what_was_read(board: Board) -> None:
    solved = board.solved(board.rows()[0], board.rows()[0].panels[0].key)
    assert solved is not None
    with pytest.raises(ValueError, match="read-only"):
        solved[0] = 1


def test_lookups(board: Board) -> None:
    row = board.rows()[3]
    assert board.row(row.id) is row
    assert board.row(row.id, "v1") is row
    assert board.row("20260101_nobody") is None
    assert board.row(row.id, "v0") is None
    assert board.rows("v0") == ()
    assert board.protocol("v0") is None
    assert board.protocol() is board.protocols[0]
    facts = board.panel(row, row.panels[0].key)
    assert facts is not None
    assert len(facts.episodes) == row.panels[0].episodes


def test_a_board_without_entries(boards: Boards) -> None:
    empty = boards()
    assert empty.rows() == ()
    assert empty.row("20260101_nobody") is None
    assert table(empty, default_view(empty)).empty


def test_sets_of_panels() -> None:
    panels = tuple(panel_facts(*facts) for facts in PANELS)
    assert panel_sets(Protocol("v1", panels)) == {
        BUILT_IN: (
            ("alfworld", "builtin"),
            ("sokoban", "builtin"),
            ("tir_math", "builtin"),
            ("webshop", "builtin"),
        ),
        FIELD: (
            ("alfworld", "valid_seen"),
            ("sokoban", "builtin"),
            ("tir_math", "aime24"),
            ("webshop", "small_1000"),
        ),
    }
    assert panel_sets(Protocol("v1", ())) == {}


def test_two_protocols_are_two_tables(tmp_path: Path) -> None:
    older = panel_facts(*PANELS[2][:4], 100, protocol="v0")
    new = board_row("20260102_new", {SOKOBAN: [first(40)]})
    # One of the entries is also replayed under the new protocol.
    old = [
        board_row(entry, {older: [first(count)]}, protocol="v0")
        for entry, count in (("20260101_old", 90), ("20260102_new", 80))
    ]
    protocols = (Protocol("v1", (SOKOBAN,)), Protocol("v0", (older,)))
    refused = (Refused("20260103_other", ("it is not",)),)
    content = BoardContent(BoardFacts(VERSION, protocols, refused), (new, *old))
    board = board_of(tmp_path, content)
    assert board.refused == refused
    assert [row.id for row in board.rows()] == ["20260102_new"]
    assert [row.id for row in board.rows("v0")] == ["20260101_old", "20260102_new"]
    assert table(board, default_view(board))["success"].to_dict() == {"20260102_new": 0.4}
    assert table(board, default_view(board, "v0"))["success"].to_dict() == {
        "20260101_old": 0.9,
        "20260102_new": 0.8,
    }
    (key,) = ranks(board, "v1", (SOKOBAN.key,))
    assert key == "20260102_new"
    now, then = board.row(key), board.row(key, "v0")
    assert now is not None
    assert then is not None
    solved = board.solved(now, SOKOBAN.key), board.solved(then, SOKOBAN.key)
    assert [int(np.sum(each)) for each in solved if each is not None] == [40, 80]
    assert board.panel(then, SOKOBAN.key) == older


@pytest.mark.slow
def test_reading_imports_nothing_heavy(tmp_path: Path) -> None:
    board_of(tmp_path, board_content([replace(SMALL.rows[0])], *SMALL.facts.protocols[0].panels))
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from leaderboard.board import board as reading, published\n"
        "from leaderboard.table import cells, paired, ranks, table, view\n"
        f"board = reading.load(Path({str(tmp_path / 'leaderboard.parquet')!r}))\n"
        "assert len(table.table(board, view.default_view(board))) == 1\n"
        "heavy = ('torch', 'transformers', 'gradio', 'vllm', 'tasks.registry', 'datasets')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=True,
        text=True,
    )
    assert done.stdout == "[]\n"
