"""Intervals and tests: published examples, values calculated by hand, and general properties."""

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmark.stats.intervals import (
    Interval,
    bootstrap_mean,
    clustered_wilson,
    effective_sample_size,
    exact,
    intraclass_correlation,
    mcnemar_exact,
    mean_interval,
    pass_at_k,
    sign_flip,
    wilson,
)
from tests.support.newcombe import newcombe_paired

# No deadlines: a busy machine would miss them.
untimed = settings(deadline=None)

rates = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
clusters = st.lists(
    st.integers(1, 6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    min_size=1,
    max_size=30,
)
numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))
samples = st.lists(numbers, min_size=1, max_size=25)
cells = st.tuples(*[st.integers(0, 60)] * 4).filter(any)


def columns(plays: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [won for won, _ in plays], [played for _, played in plays]


def ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def test_wilson_at_the_borders_is_computed_by_hand() -> None:
    # One trial: p = 1, z^2 = 3.8415, low = 1 / (1 + z^2) = 0.20655.
    assert wilson(1, 1).low == pytest.approx(0.2065493)
    assert wilson(1, 1).high == 1.0
    assert wilson(0, 1).low == 0.0
    assert wilson(0, 1).high == pytest.approx(0.7934507)


@untimed
@given(rates, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
def test_wilson_agrees_with_scipy(rate: tuple[int, int], confidence: float) -> None:
    reference = stats.binomtest(*rate).proportion_ci(confidence, method="wilson")
    expected = (reference.low, reference.high)
    assert ends(wilson(*rate, confidence)) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("successes", "trials"), [(0, 0), (3, 2), (-1, 2)])
def test_wilson_refuses_what_is_no_rate(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="no rate"):
        wilson(successes, trials)


def test_the_exact_interval_of_a_few_seeds() -> None:
    # For n of n the lower bound is 0.025^(1/n), for 0 of n the upper one is 1 - 0.025^(1/n).
    assert ends(exact(3, 3)) == pytest.approx((0.025 ** (1 / 3), 1))
    assert ends(exact(0, 6)) == pytest.approx((0, 1 - 0.025 ** (1 / 6)))
    # 2 of 5: from the tables of Clopper and Pearson.
    assert ends(exact(2, 5)) == pytest.approx((0.0527, 0.8534), abs=1e-4)
    with pytest.raises(ValueError, match="no rate of 2 successes in 1 trials"):
        exact(2, 1)


@pytest.mark.parametrize("trials", [3, 4, 5, 6])
def test_the_exact_interval_contains_every_rate_often_enough(trials: int) -> None:
    for rate in np.linspace(0.001, 0.999, 99):
        chances = stats.binom.pmf(range(trials + 1), trials, rate)
        found = [exact(count, trials) for count in range(trials + 1)]
        inside = [each.low <= rate <= each.high for each in found]
        assert float(chances @ inside) >= 0.95


@pytest.mark.parametrize("confidence", [0, 1, 95])
def test_a_confidence_outside_0_and_1_is_refused(confidence: float) -> None:
    with pytest.raises(ValueError, match="not between 0 and 1"):
        wilson(1, 2, confidence)


def test_the_effective_sample_size_is_computed_by_hand() -> None:
    # Rates 1, 1/2, 0 of two plays each: P = 1/2, MSB = 2 (1/4 + 1/4) / 2 = 1/2,
    # MSW = 2 (1/4) / 3 = 1/6, m0 = 2, rho = (1/2 - 1/6) / (1/2 + 1/6) = 1/2,
    # n = 9 / (3 (1/2 + 1/4)) = 4, which is Kish's 6 / (1 + 1/2).
    assert intraclass_correlation([2, 1, 0], [2, 2, 2]) == pytest.approx(0.5)
    assert effective_sample_size([2, 1, 0], [2, 2, 2]) == pytest.approx(4)
    # Wilson at p = 1/2, n = 4: half = z sqrt(1/16 + z^2/64) / (1 + z^2/4) = 0.349961.
    interval = clustered_wilson([2, 1, 0], [2, 2, 2])
    assert ends(interval) == pytest.approx((0.150039, 0.849961), abs=1e-6)


def test_unequal_numbers_of_plays_are_computed_by_hand() -> None:
    # Plays 1, 2, 2 with 1, 1, 0 successes: N = 5, P = 2/5, rates 1, 1/2, 0,
    # MSB = (0.36 + 2 0.01 + 2 0.16) / 2 = 0.35, MSW = 2 (1/4) / 2 = 0.25,
    # m0 = (5 - 9/5) / 2 = 1.6, rho = 0.1 / (0.35 + 0.15) = 0.2,
    # n = 9 / (1 + 0.6 + 0.6) = 4.0909.
    assert intraclass_correlation([1, 1, 0], [1, 2, 2]) == pytest.approx(0.2)
    assert effective_sample_size([1, 1, 0], [1, 2, 2]) == pytest.approx(9 / 2.2)
    assert clustered_wilson([1, 1, 0], [1, 2, 2]).value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("successes", "plays", "expected"),
    [
        ([0, 0, 0], [3, 3, 3], 3),  # a rate of 0: the spread within episodes is unknown
        ([3, 3, 3], [3, 3, 3], 3),  # a rate of 1
        ([2], [4], 1),  # one episode
        ([1, 0, 1], [1, 1, 1], 3),  # single plays
        ([1, 1, 1, 1], [2, 2, 2, 2], 8),  # repeats disagree as much as possible: rho is cut to 0
    ],
)
def test_the_effective_sample_size_is_defined_in_border_cases(
    successes: list[int], plays: list[int], expected: float
) -> None:
    assert effective_sample_size(successes, plays) == expected


@untimed
@given(clusters)
def test_the_effective_sample_size_lies_between_episodes_and_plays(
    plays: list[tuple[int, int]],
) -> None:
    won, played = columns(plays)
    size = effective_sample_size(won, played)
    assert len(plays) - 1e-9 <= size <= sum(played) + 1e-9


@untimed
@given(clusters)
def test_the_clustered_interval_contains_its_rate_and_mirrors(plays: list[tuple[int, int]]) -> None:
    won, played = columns(plays)
    there = clustered_wilson(won, played)
    back = clustered_wilson([m - w for w, m in plays], played)
    assert 0 <= there.low <= there.value <= there.high <= 1
    assert there.value == pytest.approx(sum(w / m for w, m in plays) / len(plays))
    assert ends(there) == pytest.approx((1 - back.high, 1 - back.low), abs=1e-9)


@untimed
@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(1, 5))
def test_repeats_that_agree_change_nothing(outcomes: list[bool], repeats: int) -> None:
    clustered = clustered_wilson([repeats * won for won in outcomes], [repeats] * len(outcomes))
    assert clustered == wilson(sum(outcomes), len(outcomes))


@untimed
@given(clusters, st.randoms(use_true_random=False))
def test_the_order_of_episodes_is_irrelevant(
    plays: list[tuple[int, int]], order: random.Random
) -> None:
    shuffled = order.sample(plays, len(plays))
    assert clustered_wilson(*columns(plays)) == clustered_wilson(*columns(shuffled))


def test_impossible_clusters_are_refused() -> None:
    for won, played in [([2], [1]), ([0], [0]), ([], [])]:
        with pytest.raises(ValueError, match="no "):
            clustered_wilson(won, played)
    with pytest.raises(ValueError, match="longer"):
        clustered_wilson([1], [1, 1])


def test_the_clustered_interval_covers_the_truth_where_the_plain_one_does_not() -> None:
    # 100 episodes of 4 plays; each episode's own rate is Beta(1, 1): p = 1/2, rho = 1/3.
    rng = np.random.default_rng(1)
    clustered = plain = 0
    rounds = 400
    for _ in range(rounds):
        won = [int(x) for x in rng.binomial(4, rng.beta(1, 1, 100))]
        interval = clustered_wilson(won, [4] * 100)
        clustered += interval.low <= 0.5 <= interval.high
        naive = wilson(sum(won), 400)
        plain += naive.low <= 0.5 <= naive.high
    assert clustered / rounds > 0.92
    assert plain / rounds < 0.88


def test_a_t_interval_without_spread_has_no_width() -> None:
    assert mean_interval([0.1, 0.1, 0.1]) == Interval(0.1, 0.1, 0.1)
    assert mean_interval([7.0]) == Interval(7.0, 7.0, 7.0)


@untimed
@given(samples, st.randoms(use_true_random=False))
def test_the_t_interval_mirrors_and_ignores_order(
    values: list[float], order: random.Random
) -> None:
    there = mean_interval(values)
    back = mean_interval([-value for value in order.sample(values, len(values))])
    assert there.low <= there.value <= there.high
    assert there == Interval(-back.value, -back.high, -back.low)


@untimed
@given(st.lists(numbers, min_size=2, max_size=25, unique=True))
def test_the_t_interval_agrees_with_scipy(values: list[float]) -> None:
    reference = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    scale = max(abs(value) for value in values)
    expected = (reference.low, reference.high)
    assert ends(mean_interval(values)) == pytest.approx(expected, rel=1e-9, abs=1e-9 * scale)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (0, 0, 1.0),
        (3, 3, 1.0),
        (5, 0, 2 / 2**5),
        (1, 7, 2 * (1 + 8) / 2**8),
        (6, 16, 0.052479),  # Fagerland, Lydersen and Laake (2017), chapter 8: after Cavo (2012)
    ],
)
def test_the_mcnemar_test_is_exact(first: int, second: int, expected: float) -> None:
    assert mcnemar_exact(first, second) == pytest.approx(expected, abs=5e-7)
    assert mcnemar_exact(first, second) == mcnemar_exact(second, first)


@untimed
@given(st.integers(0, 300), st.integers(0, 300))
def test_the_mcnemar_test_is_a_binomial_test(first: int, second: int) -> None:
    expected = stats.binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar_exact(first, second) == pytest.approx(expected, abs=1e-12)


def test_negative_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        mcnemar_exact(-1, 2)
    for table in [(0, 0, 0, 0), (3, -1, 0, 0)]:
        with pytest.raises(ValueError, match="at least one pair"):
            newcombe_paired(*table)


# Newcombe, Stat. Med. 17 (1998) 2635-2650, Table III, method 10. The lower bound of (1, 97, 1, 1)
# is 0.87367, and was truncated, not rounded, in print.
@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        ((36, 12, 2, 0), 0.0569, 0.3404),
        ((20, 12, 2, 16), 0.0562, 0.3292),
        ((18, 12, 2, 18), 0.0562, 0.3290),
        ((36, 14, 0, 0), 0.1528, 0.4167),
        ((35, 14, 0, 1), 0.1461, 0.4175),
        ((18, 14, 0, 18), 0.1441, 0.3963),
        ((2, 97, 1, 0), 0.8721, 0.9854),
        ((1, 97, 1, 1), 0.8737, 0.9850),
        ((0, 29, 1, 0), 0.6666, 0.9882),
        ((2, 98, 0, 0), 0.9178, 0.9945),
        ((1, 98, 0, 1), 0.9171, 0.9916),
        ((0, 30, 0, 0), 0.8395, 1.0),
        ((54, 0, 0, 0), -0.0664, 0.0664),
        ((53, 0, 0, 1), -0.0729, 0.0729),
        ((30, 0, 0, 24), -0.0358, 0.0358),
        ((29, 0, 0, 25), -0.0354, 0.0354),
        ((28, 0, 0, 26), -0.0352, 0.0352),
        ((27, 0, 0, 27), -0.0351, 0.0351),
        # Fagerland, Lydersen and Laake (2017), chapter 8: after Cavo (2012).
        ((59, 6, 16, 80), -0.1186, -0.0046),
    ],
)
def test_the_paired_score_interval_gives_the_published_examples(
    table: tuple[int, int, int, int], low: float, high: float
) -> None:
    assert ends(newcombe_paired(*table)) == pytest.approx((low, high), abs=5.1e-5)


@untimed
@given(cells)
def test_the_paired_score_interval_contains_its_estimate_and_swaps(
    table: tuple[int, int, int, int],
) -> None:
    both, first, second, neither = table
    there = newcombe_paired(both, first, second, neither)
    back = newcombe_paired(both, second, first, neither)
    assert -1 <= there.low <= there.value <= there.high <= 1
    assert there.low < there.high
    assert there.value == (first - second) / sum(table)
    assert ends(there) == pytest.approx((-back.high, -back.low), abs=1e-12)
    # The difference of failure rates is the negative of that of success rates.
    failures = newcombe_paired(neither, second, first, both)
    assert ends(failures) == pytest.approx((-there.high, -there.low), abs=1e-9)


def test_no_values_have_no_statistics() -> None:
    for statistic in (mean_interval, bootstrap_mean, sign_flip):
        with pytest.raises(ValueError, match="no values"):
            statistic([])


def test_pass_at_k_by_hand() -> None:
    # 4 plays, 1 success: 3 of 6 pairs contain it. 4 plays, 2 successes: 1 of 6 pairs contains none.
    assert pass_at_k([1], [4], 2).value == pytest.approx(3 / 6)
    assert pass_at_k([2], [4], 2).value == pytest.approx(5 / 6)
    assert pass_at_k([0, 1, 2], [4, 4, 4], 2).value == pytest.approx((0 + 1 / 2 + 5 / 6) / 3)


def test_pass_at_the_ends() -> None:
    successes, plays = [0, 1, 3], [3, 3, 3]
    rate = clustered_wilson(successes, plays).value
    assert pass_at_k(successes, plays, 1).value == pytest.approx(rate)
    # With all plays, an episode is either solved or not.
    assert pass_at_k(successes, plays, 3) == wilson(2, 3)


@pytest.mark.parametrize("k", [0, 4])
def test_pass_at_k_needs_k_plays(k: int) -> None:
    with pytest.raises(ValueError, match=f"pass@{k} needs"):
        pass_at_k([1, 2], [3, 4], k)


@given(st.lists(st.tuples(st.integers(0, 6), st.just(6)), min_size=1), st.integers(1, 5))
def test_more_plays_never_solve_less(plays: list[tuple[int, int]], k: int) -> None:
    solved, played = [s for s, _ in plays], [n for _, n in plays]
    fewer, more = pass_at_k(solved, played, k), pass_at_k(solved, played, k + 1)
    assert fewer.value <= more.value + 1e-12
    assert 0 <= fewer.low <= fewer.value <= fewer.high <= 1
