"""Small boards with two panels, and submissions played once for all tests of this folder."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from leaderboard.board.board import Board
from leaderboard.board.build import build
from leaderboard.board.file import BoardContent
from leaderboard.board.rows import FullRow
from tests.support.board_rows import Counts, board_content, board_of, panel_facts
from tests.support.submissions.small import INITS

SOKOBAN = panel_facts("sokoban", "builtin", "Sokoban", "points", 100)
ALFWORLD = panel_facts("alfworld", "builtin", "ALFWorld", "points", 100)

Boards = Callable[..., Board]
"""Makes a board of rows on the panels `SOKOBAN` and `ALFWORLD`."""


def first(count: int) -> Counts:
    """Solve only the first episodes of 100."""
    return (np.arange(100) < count).astype(np.int64)


@pytest.fixture
def boards(tmp_path: Path) -> Boards:
    def make(*rows: FullRow) -> Board:
        return board_of(tmp_path, board_content(rows, ALFWORLD, SOKOBAN))

    return make


@pytest.fixture(scope="session")
def content(submissions: Path) -> BoardContent:
    """The content computed from the submissions."""
    built = build(submissions, INITS)
    assert built.refused == ()
    return built.content


@pytest.fixture(scope="session")
def real(
    content: BoardContent, submissions: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Board, Path]:
    """The board of the submissions, and their folder."""
    return board_of(tmp_path_factory.mktemp("real"), content), submissions
