"""Dependable success: by hand, with one seed, and the sources of its interval."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmark.stats.dependable import dependable_success
from benchmark.stats.intervals import Interval
from benchmark.stats.paired import Side, mean_success

HALF = Interval(0.5, 0.4, 0.65)


@pytest.mark.parametrize(
    ("collapsed", "value"),
    [([False] * 3, 0.5), ([True, False, False], 1 / 3), ([True, False], 0.25)],
)
def test_values_by_hand(collapsed: list[bool], value: float) -> None:
    found = dependable_success(collapsed, HALF, 200)
    assert found is not None and found.value == pytest.approx(value)


def test_one_seed_has_no_value() -> None:
    assert dependable_success([False], HALF) is None
    assert dependable_success([True], None) is None


def test_no_collapse_of_a_few_is_not_no_collapse() -> None:
    # Every episode is always solved: only the share of collapses varies, Beta(1/2, 7/2).
    always = Interval(1.0, 1.0, 1.0)
    found = dependable_success([False] * 3, always)
    assert found is not None and found.low is not None
    assert found.low == pytest.approx(1 - stats.beta.ppf(0.975, 0.5, 3.5), abs=0.02)
    assert (found.value, found.high) == (1.0, 1.0)
    many = dependable_success([False] * 100, always)
    assert many is not None and many.low is not None and many.low > 0.97


def test_where_all_collapse_the_upper_end_is_that_of_the_posterior() -> None:
    found = dependable_success([True] * 3, None)
    assert found is not None and found.high is not None
    assert found.value == 0
    assert found.low == pytest.approx(0.0, abs=1e-3)
    assert found.high == pytest.approx(stats.beta.ppf(0.975, 0.5, 3.5), abs=0.02)


def test_the_spread_of_seeds_is_that_of_the_success_and_not_less() -> None:
    # With a share of stable runs near 1, only the success varies, and few seeds leave it wide.
    found = dependable_success([False] * 1000, HALF)
    assert found is not None and found.low is not None
    assert found.low == pytest.approx(HALF.low, abs=0.01)


@settings(deadline=None)
@given(
    st.lists(st.floats(0.05, 0.95), min_size=2, max_size=5),
    st.integers(0, 2**32),
    st.integers(0, 3),
)
def test_it_is_never_surer_than_the_success(rates: list[float], seed: int, lost: int) -> None:
    plays = np.random.default_rng(seed).random((40, len(rates))) < np.array(rates)
    success = mean_success([Side.of(plays.tolist(), plays.mean(axis=0).tolist())])
    found = dependable_success([False] * len(rates) + [True] * lost, success, 400)
    assert found is not None and found.low is not None and found.high is not None
    assert 0 <= found.low <= success.low
    assert found.low <= found.value <= found.high <= 1
    if lost == 0:
        assert found.value == pytest.approx(success.value)
        assert found.high == success.high


def test_seeds_and_success_must_fit() -> None:
    with pytest.raises(ValueError, match="2 of 2 seeds collapsed"):
        dependable_success([True] * 2, HALF)
    with pytest.raises(ValueError, match="1 of 2 seeds collapsed"):
        dependable_success([False, True], None)
