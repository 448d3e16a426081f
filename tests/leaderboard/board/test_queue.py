"""The queue of submissions: its file, and how the page shows it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leaderboard.board.board import Board
from leaderboard.board.protocols import Queue, Waiting
from leaderboard.board.queue import read_queue
from leaderboard.page.header import header
from leaderboard.page.state import State
from leaderboard.tabs.submit import FEW, submit_lead
from tasks.errors import UserError
from tests.leaderboard.conftest import Boards
from tests.leaderboard.pages import rows_of, text_of

ITEM = {"number": 7, "entry": "20270102_grpo", "opened": "2027-01-01", "state": "passed"}
REPOSITORY = "https://example.org/bench"
STATE = State(tab="submit")


def written(folder: Path, content: Any) -> Path:
    path = folder / "queue.json"
    path.write_text(json.dumps(content))
    return path


def test_the_queue_is_read(tmp_path: Path) -> None:
    found = read_queue(written(tmp_path, {"day": "2027-01-02", "waiting": [ITEM]}))
    assert found == Queue("2027-01-02", (Waiting(7, "20270102_grpo", "2027-01-01", "passed"),))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([], "day and waiting"),
        ({"day": "today", "waiting": []}, "must look like 2027-01-02"),
        ({"day": "2027-01-02", "waiting": [ITEM | {"number": True}]}, "number must be above 0"),
        ({"day": "2027-01-02", "waiting": [ITEM | {"number": 0}]}, "number must be above 0"),
        ({"day": "2027-01-02", "waiting": [ITEM | {"state": "merged"}]}, "one of waiting"),
        ({"day": "2027-01-02", "waiting": [ITEM | {"title": "x"}]}, "an item must hold"),
        ({"day": "2027-01-02", "waiting": 5}, "not iterable"),
    ],
)
def test_what_is_no_queue_is_said(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(UserError, match=said):
        read_queue(written(tmp_path, content))


def test_a_file_that_is_not_there_or_too_long(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_queue(tmp_path / "queue.json")
    (tmp_path / "long").write_bytes(b" " * (2**20 + 1))
    with pytest.raises(UserError, match="more than 1,048,576 bytes"):
        read_queue(tmp_path / "long")


def with_queue(boards: Boards, *waiting: Waiting, repository: str | None = REPOSITORY) -> Board:
    board = boards()
    queue = Queue("2027-01-02", waiting)
    return Board(replace(board.facts, repository=repository, queue=queue), board._table)


def test_the_page_lists_what_waits(boards: Boards) -> None:
    first = Waiting(7, "20270102_<b>", "2027-01-01", "failed")
    board = with_queue(boards, first, replace(first, number=9, entry="x", state="waiting"))
    page = submit_lead(board, STATE)
    assert rows_of(page) == [
        ["#7", "20270102_<b>", "2027-01-01", "check failed"],
        ["#9", "x", "2027-01-01", "not checked yet"],
    ]
    assert f'href="{REPOSITORY}/pull/7"' in page and f'href="{REPOSITORY}/compare"' in page
    assert "2 submissions waiting as of 2027-01-02" in text_of(page) and "<b>" not in page
    assert f"git clone {REPOSITORY} Copy" in text_of(page)
    assert "Queue of submissions (2)" in text_of(header(board))
    many = with_queue(boards, *[first] * (FEW + 1))
    assert "All of them" in submit_lead(many, STATE) and "All of them" not in page


def test_without_a_queue_the_page_links_to_the_pull_requests(boards: Boards) -> None:
    board = boards()
    named = Board(replace(board.facts, repository=REPOSITORY), board._table)
    page = submit_lead(named, STATE)
    assert f'href="{REPOSITORY}/pulls"' in page and "<table" not in page
    assert "does not name its repository" in submit_lead(board, STATE)
    assert "0 submissions waiting" in text_of(submit_lead(with_queue(boards), STATE))
