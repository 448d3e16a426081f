"""Two entries on the same episodes: the interval of their difference, and tests of none."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.paired import Side, difference, differences, no_difference
from benchmark.statistics import (
    Interval,
    clustered_wilson,
    mcnemar_exact,
    newcombe_paired,
    sign_flip,
)


def a_side(solved: Sequence[int], plays: int = 1) -> Side:
    """An entry that has solved so many plays of each episode."""
    return Side.of([[number < count for number in range(plays)] for count in solved])


def ends(found: Interval) -> tuple[float, float, float]:
    return found.value, found.low, found.high


def test_what_is_kept_of_plays() -> None:
    found = Side.of([[True, False], [True, True], [False, False]])
    assert found.shares.tolist() == [0.5, 1.0, 0.0]
    assert not found.single and Side.of([[True], [False]]).single
    assert found.success == clustered_wilson([1, 2, 0], [2, 2, 2])


def test_single_plays_have_the_interval_of_the_compare_command() -> None:
    one, other = a_side([1] * 60 + [0] * 40), a_side([0] * 10 + [1] * 40 + [0] * 50)
    # Both: 40 of the first 60; only the first one: 20; only the other: none; neither: 40.
    assert ends(difference(one, other)) == pytest.approx(ends(newcombe_paired(40, 20, 0, 40)))


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=40))
def test_any_single_plays_have_it(pairs: list[tuple[int, int]]) -> None:
    one, other = (a_side(each) for each in zip(*pairs, strict=True))
    table = (pairs.count(cell) for cell in ((1, 1), (1, 0), (0, 1), (0, 0)))
    assert ends(difference(one, other)) == pytest.approx(ends(newcombe_paired(*table)), abs=1e-12)


def test_many_entries_at_once() -> None:
    """Single plays among repeats: each two are as if they were alone."""
    sides = [a_side([2, 1, 0, 0], 2), a_side([1, 0, 1, 1]), a_side([0, 0, 1, 1])]
    found = differences(sides)
    for row, one in enumerate(sides):
        for column, other in enumerate(sides):
            alone = difference(one, other)
            each = (found.value[row, column], found.low[row, column], found.high[row, column])
            assert each == pytest.approx(ends(alone))


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


def test_single_plays_are_tested_by_mcnemar_and_others_by_signs() -> None:
    one, other = a_side([1, 1, 1, 0, 1]), a_side([0, 0, 1, 1, 0])
    assert no_difference(one, other) == ("McNemar exact", mcnemar_exact(3, 1))
    twice = a_side([2, 2, 1, 0, 2], 2)
    assert no_difference(twice, other) == ("sign-flip", sign_flip([1.0, 1.0, -0.5, -1.0, 1.0]))
