"""Ranks are ranges."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.board.board import Board
from leaderboard.table.paired import compare
from leaderboard.table.ranks import Rank, ranks, ranks_of
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, Boards, first
from tests.support.board_rows import PROTOCOL, board_row


def board_with(boards: Boards, **solved: int) -> Board:
    """Entries by name that have solved these numbers of Sokoban's 100 episodes."""
    rows = [
        board_row(f"2026010{number}_{name}", {SOKOBAN: [first(count)]})
        for number, (name, count) in enumerate(solved.items(), 1)
    ]
    return boards(*rows)


def by_name(found: dict[str, Rank]) -> dict[str, tuple[int, int]]:
    return {entry.partition("_")[2] or entry: (r.first, r.last) for entry, r in found.items()}


def better(scores: Sequence[float], apart: float) -> npt.NDArray[np.bool_]:
    """One entry is certainly better than another from this difference on."""
    found = np.array(scores)
    surely: npt.NDArray[np.bool_] = found[:, None] - found[None, :] > apart
    return surely


def test_ranges_by_hand() -> None:
    # Entries less than .1 apart are ties, which are not transitive: .90 and .74 are no tie.
    found = ranks_of(better([0.90, 0.82, 0.74, 0.50], 0.1))
    assert found == [Rank(1, 2), Rank(1, 3), Rank(2, 3), Rank(4, 4)]
    assert [rank.tied for rank in found] == [True, True, True, False]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0, 0.5))
def test_a_range_holds_the_place_by_score(scores: list[float], apart: float) -> None:
    found = ranks_of(better(scores, apart))
    order = sorted(range(len(scores)), key=lambda place: -scores[place])
    for place, entry in enumerate(order, 1):
        assert 1 <= found[entry].first <= place <= found[entry].last <= len(scores)


@pytest.mark.slow
def test_ranks_say_what_comparisons_say(boards: Boards) -> None:
    rng = np.random.default_rng(0)
    rows = [
        board_row(
            f"20260101_e{n:02}", {SOKOBAN: [(rng.random(100) < rate).astype(int) for _ in range(2)]}
        )
        for n, rate in enumerate(rng.uniform(0.3, 0.7, 12))
    ]
    board = boards(*rows)
    found = ranks(board, PROTOCOL, (SOKOBAN.key,))
    for row in board.rows():
        others = [other for other in board.rows() if other.id != row.id]
        gaps = [compare(board, row, other, SOKOBAN.key) for other in others]
        worse = sum(gap.difference.low > 0 for gap in gaps if gap)
        better = sum(gap.difference.high < 0 for gap in gaps if gap)
        assert found[row.id] == Rank(1 + better, len(rows) - worse)
    assert len(set(found.values())) > 3


def test_ranks_of_a_board(boards: Boards) -> None:
    # 100 versus 98 of 100: two episodes. Newcombe's interval of the difference contains 0.
    board = board_with(boards, best=100, near=98, far=70, last=0)
    found = ranks(board, PROTOCOL, (SOKOBAN.key,))
    assert by_name(dict(found)) == {"best": (1, 2), "near": (1, 2), "far": (3, 3), "last": (4, 4)}


def test_references_have_no_rank(boards: Boards) -> None:
    expert = board_row("20260101_expert", {SOKOBAN: [first(100)]}, kind="policy")
    init = board_row("20260102_init", {SOKOBAN: [first(50)]}, kind="init")
    found = ranks(boards(expert, init), PROTOCOL, (SOKOBAN.key,))
    assert dict(found) == {}


def test_a_mean_needs_all_panels(boards: Boards) -> None:
    both = board_row("20260101_both", {SOKOBAN: [first(50)], ALFWORLD: [first(30)]})
    one = board_row("20260102_one", {SOKOBAN: [first(90)]})
    board = boards(both, one)
    assert by_name(dict(ranks(board, PROTOCOL, (SOKOBAN.key, ALFWORLD.key)))) == {"both": (1, 1)}
    assert by_name(dict(ranks(board, PROTOCOL, (SOKOBAN.key,)))) == {"one": (1, 1), "both": (2, 2)}


def test_panels_that_cancel_are_a_tie(boards: Boards) -> None:
    left = board_row("20260101_left", {SOKOBAN: [first(90)], ALFWORLD: [first(10)]})
    right = board_row("20260102_right", {SOKOBAN: [first(11)], ALFWORLD: [first(90)]})
    board = boards(left, right)
    assert by_name(dict(ranks(board, PROTOCOL, (SOKOBAN.key, ALFWORLD.key)))) == {
        "left": (1, 2),
        "right": (1, 2),
    }
    assert by_name(dict(ranks(board, PROTOCOL, (ALFWORLD.key,))))["right"] == (1, 1)


def test_ranks_are_made_within_a_track(boards: Boards) -> None:
    solved = {"a": ("one", 100), "b": ("one", 50), "c": ("two", 70), "d": ("open", 20)}
    rows = [
        board_row(f"2026010{number}_{name}", {SOKOBAN: [first(count)]}, track=track)
        for number, (name, (track, count)) in enumerate(solved.items(), 1)
    ]
    # An init has no track.
    init = board_row("20260105_e", {SOKOBAN: [first(90)]}, kind="init", init=None)
    found = ranks(boards(*rows, init), PROTOCOL, (SOKOBAN.key,))
    assert by_name(dict(found)) == {
        "a": (1, 1),
        "b": (2, 2),
        "c": (1, 1),
        "d": (1, 1),
    }
