"""Requests as the page sends them, for a board with one entry."""

from pathlib import Path
from typing import Any

from leaderboard.board.board import Board
from leaderboard.page.state import USUAL
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, first
from tests.support.board_rows import board_content, board_of, board_row

PREDICT = "/gradio_api/run/predict"
BOARD, LINK, SLOW, LOAD = 0, 20, 21, 22
"""Numbers of events: the board's controls, a link, slow contents, and opening the page."""
SHOWN: list[Any] = ["v1", "tab=board&protocol=v1&panels=built-in", *[""] * 9]
"""Data sent when the page loads: the protocol, and the state for which each tab was drawn."""
CHOSEN: list[Any] = [SHOWN[0], "built-in", "", *SHOWN[1:]]
"""Data sent by a link, including the selected task and track."""
CONTROLS: list[Any] = [
    "v1", "built-in", "good", "success", [], [], [], [], "any", list(USUAL), False, "",
]  # fmt: skip


def call(number: int, data: list[Any], **more: Any) -> dict[str, Any]:
    return {"fn_index": number, "data": data, "session_hash": "a", "trigger_id": 8, **more}


def one_entry(folder: Path) -> Board:
    rows = [board_row("20260101_good", {SOKOBAN: [first(60)], ALFWORLD: [first(50)]})]
    return board_of(folder, board_content(rows, ALFWORLD, SOKOBAN))
