"""An entry's own files: everything read from them must match the source of the board."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leaderboard.board.board import Board
from leaderboard.board.rows import BoardRow
from leaderboard.episodes.outcomes import read_endings
from leaderboard.episodes.plays import play_of
from tasks.errors import UserError

KEY = ("sokoban", "builtin")


def read_play(submissions: Path, row: BoardRow, episode: str) -> Any:
    return play_of(submissions, row, 0, KEY, episode)


def read_all_endings(submissions: Path, row: BoardRow, episode: str) -> Any:
    return read_endings(submissions, row, KEY, episode)


READERS = {"play": read_play, "endings": read_all_endings}


@pytest.fixture
def entry(real: tuple[Board, Path], tmp_path: Path) -> tuple[BoardRow, Path, str]:
    """A separate entry, its folder, and one of its episodes."""
    board, submissions = real
    row = board.row("20260102_policy")
    assert row is not None
    known = board.panel(row, KEY)
    assert known is not None
    # Outcomes are cached by the folder of submissions, which differs in each test.
    shutil.copytree(submissions / row.id, tmp_path / row.id)
    return row, tmp_path / row.id, known.episodes[0]


def edit_submission(folder: Path) -> None:
    path = folder / "submission.json"
    path.write_text(path.read_text("utf-8").replace("As the name says", "As it says"), "utf-8")


def edit_records(folder: Path) -> None:
    path = next(folder.glob("runs/*/episodes.jsonl.zst"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def link_records(folder: Path) -> None:
    path = next(folder.glob("runs/*/episodes.jsonl.zst"))
    moved = folder.parent / "records"
    shutil.move(path, moved)
    path.symlink_to(moved)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (edit_submission, "not the one that the board was computed from"),
        (edit_records, "is not the file that the submission lists"),
        (link_records, "cannot be read"),
        (shutil.rmtree, "folder is not here"),
    ],
)
@pytest.mark.parametrize("reader", READERS)
def test_changed_files_are_not_shown(
    entry: tuple[BoardRow, Path, str], reader: str, change: Callable[[Path], None], said: str
) -> None:
    row, folder, episode = entry
    change(folder)
    with pytest.raises(UserError, match=said):
        READERS[reader](folder.parent, row, episode)


@pytest.mark.parametrize("reader", READERS)
def test_records_on_the_hub_are_not_fetched(entry: tuple[BoardRow, Path, str], reader: str) -> None:
    from benchmark.archive import sha256_of

    row, folder, episode = entry
    path = folder / "submission.json"
    content = json.loads(path.read_text("utf-8"))
    for file in content["files"]:
        if file["path"].endswith("episodes.jsonl.zst"):
            base = "https://huggingface.co/datasets/a/b/resolve/"
            file["url"] = f"{base}{'0' * 40}/{file['path']}"
    path.write_text(json.dumps(content), "utf-8")
    moved = replace(row, submission_sha256=sha256_of(path)[0])
    with pytest.raises(UserError, match="are on the hub"):
        READERS[reader](folder.parent, moved, episode)


@pytest.mark.parametrize("reader", READERS)
def test_without_a_change_they_are_read(entry: tuple[BoardRow, Path, str], reader: str) -> None:
    row, folder, episode = entry
    assert READERS[reader](folder.parent, row, episode)
