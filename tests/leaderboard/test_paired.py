"""Two entries on the same episodes."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.statistics import Interval, clustered_wilson, mcnemar_exact, newcombe_paired
from leaderboard.paired import Side, compare, difference, mean_of, side
from leaderboard.rows import FullRow
from tests.board_rows import board_row
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, Boards, first

KEY = SOKOBAN.key


def a_side(solved: Sequence[int], plays: int = 1) -> Side:
    """An entry that has solved so many plays of each episode."""
    success = clustered_wilson(solved, [plays] * len(solved))
    return Side(np.array(solved) / plays, plays == 1, success)


def test_single_plays_have_the_interval_of_the_compare_command() -> None:
    one, other = a_side([1] * 60 + [0] * 40), a_side([0] * 10 + [1] * 40 + [0] * 50)
    # Both: 40 of the first 60; only the first one: 20; only the other: none; neither: 40.
    assert difference(one, other) == newcombe_paired(40, 20, 0, 40)


def test_repeats_by_hand() -> None:
    # Shares 1, .5, 0, 0 and 0, 0, .5, .5: means .375 and .25, about them .625 .125 -.375 -.375
    # and -.25 -.25 .25 .25; products sum to -.375, squares to .6875 and .25.
    one, other = a_side([2, 1, 0, 0], 2), a_side([0, 0, 1, 1], 2)
    related = -0.375 / math.sqrt(0.6875 * 0.25)
    below, above = 0.375 - one.success.low, other.success.high - 0.25
    width = math.sqrt(below**2 - 2 * related * below * above + above**2)
    found = difference(one, other)
    assert found.value == pytest.approx(0.125)
    assert found.low == pytest.approx(max(-1, 0.125 - width))


def test_constant_shares_are_not_related() -> None:
    one, other = a_side([2, 2, 2], 2), a_side([1, 1, 1], 2)
    found = difference(one, other)
    below, above = 1 - one.success.low, other.success.high - 0.5
    assert found.value == pytest.approx(0.5)
    assert found.low == pytest.approx(0.5 - math.hypot(below, above))


SOLVED = st.integers(1, 30).flatmap(
    lambda k: st.tuples(*(st.lists(st.integers(0, 3), min_size=k, max_size=k) for _ in range(2)))
)


@given(SOLVED)
def test_the_other_way_round_it_is_the_negative(solved: tuple[list[int], list[int]]) -> None:
    one, other = (a_side(each, 3) for each in solved)
    found, turned = difference(one, other), difference(other, one)
    assert found.value == pytest.approx(-turned.value)
    assert (found.low, found.high) == pytest.approx((-turned.high, -turned.low))
    assert -1 <= found.low <= found.value <= found.high <= 1


@given(SOLVED)
def test_an_entry_ties_with_itself(solved: tuple[list[int], list[int]]) -> None:
    one = a_side(solved[0], 3)
    found = difference(one, one)
    assert found.value == 0
    assert found.low <= 0 <= found.high


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
    assert found.difference == newcombe_paired(57, 3, 0, 40)
    assert (found.test, found.p_value) == ("McNemar exact", mcnemar_exact(3, 0))
    assert found.episodes == 100
    names = [(each.episode, each.first, each.second) for each in found.differing]
    assert names == [(f"builtin-00{number}", 1.0, 0.0) for number in (57, 58, 59)]
    assert [each.category for each in found.differing] == ["kind 2", "kind 3", "kind 4"]


def test_the_largest_differences_come_first(boards: Boards) -> None:
    board = boards(row("20260101_a", 60, 58), row("20260102_b", 57, 57))
    one, other = board.rows()
    found = compare(board, one, other, KEY)
    assert found is not None
    assert found.test == "sign-flip"
    # Of the three differences .5 .5 1 two of eight sign patterns have a sum as large.
    assert found.p_value == 0.25
    shares = [(each.episode[-2:], each.first) for each in found.differing]
    assert shares == [("57", 1.0), ("58", 0.5), ("59", 0.5)]


def test_what_cannot_be_compared(boards: Boards) -> None:
    elsewhere = board_row("20260103_c", {ALFWORLD: [first(50)]})
    board = boards(row("20260101_a", 60), elsewhere)
    one, other = board.rows()
    assert compare(board, one, other, KEY) is None
    assert compare(board, one, other, ALFWORLD.key) is None
    assert side(board, one, ALFWORLD.key) is None
