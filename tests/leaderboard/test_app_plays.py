"""Single episodes, read from a submission when somebody asks for them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from leaderboard.build import build
from leaderboard.data import Board
from leaderboard.links import State
from leaderboard.plays import Play, play_of
from leaderboard.tabs.episode import MAX_TEXT, board_of, drawn, shortened, turns
from leaderboard.tabs.episodes import episodes_page
from tasks.base import Tile
from tasks.errors import UserError
from tests.board_rows import board_of as written
from tests.submissions import INITS

KEY = ("sokoban", "builtin")


@pytest.fixture(scope="session")
def real(submissions: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Board, Path]:
    """A board of two real submissions, and their folder."""
    built = build(submissions, INITS)
    assert built.refused == ()
    return written(tmp_path_factory.mktemp("real"), built.content), submissions


def play(real: tuple[Board, Path], entry: str, seed: int, number: int) -> Play:
    board, submissions = real
    row = board.row(entry)
    assert row is not None
    known = board.panel(row, KEY)
    assert known is not None
    return play_of(submissions, row, seed, KEY, known.episodes[number])


def test_an_episode_is_what_the_board_counts(real: tuple[Board, Path]) -> None:
    board, _ = real
    row = board.row("20260102_trained")
    assert row is not None
    solved = board.solved(row, KEY)
    assert solved is not None
    for number in (0, 1, 2, 100):
        plays = [play(real, row.id, seed, number) for seed in (0, 1)]
        assert sum(each.record.success for each in plays) == solved[number]
        for each in plays:
            assert each.reason is None
            assert len(each.views) == len(each.record.turns) + 1


def test_boards_are_drawn_turn_by_turn(real: tuple[Board, Path]) -> None:
    found = play(real, "20260102_policy", 0, 0)
    page = str(turns(found))
    assert page.count('class="lb-tiles"') == len(found.record.turns) + 1
    assert page.count('class="lb-turn"') == len(found.record.turns)
    assert "solved after" in page
    assert "player at row" in page


def test_the_browser_lists_and_filters(real: tuple[Board, Path]) -> None:
    board, submissions = real
    row = board.row("20260102_trained")
    assert row is not None
    solved = board.solved(row, KEY)
    assert solved is not None
    state = State(tab="entry", protocol=row.protocol, entry=row.id)
    counts = {
        "all": len(solved),
        "solved": int((solved > 0).sum()),
        "failed": int((solved < 2).sum()),
    }
    for show, count in counts.items():
        shown = State(tab="entry", protocol=row.protocol, entry=row.id, show=show)
        page = episodes_page(board, submissions, shown)
        assert f"{count} of {len(solved)} episodes" in page
        assert page.count("<li>") == count
    known = board.panel(row, KEY)
    assert known is not None
    chosen = State(
        tab="entry", protocol=row.protocol, entry=row.id, seed="1", episode=known.episodes[3]
    )
    page = episodes_page(board, submissions, chosen)
    assert f"{known.episodes[3]}, seed 1" in page
    assert "Choose an episode" in episodes_page(board, submissions, state)


Change = Callable[[Path], None]


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
def test_changed_files_are_not_shown(
    real: tuple[Board, Path], tmp_path: Path, change: Change, said: str
) -> None:
    board, submissions = real
    row = board.row("20260102_policy")
    assert row is not None
    folder = tmp_path / row.id
    shutil.copytree(submissions / row.id, folder)
    change(folder)
    known = board.panel(row, KEY)
    assert known is not None
    with pytest.raises(UserError, match=said):
        play_of(tmp_path, row, 0, KEY, known.episodes[0])


def test_what_was_not_played_is_not_there(real: tuple[Board, Path]) -> None:
    board, submissions = real
    row = board.row("20260102_policy")
    assert row is not None
    with pytest.raises(UserError, match="no play 0 of episode nothing"):
        play_of(submissions, row, 0, KEY, "nothing")
    with pytest.raises(UserError, match="no play"):
        play_of(submissions, row, 7, KEY, "one-box-000")


def test_records_on_the_hub_are_not_fetched(real: tuple[Board, Path], tmp_path: Path) -> None:
    from dataclasses import replace

    from benchmark.submissions.archive import sha256_of

    board, submissions = real
    row = board.row("20260102_policy")
    assert row is not None
    folder = tmp_path / row.id
    shutil.copytree(submissions / row.id, folder)
    path = folder / "submission.json"
    content = json.loads(path.read_text("utf-8"))
    for file in content["files"]:
        if file["path"].endswith("episodes.jsonl.zst"):
            base = "https://huggingface.co/datasets/a/b/resolve/"
            file["url"] = f"{base}{'0' * 40}/{file['path']}"
    path.write_text(json.dumps(content), "utf-8")
    moved = replace(row, submission_sha256=sha256_of(path)[0])
    with pytest.raises(UserError, match="lie on the hub"):
        play_of(tmp_path, moved, 0, KEY, "one-box-000")


TILES = {
    "#": Tile("wall", "#555"),
    "@": Tile("player", "#fff", "player"),
    ".": Tile("floor", "#fff"),
}


def test_a_drawing_by_hand() -> None:
    assert board_of("a text\n##\n@.\n", TILES) == ["##", "@."]
    assert board_of("a text", TILES) is None
    page = str(drawn(["##", "@."], TILES, "after turn 1"))
    assert 'viewBox="0 0 2 2"' in page
    assert page.count("<rect") == 4
    assert (
        "Board after turn 1, 2 rows and 2 columns, counted from 0: player at row 1 column 0" in page
    )


def test_long_texts_keep_both_ends() -> None:
    text = "a" * MAX_TEXT + "b" * 10
    assert shortened("c" * MAX_TEXT) == "c" * MAX_TEXT
    found = shortened(text)
    assert found.startswith("a" * 6_000 + "\n[... 10 characters left out ...]\n")
    assert found.endswith("a" * 1_990 + "b" * 10)
