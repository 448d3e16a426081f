"""Two entries on the same episodes: the interval of their difference, and tests for none."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from benchmark.stats.intervals import (
    Interval,
    clustered_wilson,
    mcnemar_exact,
    sign_flip,
    wilson,
)
from benchmark.stats.paired import (
    NOT_PAIRED,
    OVER_EPISODES,
    OVER_SEEDS,
    OVER_SOME_SEEDS,
    PairedDifference,
    Side,
    difference,
    differences,
    method_of,
    no_difference,
    score_difference,
)
from tests.support.newcombe import newcombe_paired

Chances = npt.NDArray[np.float64]
"""Chances to solve each episode, by seed; or numbers from which they are computed."""


def a_side(solved: Sequence[int], plays: int = 1) -> Side:
    """An entry that has solved this number of plays of each episode."""
    return Side.of([[number < count for number in range(plays)] for count in solved])


def ends(found: Interval) -> tuple[float, float, float]:
    return found.value, found.low, found.high


def test_what_is_kept_of_plays() -> None:
    found = Side.of([[True, False], [True, True], [False, False]])
    assert found.shares is not None
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
    """With single plays among repeats, each pair gives the same result as on its own."""
    sides = [a_side([2, 1, 0, 0], 2), a_side([1, 0, 1, 1]), a_side([0, 0, 1, 1])]
    found = differences(sides)
    for row, one in enumerate(sides):
        for column, other in enumerate(sides):
            alone = difference(one, other)
            each = (found.value[row, column], found.low[row, column], found.high[row, column])
            assert each == pytest.approx(ends(alone))


def test_seeds_that_differ_widen_the_interval() -> None:
    """Means .5 and .4; variances .02 and .02 of two seeds, so s^2 = .02 and t(2) = 4.302653."""
    plays = [[True, False]] * 10 + [[True, True], [False, False]] * 5
    one = Side.of(plays, (0.4, 0.6))
    other = Side.of([[False, False]] * 4 + plays[4:], (0.2, 0.4))
    alone = difference(Side.of(plays), Side.of([[False, False]] * 4 + plays[4:]))
    found = difference(one, other)
    assert found.value == alone.value
    width = 4.302653 * math.sqrt(0.02)
    below, above = alone.value - alone.low, alone.high - alone.value
    assert found.low == pytest.approx(alone.value - math.hypot(below, width))
    assert found.high == pytest.approx(alone.value + math.hypot(above, width))


def test_a_single_checkpoint_stands_for_itself() -> None:
    """Its side adds nothing; three seeds on the other side have two degrees of freedom."""
    fixed = a_side([1] * 6 + [0] * 4)
    trained = Side.of([[True] * 3] * 5 + [[False] * 3] * 5, (0.5, 0.6, 0.4))
    alone = difference(Side.of([[True] * 3] * 5 + [[False] * 3] * 5), fixed)
    width = 4.302653 * math.sqrt(0.01 / 3)
    found = difference(trained, fixed)
    assert found.low == pytest.approx(
        alone.value - math.hypot(alone.value - alone.low, width), abs=1e-6
    )
    assert difference(Side.of([[True], [False]], (0.5,)), a_side([1, 1])) == difference(
        a_side([1, 0]), a_side([1, 1])
    )


@pytest.mark.slow
def test_two_recipes_that_are_one_are_seldom_called_different() -> None:
    """Seeds with a spread of 0.15 in log odds: three per side, 256 episodes."""
    rng = np.random.default_rng(0)
    different = [0, 0]
    for _ in range(400):
        ability = rng.normal(0, 1.5, 256)
        sides = []
        for _ in range(2):
            odds = ability + rng.normal(0, 0.15, (3, 1))
            solved = rng.random((3, 256)) < 1 / (1 + np.exp(-odds))
            sides.append((solved.T.tolist(), solved.mean(axis=1).tolist()))
        with_seeds = difference(*(Side.of(plays, seeds) for plays, seeds in sides))
        without = difference(*(Side.of(plays) for plays, _ in sides))
        for place, found in enumerate((with_seeds, without)):
            different[place] += not found.low <= 0 <= found.high
    assert different[0] <= 0.05 * 400 < different[1]


def test_trainings_vary_on_all_panels_together() -> None:
    """Two identical panels: half the squared width over episodes, all of that over seeds."""
    rng = np.random.default_rng(3)
    first, second = (
        Side.of(solved.T.tolist(), solved.mean(axis=1).tolist())
        for solved in (rng.random((3, 64)) < rate for rate in ([[0.3], [0.5], [0.6]], 0.35))
    )
    bare = [replace(side, seeds=()) for side in (first, second)]
    whole, episodes = difference(first, second), difference(*bare)
    score = score_difference([first, first], [second, second])
    assert score_difference([first], [second]) == whole
    assert score.value == whole.value
    seeds = (whole.high - whole.value) ** 2 - (episodes.high - episodes.value) ** 2
    expected = math.sqrt((episodes.high - episodes.value) ** 2 / 2 + seeds)
    assert score.high - score.value == pytest.approx(expected)
    assert score.value - score.low > (whole.value - whole.low) / math.sqrt(2)


def test_trainings_apart_have_variances_that_add_up() -> None:
    """Two panels with two and three separate seeds, by hand; the other side has none."""
    one, other = (0.3, 0.5), (0.2, 0.4, 0.9)
    plays = [[True, False], [False, False]]
    sides = [Side.of(plays, one, "here"), Side.of([[*p, True] for p in plays], other, "there")]
    nothing = [Side.of([[False]] * 2)] * 2
    found = score_difference(sides, nothing)
    bare = score_difference([replace(side, seeds=()) for side in sides], nothing)
    # Each panel is half of the mean: a quarter of its variance over its seeds.
    parts = [np.var(seeds, ddof=1) / len(seeds) / 4 for seeds in (one, other)]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 1 + parts[1] ** 2 / 2)
    width = special.stdtrit(freedom, 0.975) * math.sqrt(sum(parts))
    assert found.low > -1
    assert found.low == pytest.approx(found.value - math.hypot(found.value - bare.low, width))
    # The other side's variances add up as well: twice the same ones.
    both, alone = score_difference(sides, sides[::-1]), score_difference(sides, [sides[1]] * 2)
    wide = special.stdtrit(2 * freedom, 0.975) * math.sqrt(2 * sum(parts))
    episodes = score_difference(
        *([replace(e, seeds=()) for e in side] for side in (sides, sides[::-1]))
    )
    assert both.high == pytest.approx(both.value + math.hypot(episodes.high - episodes.value, wide))
    # For a training run that played both panels, there is one variance, of its seeds' means.
    assert alone.high - alone.value != pytest.approx(both.high - both.value)
    # The spread of a single seed is unknown, so the side adds no variance.
    single = [replace(sides[0], seeds=(0.3,)), sides[1]]
    assert score_difference(single, nothing) == bare


def test_repeats_by_hand() -> None:
    # Shares 1, .5, 0, 0 and 0, 0, .5, .5: means .375 and .25, deviations .625 .125 -.375 -.375 and
    # -.25 -.25 .25 .25; products sum to -.375, squares to .6875 and .25.
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


def logs_of(*solved: int) -> Side:
    """Several seeds with these numbers of 256 levels solved."""
    return Side.of_rates([count / 256 for count in solved], 256)


def test_logs_alone_give_an_interval_that_is_not_paired() -> None:
    """Rates .5 and .25 with the Wilson intervals of 256 levels; seeds are equal: no spread."""
    one, other = (logs_of(count, count) for count in (128, 64))
    assert (one.success, one.seeds) == (wilson(128, 256), (0.5, 0.5))
    found = difference(one, other)
    below = math.hypot(0.5 - wilson(128, 256).low, wilson(64, 256).high - 0.25)
    assert (found.value, found.low) == pytest.approx((0.25, 0.25 - below))
    assert method_of(one, other) == method_of(one, a_side([1, 0])) == NOT_PAIRED
    with pytest.raises(ValueError, match="played the same episodes"):
        PairedDifference.of(one, other)


def test_seeds_of_logs_widen_the_interval() -> None:
    """Rates 96/256 and 160/256: variance 1/32, so s^2 = 1/64 of one side, and t(1) = 12.7062."""
    varied = logs_of(96, 160)
    fixed = logs_of(64)
    found = difference(varied, fixed)
    assert found.value == pytest.approx(0.25)
    assert (found.low, found.high) == (-1.0, 1.0)  # 12.7062 / 8 is more than the whole range
    steady = difference(logs_of(128), fixed)
    assert -0.1 < steady.low < steady.high < 0.4


def test_a_difference_says_what_it_is() -> None:
    one, other = a_side([1, 1, 1, 0, 1]), a_side([0, 0, 1, 1, 0])
    found = PairedDifference.of(one, other)
    assert found.difference == difference(one, other)
    assert (found.method, found.test, found.episodes) == (OVER_EPISODES, "McNemar exact", 5)
    seeds = Side.of([[True, False], [True, True]], (1.0, 0.5))
    assert PairedDifference.of(seeds, a_side([1, 0])).method == OVER_SOME_SEEDS
    assert PairedDifference.of(seeds, seeds).method == OVER_SEEDS


def covered(
    spread: float, seeds: int, collapsing: float = 0.0, rounds: int = 300
) -> tuple[float, float]:
    """How often the interval of two methods covers the truth, and its width over 3.92 deviations.

    Args:
        spread: Spread of the methods' seeds, in logits; that of the 256 episodes is 2.
        seeds: Number of seeds of each method.
        collapsing: Share of the second method's seeds that solve nothing; others equal the first's.
        rounds: Number of simulations.
    """
    rng = np.random.default_rng(0)

    def chances(episodes: Chances, skill: Chances) -> Chances:
        return 1 / (1 + np.exp(-(episodes[:, None] + skill - 0.2)))

    def side(episodes: Chances, lost: float) -> Side:
        chance = chances(episodes, rng.normal(0.0, spread, seeds))
        chance[:, rng.random(seeds) < lost] = 0.0
        plays = rng.random(chance.shape) < chance
        return Side.of(plays.tolist(), plays.mean(axis=0).tolist(), "trained")

    many = chances(rng.normal(0.0, 2.0, 100_000), rng.normal(0.0, spread, 1))
    truth = collapsing * float(many.mean())
    found = []
    for _ in range(rounds):
        episodes = rng.normal(0.0, 2.0, 256)
        found.append(difference(side(episodes, 0.0), side(episodes, collapsing)))
    held = sum(each.low <= truth <= each.high for each in found) / rounds
    width = sum(each.high - each.low for each in found) / rounds
    return held, width / (3.92 * float(np.std([each.value for each in found])))


def test_intervals_over_seeds_hold_the_truth_as_often_as_the_claims_page_says() -> None:
    """99% of cases if seeds differ little, 96 to 98% if they differ much; 300 rounds."""
    for seeds in (3, 5):
        little, wide = covered(0.0, seeds)
        assert little >= 0.98 and 1.4 <= wide <= 2.1
        much, wide = covered(0.6, seeds)
        assert 0.95 <= much <= 0.99 and 1.0 <= wide <= 1.9


def test_intervals_miss_rare_collapses_as_often_as_the_claims_page_says() -> None:
    """58 to 91% of cases if 20 to 40% of one method's seeds collapse; 300 rounds."""
    cases = product((3, 5), (0.2, 0.4))
    held = [covered(0.0, seeds, collapsing)[0] for seeds, collapsing in cases]
    assert held == pytest.approx([0.58, 0.73, 0.67, 0.91], abs=0.07)
