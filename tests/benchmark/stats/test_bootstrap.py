"""Centers of a few runs and their intervals: by hand, by enumeration, and against scipy."""

import math
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmark.stats.arrays import Values
from benchmark.stats.bootstrap import (
    BootstrapInterval,
    drawn,
    estimate,
    iqm,
    median,
    percentile_ends,
    sorted_iqm,
    sorted_median,
)
from benchmark.stats.intervals import RESAMPLES

runs = st.lists(st.integers(0, 40).map(lambda n: n / 40), min_size=1, max_size=12)
few = settings(max_examples=30)


def test_iqm_leaves_out_a_quarter_at_each_end() -> None:
    assert iqm([0.9, 0.1, 0.2, 0.4]) == pytest.approx(0.3)
    assert iqm([8, 1, 2, 3, 4, 5, 6, 100]) == 4.5  # 3 4 5 6
    assert iqm([1, 2, 6]) == 3  # with three runs there is no quarter to trim
    assert iqm([0.7]) == 0.7


def test_median_by_hand() -> None:
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 2, 3]) == 2.5
    assert median([math.inf, 1.0, 2.0]) == 2
    assert median([math.inf, 1.0]) == math.inf


@pytest.mark.parametrize("values", [[], [0.5, math.nan]])
def test_no_runs_and_nan_are_refused(values: list[float]) -> None:
    for number in (iqm, median, lambda runs: estimate([runs])):
        with pytest.raises(ValueError, match="at least one run, and no NaN"):
            number(values)
    with pytest.raises(ValueError, match="no strata"):
        estimate([])


@given(runs)
def test_iqm_agrees_with_scipy(values: list[float]) -> None:
    assert iqm(values) == pytest.approx(float(stats.trim_mean(values, 0.25)))
    assert median(values) == pytest.approx(float(np.median(values)))


def test_percentiles_leave_as_many_draws_below_as_above() -> None:
    draws = np.arange(1000).astype(np.float64)[:, None]
    # 2.5% of 1000 are 25: the 25th smallest and the 25th largest.
    assert [float(end[0]) for end in percentile_ends(draws)] == [24, 975]
    assert [float(end[0]) for end in percentile_ends(draws[::-1], 0.9)] == [49, 950]
    assert [float(end[0]) for end in percentile_ends(draws[:1])] == [0, 0]
    with pytest.raises(ValueError, match="not between 0 and 1"):
        percentile_ends(draws, 1.0)


def test_two_runs_by_hand() -> None:
    # Means of two draws: 0, .5 and 1 with probabilities 1/4, 1/2, 1/4.
    assert estimate([[0.0, 1.0]]) == BootstrapInterval(0.5, 0.0, 1.0)
    assert estimate([[0.0, 1.0]], confidence=0.4) == BootstrapInterval(0.5, 0.5, 0.5)


def test_ends_are_those_of_all_possible_draws() -> None:
    # All 3^3 * 2^2 draws of two strata, pooled; at levels away from their jumps.
    one, other = [0.1, 0.4, 0.9], [0.2, 0.6]
    means = np.sort(
        [
            iqm([*first, *second])
            for first in product(one, repeat=3)
            for second in product(other, repeat=2)
        ]
    )
    found = estimate([one, other], confidence=0.9)
    assert found.value == pytest.approx((0.2 + 0.4 + 0.6) / 3)
    assert found.low is not None and found.high is not None
    shares = [np.mean(means <= end + 1e-9) for end in (found.low, found.high)]
    below = [np.mean(means < end - 1e-9) for end in (found.low, found.high)]
    assert below[0] <= 0.05 + 0.01 and shares[0] >= 0.05 - 0.01
    assert below[1] <= 0.95 + 0.01 and shares[1] >= 0.95 - 0.01


def test_every_run_is_drawn_as_often() -> None:
    positions = drawn(5, 20_000)
    assert positions.shape == (20_000, 5)
    counts = np.bincount(positions.ravel(), minlength=5)
    assert stats.chisquare(counts).pvalue > 1e-4
    assert (np.diff(positions, axis=1) >= 0).all()
    with pytest.raises(ValueError, match="read-only"):
        positions[0, 0] = 1


def test_strata_are_drawn_independently() -> None:
    means = [drawn(8, 20_000, stratum).mean(axis=1) for stratum in (0, 1)]
    assert abs(np.corrcoef(means)[0, 1]) < 0.03  # more than 4 standard errors


@few
@example([0.0, 0.0, 0.003, 0.0, 0.0, 0.001, 0.0, 0.002])
@given(st.lists(st.integers(0, 1000).map(lambda n: n / 1000), min_size=8, max_size=25))
def test_the_interval_is_close_to_scipys(values: list[float]) -> None:
    def trimmed(sample: Values, axis: int) -> Values:
        return np.asarray(stats.trim_mean(sample, 0.25, axis=axis))

    reference = stats.bootstrap(
        (values,), trimmed, method="percentile", n_resamples=4_000, rng=np.random.default_rng(1)
    )
    found = estimate([values])
    assert found.low is not None and found.high is not None
    # A bound is a quantile of draws: its level varies by chance, and if there are few distinct
    # values (nearly equal runs), a small step in level is a large one in the quantile.
    for end, level in ((found.low, 0.025), (found.high, 0.975)):
        chance = 4 * math.sqrt(0.025 * 0.975 * (1 / 4_000 + 1 / RESAMPLES))
        around = np.clip([level - chance, level + chance], 0, 1)
        low, high = np.quantile(reference.bootstrap_distribution, around)
        assert low - 1e-9 <= end <= high + 1e-9


def test_a_single_run_has_no_interval() -> None:
    assert estimate([[0.25]]) == BootstrapInterval(0.25, None, None)
    # One of two tasks has a single run: an interval of the other alone would be too narrow.
    assert estimate([[0.25], [0.5, 0.75]]) == BootstrapInterval(0.5, None, None)


def test_infinite_runs_are_the_worst_and_not_lost() -> None:
    found = estimate([[1.0, 2.0, math.inf]], sorted_median)
    assert found == BootstrapInterval(2.0, 1.0, math.inf)
    assert estimate([[1.0, math.inf]]).value == math.inf


@few
@given(st.lists(runs, min_size=1, max_size=4), st.randoms())
def test_order_moves_nothing(strata: list[list[float]], random: Random) -> None:
    shuffled = [random.sample(values, len(values)) for values in strata]
    random.shuffle(shuffled)
    for statistic in (sorted_iqm, sorted_median):
        assert estimate(shuffled, statistic, resamples=200) == estimate(
            strata, statistic, resamples=200
        )


@few
@given(st.lists(runs.filter(lambda values: len(values) > 1), min_size=1, max_size=4))
def test_the_interval_holds_the_value_and_stays_in_range(strata: list[list[float]]) -> None:
    pooled = [value for values in strata for value in values]
    for statistic in (sorted_iqm, sorted_median):
        found = estimate(strata, statistic, resamples=200)
        assert found.low is not None and found.high is not None
        assert min(pooled) <= found.low <= found.value <= found.high <= max(pooled)
        wider = estimate(strata, statistic, 0.99, resamples=200)
        assert wider.low is not None and wider.high is not None
        assert wider.low <= found.low and found.high <= wider.high
