"""Single episodes, read from a submission on demand."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.evaluation.records import SequenceRecord
from leaderboard.board.board import Board
from leaderboard.episodes.plays import (
    MAX_KEPT,
    MAX_KEPT_OF_ONE,
    Asked,
    Play,
    PlayCache,
    play_of,
    size_of,
    without_prompts,
)
from leaderboard.page.state import State
from leaderboard.tabs.episode import MAX_TEXT, board_of, drawn, shortened, turns
from leaderboard.tabs.episodes import episodes_page
from tasks.episode import View
from tasks.errors import UserError
from tasks.presentation import Tile
from tasks.sokoban.pixels import draw_board

KEY = ("sokoban", "builtin")


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


def test_what_an_episode_asks_for_stands_first(real: tuple[Board, Path]) -> None:
    found = play(real, "20260102_policy", 0, 0)
    turn = found.record.turns[0].model_copy(update={"action": "x = 1\nprint(x)"})
    record = found.record.model_copy(update={"turns": (turn,)})
    page = str(turns(replace(found, record=record, asked="a red <shoe>")))
    assert page.index("a red &lt;shoe&gt;") < page.index("x = 1 \u2026")
    assert "print(x)" not in page and "U+000A" not in page


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
    assert "Select an episode" in episodes_page(board, submissions, state)


def test_what_was_not_played_is_not_there(real: tuple[Board, Path]) -> None:
    board, submissions = real
    row = board.row("20260102_policy")
    assert row is not None
    with pytest.raises(UserError, match="no repeat 0 of episode nothing"):
        play_of(submissions, row, 0, KEY, "nothing")
    with pytest.raises(UserError, match="no repeat"):
        play_of(submissions, row, 7, KEY, "one-box-000")


def asked(number: int) -> Asked:
    return Path("submissions"), "entry", "0" * 64, 0, KEY, f"episode-{number}", 0


def test_images_are_shown_as_the_model_saw_them(real: tuple[Board, Path]) -> None:
    drawn_play = play(real, "20260102_policy", 0, 0)
    views = [
        replace(view, images=(draw_board(tuple(view.observation.split("\n"))),))
        for view in drawn_play.views
    ]
    seen = without_prompts(replace(drawn_play, views=tuple(views)))
    assert [view.images for view in seen.views] == [view.images for view in views]
    page = str(turns(seen))
    assert "<svg" not in page
    for view in views:
        assert page.count(f'src="{view.images[0].data_url}"') >= 1
    # The description for screen readers is the same.
    (told,) = re.findall(r'alt="(Board before the first turn[^"]*)"', page)
    assert f'aria-label="{told}"' in str(turns(drawn_play))
    assert size_of(seen) > size_of(drawn_play) + sum(len(v.images[0].data) for v in views)


def longer(found: Play, characters: int) -> Play:
    """The same episode with this many more characters."""
    first, *others = found.record.turns
    first = first.model_copy(update={"response": first.response + "a" * characters})
    return replace(found, record=found.record.model_copy(update={"turns": (first, *others)}))


def test_the_size_of_an_episode(real: tuple[Board, Path]) -> None:
    found = play(real, "20260102_policy", 0, 0)
    seen = sum(len(view.observation) for view in found.views)
    assert seen > 0
    assert size_of(found) == seen + len(found.record.model_dump_json())
    assert size_of(longer(found, 1_000)) == size_of(found) + 1_000


def test_few_episodes_are_kept_and_none_that_is_long(real: tuple[Board, Path]) -> None:
    small = play(real, "20260102_policy", 0, 0)
    large = longer(small, MAX_KEPT_OF_ONE - size_of(small))
    assert size_of(large) == MAX_KEPT_OF_ONE
    kept = PlayCache()
    kept.add(asked(0), longer(large, 1))
    assert kept.find(asked(0)) is None and kept.size == 0
    for number in range(8):
        kept.add(asked(number), large)
        kept.add(asked(number), large)
    assert kept.size == MAX_KEPT
    assert kept.find(asked(0)) is large
    kept.add(asked(8), small)
    # The viewed one stays, the next one is evicted.
    assert [kept.find(asked(number)) is None for number in (0, 1, 2, 8)] == [
        False, True, False, False,
    ]  # fmt: skip
    assert kept.size == 7 * MAX_KEPT_OF_ONE + size_of(small)


def test_prompts_and_tokens_are_not_kept(real: tuple[Board, Path]) -> None:
    found = play(real, "20260102_policy", 0, 0)
    assert all(view.messages == () and view.observation for view in found.views)
    sequence = SequenceRecord(token_ids=(1, 2), written=((1, 2),))
    prompted = View(({"role": "user", "content": "all of it"},), "seen")
    record = found.record.model_copy(update={"sequence": sequence})
    plain = without_prompts(replace(found, record=record, views=(prompted,)))
    assert plain == replace(found, views=(View((), "seen"),))


def test_an_episode_is_read_once(real: tuple[Board, Path], tmp_path: Path) -> None:
    board, submissions = real
    row = board.row("20260102_policy")
    assert row is not None
    shutil.copytree(submissions / row.id, tmp_path / row.id)
    found = play_of(tmp_path, row, 0, KEY, "one-box-001")
    shutil.rmtree(tmp_path / row.id)
    assert play_of(tmp_path, row, 0, KEY, "one-box-001") is found
    with pytest.raises(UserError, match="folder is not here"):
        play_of(tmp_path, row, 0, KEY, "one-box-002")


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
    assert found.startswith("a" * 6_000 + "\n[... 10 characters omitted ...]\n")
    assert found.endswith("a" * 1_990 + "b" * 10)
