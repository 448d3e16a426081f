"""Differences of methods whose seeds play the same episodes: by hand, and in simulations."""

import numpy as np
import pytest
from scipy import special, stats

from benchmark.stats.arrays import Values
from benchmark.stats.crossed import crossed_difference
from benchmark.stats.paired import Side, difference


def test_a_difference_by_hand() -> None:
    first = np.array([[1.0, 1, 0, 0], [1, 0, 1, 0]])
    second = np.array([[0.0, 0, 0, 0], [1, 0, 0, 0]])
    # Seeds: 0.5 and 0.5 have variance 0; 0 and 0.25 have 1/32, which adds 1/64 for two.
    # Episodes: means 1, 1/2, 1/2, 0 minus 1/2, 0, 0, 0 = 1/2, 1/2, 1/2, 0: 1/16, over four 1/64.
    # Residuals: 0, 1/2, -1/2, 0 and the negative, 1 in total, over 3 and 8: 1/24; the second's are
    # -3/8, 1/8, 1/8, 1/8 and the negative, 3/8 in total: 1/64. More noise than episodes: 1/64.
    found = crossed_difference([first], [second])
    half = stats.t.ppf(0.975, 1) * np.sqrt(1 / 64)
    assert found.value == pytest.approx(3 / 8)
    assert found.high == pytest.approx(min(1.0, 3 / 8 + half))
    assert found.low == pytest.approx(max(-1.0, 3 / 8 - half))


def test_seeds_that_are_alike_by_chance_do_not_make_it_narrower_than_the_noise() -> None:
    rng = np.random.default_rng(3)
    first = np.array([rng.permutation(128 * [1.0] + 128 * [0.0]) for _ in range(3)])
    found = crossed_difference([first], [np.zeros((3, 256))])
    # Each seed solves half, but different episodes: no spread of seeds, and noise of 1/4 per play.
    assert found.value == pytest.approx(0.5)
    assert found.high - found.low == pytest.approx(2 * 1.96 * np.sqrt(0.25 / 768), rel=0.05)


def test_two_panels_are_half_of_the_mean_each() -> None:
    plays = np.array([[1.0, 0, 0, 1], [1, 1, 0, 0]])
    none = np.zeros((2, 4))
    assert crossed_difference([plays, none], [none, none]).value == pytest.approx(0.25)
    equal = crossed_difference([none, none], [none, none])
    assert (equal.low, equal.value, equal.high) == (0, 0, 0)


@pytest.mark.parametrize(("seeds", "episodes", "other"), [(1, 4, 4), (2, 1, 1), (2, 4, 5)])
def test_what_cannot_be_compared(seeds: int, episodes: int, other: int) -> None:
    with pytest.raises(ValueError, match=r"at least two seeds|the same episodes"):
        crossed_difference([np.zeros((seeds, episodes))], [np.zeros((2, other))])


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_it_contains_the_truth_often_enough_and_is_narrower_than_the_other(spread: float) -> None:
    rng, inside, widths = np.random.default_rng(7), 0, np.zeros(2)
    for _ in range(400):
        levels = rng.normal(0, 2, 256)
        first, second = (_plays(rng, levels, 3, spread) for _ in range(2))
        found = crossed_difference([first], [second])
        usual = difference(*(Side.of(each.T.tolist(), each.mean(1)) for each in (first, second)))
        inside += found.low <= 0 <= found.high
        widths += (found.high - found.low, usual.high - usual.low)
    assert 0.93 <= inside / 400 <= 0.99
    assert widths[0] < 0.95 * widths[1]


def _plays(rng: np.random.Generator, levels: Values, seeds: int, spread: float) -> Values:
    """Seeds of a method on levels, with all methods equally good."""
    chance = special.expit(levels + rng.normal(0, spread, seeds)[:, None])
    plays: Values = (rng.random(chance.shape) < chance).astype(np.float64)
    return plays
