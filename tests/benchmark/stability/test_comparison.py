"""Comparison of recipes: by hand, and against scipy."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmark.stability.comparison import (
    Scores,
    comparison_of,
    iqm_over_tasks,
    performance_profile,
    probability_of_improvement,
)
from benchmark.stats.bootstrap import BootstrapInterval

few = settings(max_examples=40)
rates = st.integers(0, 16).map(lambda n: n / 16)
seeds = st.lists(rates, min_size=1, max_size=6)
scores = st.dictionaries(st.sampled_from(["alfworld", "sokoban", "webshop"]), seeds, min_size=1)
pairs = st.dictionaries(
    st.sampled_from(["alfworld", "sokoban", "webshop"]), st.tuples(seeds, seeds), min_size=1
)


def apart(both: dict[str, tuple[list[float], list[float]]]) -> tuple[Scores, Scores]:
    return {m: x for m, (x, _) in both.items()}, {m: y for m, (_, y) in both.items()}


def test_iqm_pools_all_runs_of_all_tasks() -> None:
    # The middle four of 0 .1 .2 .3 .5 .6 .7 1.
    found = iqm_over_tasks({"sokoban": [0.1, 0.2, 0.3, 1.0], "webshop": [0.0, 0.5, 0.6, 0.7]})
    assert found.value == pytest.approx(1.6 / 4)
    assert found.low is not None and found.low < 0.4 < (found.high or 0)


def test_probability_of_improvement_by_hand() -> None:
    # Sokoban: 3 > 1, 3 = 3, 4 > 1, 4 > 3, so 3.5 of 4. Webshop: 1 of 2.
    first = {"sokoban": [0.3, 0.4], "webshop": [0.5]}
    second = {"sokoban": [0.1, 0.3], "webshop": [0.4, 0.6]}
    found = probability_of_improvement(first, second)
    assert found.value == pytest.approx((0.875 + 0.5) / 2)
    assert found.low is None and found.high is None  # single runs of a recipe have no spread


def test_the_interval_of_an_improvement_is_that_of_all_draws() -> None:
    x, y = [0.3, 0.4], [0.1, 0.3]
    shares = [
        np.mean([(a > b) + (a == b) / 2 for a in xs for b in ys])
        for xs in product(x, repeat=2)
        for ys in product(y, repeat=2)
    ]
    found = probability_of_improvement({"t": x}, {"t": y})
    # One draw in 16 is (.3, .3) versus (.3, .3): a half. At least 1 in 4 wins all pairs.
    assert min(shares) == 0.5 and np.mean(np.equal(shares, 0.5)) == 1 / 16
    assert found == BootstrapInterval(0.875, 0.5, 1.0)


def test_a_clear_winner_and_equals() -> None:
    good, bad = {"t": [0.8, 0.9, 1.0]}, {"t": [0.1, 0.2, 0.3]}
    assert probability_of_improvement(good, bad) == BootstrapInterval(1, 1, 1)
    assert probability_of_improvement(bad, good) == BootstrapInterval(0, 0, 0)
    assert probability_of_improvement(good, good).value == 0.5


@few
@given(pairs)
def test_improvement_is_the_mann_whitney_statistic(
    both: dict[str, tuple[list[float], list[float]]],
) -> None:
    expected = np.mean(
        [stats.mannwhitneyu(x, y).statistic / (len(x) * len(y)) for x, y in both.values()]
    )
    found = probability_of_improvement(*apart(both), resamples=50)
    assert found.value == pytest.approx(float(expected))


@few
@given(pairs)
def test_improvement_the_other_way_round_is_the_rest(
    both: dict[str, tuple[list[float], list[float]]],
) -> None:
    first, second = apart(both)
    one = probability_of_improvement(first, second, resamples=50)
    other = probability_of_improvement(second, first, resamples=50)
    assert one.value == pytest.approx(1 - other.value)
    assert (one.low is None) == (other.high is None)
    if one.low is not None and one.high is not None and other.high is not None:
        assert one.low == pytest.approx(1 - other.high)
        assert one.low <= one.value <= one.high
    assert one == probability_of_improvement(
        {m: first[m] for m in reversed(list(first))},
        {m: y[::-1] for m, y in second.items()},
        resamples=50,
    )


def test_a_profile_by_hand() -> None:
    profile = performance_profile({"a": [0.2, 0.6], "b": [0.4, 0.8]}, [0.1, 0.2, 0.5, 0.8])
    assert profile.share.tolist() == [1, 0.75, 0.5, 0]  # a run is not above its own score
    assert profile.low is not None and profile.high is not None
    # Above .5 are 0, 1 or 2 draws per task with probabilities 1/4, 1/2, 1/4: none at all, 1 in 16.
    assert profile.low.tolist() == [1, 0.5, 0, 0]
    assert profile.high.tolist() == [1, 1, 1, 0]


def test_a_profile_of_single_runs_has_no_interval() -> None:
    profile = performance_profile({"a": [0.5]}, [0.0, 0.5])
    assert profile.share.tolist() == [1, 0] and profile.low is None and profile.high is None


@few
@given(scores)
def test_the_area_under_a_profile_is_the_mean(by_task: Scores) -> None:
    places = np.arange(16) / 16  # no score lies between two of them
    profile = performance_profile(by_task, places.tolist(), resamples=50)
    assert (np.diff(profile.share) <= 0).all()
    pooled = [score for runs in by_task.values() for score in runs]
    assert profile.share.sum() / 16 == pytest.approx(np.mean(pooled))
    if profile.low is not None and profile.high is not None:
        assert (profile.low <= profile.share).all() and (profile.share <= profile.high).all()


@pytest.mark.parametrize(
    ("by_task", "message"),
    [
        ({}, "no tasks"),
        ({"sokoban": []}, "at least one run"),
        ({"sokoban": [0.5, math.nan]}, "no NaN"),
        ({"sokoban": [0.5, math.inf]}, "a score of sokoban is not finite"),
    ],
)
def test_bad_scores_are_refused(by_task: Scores, message: str) -> None:
    for number in (
        iqm_over_tasks,
        lambda bad: probability_of_improvement(bad, bad),
        lambda bad: performance_profile(bad, [0.5]),
    ):
        with pytest.raises(ValueError, match=message):
            number(by_task)


def test_recipes_are_compared_on_the_same_tasks() -> None:
    with pytest.raises(ValueError, match=r"different tasks: \['a'\] and \['b'\]"):
        probability_of_improvement({"a": [0.5]}, {"b": [0.5]})


def test_the_first_recipe_is_held_against_the_others() -> None:
    found = comparison_of(
        {"a": {"x": [0.5, 0.75]}, "b": {"x": [0.25, 0.5]}, "c": {"x": [0.75, 1.0]}}
    )
    assert (found.tasks, found.labels, found.seeds) == (("x",), ("a", "b", "c"), (2, 2, 2))
    assert [one.value for one in found.iqm] == [0.625, 0.375, 0.875]
    own, over_b, over_c = found.improvement
    assert own is None
    # Of four pairs a wins three against b and ties one; against c it loses three and ties one.
    assert over_b is not None
    assert over_c is not None
    assert (over_b.value, over_c.value) == (0.875, 0.125)
    assert [profile.thresholds.tolist() for profile in found.profiles] == [
        [0.0, 0.25, 0.5, 0.75, 1.0]
    ] * 3
    assert found.profiles[0].share.tolist() == [1.0, 1.0, 0.5, 0.0, 0.0]


def test_a_comparison_has_intervals_where_seeds_are_enough() -> None:
    five, four = [0.1, 0.2, 0.3, 0.4, 0.5], [0.1, 0.2, 0.3, 0.4]
    found = comparison_of({"a": {"x": five}, "b": {"x": five}, "c": {"x": four}})
    assert [one.low is not None for one in found.iqm] == [True, True, False]
    assert [one.high is not None for one in found.profiles] == [True, True, False]
    _, over_b, over_c = found.improvement
    assert over_b is not None and over_b.low is not None and over_b.low < 0.5
    assert over_c is not None and over_c == BootstrapInterval(over_c.value)
    # The small sample of one recipe leaves too few for the others to compare with.
    found = comparison_of({"c": {"x": four}, "a": {"x": five}})
    assert found.improvement[1] == BootstrapInterval(0.4)
    assert found.iqm[0].low is None and found.iqm[1].low is not None


def test_a_recipe_alone_is_no_comparison() -> None:
    with pytest.raises(ValueError, match="takes two recipes"):
        comparison_of({"a": {"x": [0.5, 0.75]}})
