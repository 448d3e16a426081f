"""Bootstrap and sign flips: scipy's, exact values, and general properties."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmark.stats.intervals import (
    EXACT_FLIPS,
    Interval,
    bootstrap_mean,
    mcnemar_exact,
    sign_flip,
)

untimed = settings(deadline=None)
few = settings(max_examples=40, deadline=None)

numbers = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))
samples = st.lists(numbers, min_size=1, max_size=25)


def ends(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high


def test_the_bootstrap_agrees_with_scipy() -> None:
    values = [float(x) for x in np.random.default_rng(3).gamma(1.0, 2.0, 40)]
    reference = stats.bootstrap(
        (values,), np.mean, n_resamples=50_000, method="BCa", rng=np.random.default_rng(4)
    ).confidence_interval
    interval = bootstrap_mean(values, resamples=50_000)
    assert interval.value == pytest.approx(np.mean(values))
    assert ends(interval) == pytest.approx((reference.low, reference.high), abs=0.02)


def test_the_bootstrap_of_two_values_is_known() -> None:
    # Resamples of (0, 1) have the means 0, 1/2, 1 with probabilities 1/4, 1/2, 1/4.
    assert bootstrap_mean([0.0, 1.0]) == Interval(0.5, 0.0, 1.0)


def test_a_bootstrap_without_spread_has_no_width() -> None:
    assert bootstrap_mean([0.25] * 9) == Interval(0.25, 0.25, 0.25)
    assert bootstrap_mean([-3.0]) == Interval(-3.0, -3.0, -3.0)


def test_the_bootstrap_covers_the_truth() -> None:
    rng = np.random.default_rng(5)
    rounds, covered = 200, 0
    for _ in range(rounds):
        interval = bootstrap_mean([float(x) for x in rng.exponential(1.0, 60) - 1], resamples=1_000)
        covered += interval.low <= 0 <= interval.high
    assert 0.90 <= covered / rounds <= 0.98


@few
@given(samples, st.randoms(use_true_random=False))
def test_the_bootstrap_mirrors_and_ignores_order(values: list[float], order: random.Random) -> None:
    there = bootstrap_mean(values, resamples=300)
    back = bootstrap_mean([-v for v in order.sample(values, len(values))], resamples=300)
    assert min(values) <= there.low <= there.value <= there.high <= max(values)
    scale = max(abs(value) for value in values)
    assert ends(there) == pytest.approx((-back.high, -back.low), abs=1e-9 * scale)


def test_drawing_in_parts_moves_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [float(x) for x in np.random.default_rng(6).normal(0.2, 1.0, 30)]
    whole = bootstrap_mean(values), sign_flip(values)
    monkeypatch.setattr("benchmark.stats.intervals._BATCH", 997)
    assert (bootstrap_mean(values), sign_flip(values)) == whole


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([0.0, 0.0], 1.0),
        ([5.0], 1.0),
        ([1.0, 2.0, 3.0], 2 / 8),  # only +++ and --- reach 6
        ([1.0, 2.0, -3.0], 1.0),
        ([0.1, 0.2, 0.3, 0.0, 0.4, -0.2], 8 / 32),  # 0.8: see below
    ],
)
def test_few_differences_have_an_exact_p_value(differences: list[float], expected: float) -> None:
    # The last case: |sum| = 0.8 of a total of 1.2 is reached by the patterns whose minority weighs
    # at most 0.2: {}, {0.1}, {0.2}, {0.2'}; and by their mirror images.
    assert sign_flip(differences) == expected


@untimed
@given(st.integers(0, EXACT_FLIPS), st.integers(0, 10), st.data())
def test_the_sign_flip_test_on_single_plays_is_mcnemars(
    discordant: int, ties: int, data: st.DataObject
) -> None:
    first = data.draw(st.integers(0, discordant))
    differences = [1.0] * first + [-1.0] * (discordant - first) + [0.0] * ties
    if differences:
        expected = mcnemar_exact(first, discordant - first)
        assert sign_flip(differences) == pytest.approx(expected, abs=1e-12)


def test_drawn_sign_flips_are_close_to_the_exact_test() -> None:
    differences = [1.0] * 34 + [-1.0] * 16
    assert sign_flip(differences) == pytest.approx(mcnemar_exact(34, 16), abs=0.004)


def test_drawn_sign_flips_never_give_zero() -> None:
    assert sign_flip([1.0] * 60) == 1 / 20_001
    assert sign_flip([0.5] * 60, flips=99) == 0.01


@few
@given(samples, st.randoms(use_true_random=False))
def test_the_sign_flip_test_ignores_order_and_direction(
    values: list[float], order: random.Random
) -> None:
    p_value = sign_flip(values, flips=500)
    assert 0 < p_value <= 1
    assert p_value == sign_flip([-v for v in order.sample(values, len(values))], flips=500)
    assert p_value == sign_flip([*values, 0.0], flips=500)


@few
@given(st.floats(0.01, 1e3), st.lists(st.integers(-50, 50), min_size=2, max_size=12))
def test_a_change_of_unit_changes_the_unit_alone(scale: float, values: list[int]) -> None:
    plain = bootstrap_mean([float(v) for v in values], resamples=300)
    scaled = bootstrap_mean([scale * v for v in values], resamples=300)
    assert math.isclose(scaled.value, scale * plain.value, rel_tol=1e-9, abs_tol=1e-9)
    assert ends(scaled) == pytest.approx((scale * plain.low, scale * plain.high), abs=1e-6 * scale)
