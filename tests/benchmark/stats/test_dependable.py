"""Dependable success: by hand, with one seed, and what its interval must know."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmark.stats.dependable import dependable_success

SEEDS = np.array([[1.0, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]])
"""Success 0.75, 0.5 and 0.25."""


def test_values_by_hand() -> None:
    cases = {(False, False, False): 0.5, (True, False, False): 0.25, (False, False, True): 1.25 / 3}
    for collapsed, value in cases.items():
        found = dependable_success(SEEDS, collapsed, 200)
        assert found is not None and found.value == pytest.approx(value)
    none = dependable_success(SEEDS, [True] * 3)
    assert none is not None and none.value == 0
    assert none.low == pytest.approx(0.0, abs=1e-3)


def test_one_seed_has_no_value() -> None:
    assert dependable_success(SEEDS[:1], [False]) is None


def test_no_collapse_of_a_few_is_not_no_collapse() -> None:
    # Every episode is always solved: what varies is the share of collapses alone, Beta(1/2, 7/2).
    found = dependable_success(np.ones((3, 20)), [False] * 3)
    assert found is not None and found.low is not None
    assert found.low == pytest.approx(1 - stats.beta.ppf(0.975, 0.5, 3.5), abs=0.02)
    assert (found.value, found.high) == (1.0, 1.0)
    many = dependable_success(np.ones((100, 20)), [False] * 100)
    assert many is not None and many.low is not None and many.low > 0.97


def test_the_true_value_is_seldom_above_the_interval() -> None:
    """Three seeds that always hold and solve 90%: 2.5% by design, and what chance adds to it."""
    rng, above = np.random.default_rng(0), 0
    for _ in range(200):
        shares = (rng.random((3, 256)) < 0.9).astype(np.float64)
        found = dependable_success(shares, [False] * 3, 400)
        assert found is not None and found.high is not None
        above += found.high < 0.9
    assert above / 200 < 0.06


def test_where_all_collapse_the_upper_end_is_that_of_the_posterior() -> None:
    found = dependable_success(np.zeros((3, 20)), [True] * 3)
    assert found is not None and found.high is not None
    assert found.high == pytest.approx(stats.beta.ppf(0.975, 0.5, 3.5), abs=0.02)


def test_seeds_and_trainings_must_fit() -> None:
    with pytest.raises(ValueError, match="3 seeds on 4 episodes and 2 training runs"):
        dependable_success(SEEDS, [False] * 2)


@settings(max_examples=20)
@given(st.permutations(range(3)), st.lists(st.booleans(), min_size=3, max_size=3))
def test_the_order_of_seeds_does_not_matter(order: list[int], lost: list[bool]) -> None:
    one = dependable_success(SEEDS, lost, 100)
    other = dependable_success(SEEDS[order], [lost[place] for place in order], 100)
    assert one is not None and other is not None
    assert (other.low, other.high) == (one.low, one.high)
    assert other.value == pytest.approx(one.value)
    assert one.low is not None and one.high is not None
    assert 0 <= one.low <= one.value <= one.high <= 1
