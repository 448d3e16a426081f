"""Two entries on the same episodes."""

import pytest

from benchmark.stats.intervals import Interval, mcnemar_exact, mean_of
from leaderboard.board.rows import FullRow
from leaderboard.table.paired import compare, side
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, Boards, first
from tests.support.board_rows import board_row
from tests.support.newcombe import newcombe_paired

KEY = SOKOBAN.key


def test_the_mean_of_independent_numbers() -> None:
    # Half-widths .3 and .4 below, .06 and .08 above: their means are .5/2 and .1/2.
    found = mean_of([Interval(0.5, 0.2, 0.56), Interval(0.7, 0.3, 0.78)])
    assert (found.value, found.low, found.high) == pytest.approx((0.6, 0.35, 0.65))
    assert mean_of([Interval(0.1, 0.0, 0.3)]) == Interval(0.1, 0.0, 0.3)


def row(entry: str, *solved: int) -> FullRow:
    return board_row(entry, {SOKOBAN: [first(count) for count in solved]})


def test_a_comparison_names_the_episodes_that_differ(boards: Boards) -> None:
    board = boards(row("20260101_a", 60), row("20260102_b", 57))
    one, other = board.rows()
    found = compare(board, one, other, KEY)
    assert found is not None
    wanted = newcombe_paired(57, 3, 0, 40)
    assert found.difference.value == pytest.approx(0.03)
    assert found.difference.low == pytest.approx(wanted.low)
    assert found.difference.high == pytest.approx(wanted.high)
    assert (found.found.test, found.found.p_value) == ("McNemar exact", mcnemar_exact(3, 0))
    assert found.found.episodes == 100
    assert found.found.method == "paired over episodes (Newcombe)"
    names = [(each.episode, each.first, each.second) for each in found.differing]
    assert names == [(f"builtin-00{number}", 1.0, 0.0) for number in (57, 58, 59)]
    assert [each.category for each in found.differing] == ["kind 2", "kind 3", "kind 4"]


def test_the_largest_differences_come_first(boards: Boards) -> None:
    board = boards(row("20260101_a", 60, 58), row("20260102_b", 57, 57))
    one, other = board.rows()
    found = compare(board, one, other, KEY)
    assert found is not None
    assert found.found.test == "sign-flip"
    assert found.found.method == "paired over episodes and seeds (Newcombe, Welch)"
    # Of the three differences .5 .5 1, two of eight sign patterns have a sum as large.
    assert found.found.p_value == 0.25
    shares = [(each.episode[-2:], each.first) for each in found.differing]
    assert shares == [("57", 1.0), ("58", 0.5), ("59", 0.5)]


def test_what_cannot_be_compared(boards: Boards) -> None:
    elsewhere = board_row("20260103_c", {ALFWORLD: [first(50)]})
    board = boards(row("20260101_a", 60), elsewhere)
    one, other = board.rows()
    assert compare(board, one, other, KEY) is None
    assert compare(board, one, other, ALFWORLD.key) is None
    assert side(board, one, ALFWORLD.key) is None
