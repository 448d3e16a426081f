"""Definitions on one learning curve, calculated by hand, and general properties."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.logs.curves import Points
from benchmark.stability.curves import (
    area_lost,
    dispersion_across_time,
    drawdowns,
    late_std,
    long_term_risk,
    max_drawdown,
    mean_over_time,
    retention,
    running_totals,
    short_term_risk,
    slope,
    smoothed_curve,
    step_to_reach,
    upper_quantile,
)
from tests.benchmark.stability.given import points

NAN, INF = math.nan, math.inf
FALL = points([0.1, 0.2, 0.4, 0.6, 0.8, 0.85, 0.9, 0.1, 0.05, 0.05])
ALL: list[Callable[[Points], float | None]] = [
    max_drawdown,
    area_lost,
    retention,
    short_term_risk,
    long_term_risk,
    dispersion_across_time,
    late_std,
    mean_over_time,
    slope,
]
rates = st.integers(0, 20).map(lambda n: n / 20)
curves = st.lists(rates, min_size=2, max_size=25)


def numbers(curve: Points) -> dict[str, float | None]:
    return {number.__name__: number(curve) for number in ALL}


def test_a_steep_fall_by_hand() -> None:
    assert drawdowns(FALL) == pytest.approx([0] * 7 + [0.8, 0.85, 0.85])
    assert max_drawdown(FALL) == pytest.approx(0.85)
    assert area_lost(FALL) == pytest.approx(2.5 / 10)
    assert smoothed_curve(FALL).values[[0, 1, 6, 9]] == pytest.approx([0.1, 0.15, 0.85, 0.2 / 3])
    assert retention(FALL) == pytest.approx(0.2 / 3 / 0.85)


def test_long_term_risk_is_the_upper_tail_of_the_drawdowns() -> None:
    # The lower tail would be 0: seven of the ten drawdowns are.
    assert long_term_risk(FALL, 0.05) == pytest.approx(0.85)
    assert long_term_risk(FALL) == pytest.approx(0.85)
    # The 70% quantile lies at 6.3, between 0 and .8: three drawdowns are above.
    assert long_term_risk(FALL, 0.3) == pytest.approx(2.5 / 3)
    assert long_term_risk(FALL, 1) == area_lost(FALL)


def test_short_term_risk_is_the_worst_changes_per_update() -> None:
    # Changes .1 .2 .2 .2 .05 .05 -.8 -.05 0; their 10% quantile is -.8 + .8 * .75 = -.2.
    assert short_term_risk(FALL) == pytest.approx(0.8)
    # The 20% quantile is -.05 + .6 * .05 = -.02: the two falls, with mean -.425.
    assert short_term_risk(FALL, 0.2) == pytest.approx(0.425)
    assert short_term_risk(points(FALL.values.tolist(), every=5)) == pytest.approx(0.16)
    assert short_term_risk(points([0.1, 0.2, 0.4])) == pytest.approx(-0.1)  # even the worst gains


def test_dispersion_across_time_is_the_mean_spread_of_the_windows() -> None:
    # Nine changes make one window of ten: quartiles 0 and .2.
    assert dispersion_across_time(FALL) == pytest.approx(0.2)
    # Windows of four: spreads .025 .0375 .15 .25 .2875 .25.
    assert dispersion_across_time(FALL, 4) == pytest.approx(1 / 6)
    assert dispersion_across_time(points(FALL.values.tolist(), every=10), 4) == pytest.approx(
        1 / 60
    )
    with pytest.raises(ValueError, match="at least 2, not 1"):
        dispersion_across_time(FALL, 1)


def test_late_std_is_of_the_last_fifth_of_the_updates() -> None:
    rising = points([0.9] * 8 + [0.2, 0.4, 0.6], every=10)
    assert late_std(rising) == pytest.approx(math.sqrt(0.08 / 3))  # updates 80, 90, 100
    assert late_std(rising, 1) == pytest.approx(float(np.std([0.9] * 8 + [0.2, 0.4, 0.6])))
    assert late_std(points([0.1, 0.9], every=10)) is None  # only the last one is that late


def test_mean_over_time_weighs_by_updates() -> None:
    # Areas 10 * .25 and 20 * .75 over 30 updates.
    assert mean_over_time(points([0.0, 0.5, 1.0], [0, 10, 30])) == pytest.approx(17.5 / 30)
    assert mean_over_time(points([0.25, 0.75], [7, 8])) == 0.5


def test_slope_is_that_of_the_least_squares_line() -> None:
    assert slope(points([1, 3, 2], every=100)) == pytest.approx(0.5)
    assert slope(points([1, 3, 2], every=100), per=1) == pytest.approx(0.005)
    assert slope(points([4, 2], [10, 11])) == pytest.approx(-200)


def test_a_level_is_reached_by_the_smoothed_curve() -> None:
    # Means .1 .3 .4 .6 .733.
    rising = smoothed_curve(points([0.1, 0.5, 0.6, 0.7, 0.9], every=5))
    assert [step_to_reach(rising, level) for level in (0.0, 0.3, 0.6, 0.7, 0.8)] == [
        0, 5, 15, 20, None,
    ]  # fmt: skip
    lucky = smoothed_curve(points([0.1, 0.9, 0.1, 0.1]))
    assert step_to_reach(lucky, 0.6) is None
    assert step_to_reach(smoothed_curve(points([])), 0.0) is None


def test_running_totals_begin_at_nothing_and_are_linear_between() -> None:
    total = points([10, 30, NAN], [2, 4, 5])
    steps = np.arange(6)
    assert running_totals(total, steps) == pytest.approx([0, 5, 10, 20, 30, NAN], nan_ok=True)
    assert np.isnan(running_totals(points([]), steps)).all()
    assert running_totals(points([3, 5]), np.array([0, 1])).tolist() == [3, 5]


def test_what_is_not_finite_is_the_top_of_an_upper_quantile() -> None:
    assert upper_quantile(points([5, 1, 4, 2, 3]), 0.5) == 3
    assert upper_quantile(points([1, 2]), 0.95) == pytest.approx(1.95)
    hundred = [*range(1, 99), NAN, INF]
    assert upper_quantile(points(hundred), 0.95) == pytest.approx(95.05)
    assert upper_quantile(points(hundred), 0.98) == INF
    assert upper_quantile(points([1, NAN, 2]), 0.5) == 2  # the place of 2 itself
    assert upper_quantile(points([NAN]), 0.5) == INF
    assert upper_quantile(points([]), 0.5) is None


@pytest.mark.parametrize("values", [[], [0.5], [NAN, 0.5, INF], [NAN, -INF]])
def test_one_point_says_nothing(values: list[float]) -> None:
    assert set(numbers(points(values)).values()) == {None}


def test_a_flat_curve_loses_nothing() -> None:
    flat = numbers(points([0.5] * 12))
    assert flat.pop("retention") == 1 and flat.pop("mean_over_time") == 0.5
    assert set(flat.values()) == {0.0}


def test_without_success_there_is_nothing_to_retain() -> None:
    assert retention(points([0.0] * 5)) is None
    assert retention(points([-0.5] * 5)) is None
    assert max_drawdown(points([0.0] * 5)) == 0


def test_two_points() -> None:
    assert numbers(points([0.5, 0.25], every=2)) == {
        "max_drawdown": 0.25,
        "area_lost": 0.125,
        "retention": 0.75,  # means .5 and .375
        "short_term_risk": 0.125,
        "long_term_risk": 0.25,
        "dispersion_across_time": None,
        "late_std": None,
        "mean_over_time": 0.375,
        "slope": -12.5,
    }


@pytest.mark.parametrize("tail", [0, 1.5, NAN])
def test_a_tail_is_a_share(tail: float) -> None:
    with pytest.raises(ValueError, match="a tail is a share"):
        long_term_risk(FALL, tail)


@given(curves, st.sampled_from([NAN, INF, -INF]))
def test_points_that_are_not_finite_are_passed_over(values: list[float], hole: float) -> None:
    holes = [value for one in values for value in (one, hole)]
    assert numbers(points(holes)) == numbers(points(values, every=2))


@given(curves)
def test_risks_are_ordered_and_in_range(values: list[float]) -> None:
    curve = points(values)
    deepest, risk, lost = max_drawdown(curve), long_term_risk(curve), area_lost(curve)
    assert deepest is not None and risk is not None and lost is not None
    assert 0 <= lost <= risk + 1e-12 <= deepest + 2e-12 <= 1 + 2e-12
    worst_change = short_term_risk(curve)
    assert worst_change is not None and worst_change <= deepest + 1e-12
    kept, mean = retention(curve), mean_over_time(curve)
    assert kept is None or 0 <= kept <= 1  # also in the last bit: the best is one of the means
    assert mean is not None and min(values) - 1e-12 <= mean <= max(values) + 1e-12


@given(curves)
def test_a_rising_curve_has_no_drawdown(values: list[float]) -> None:
    curve = points(sorted(values))
    assert max_drawdown(curve) == area_lost(curve) == long_term_risk(curve) == 0
    assert retention(curve) == (pytest.approx(1) if max(values) > 0 else None)


@given(curves, curves)
def test_the_deepest_fall_is_never_forgotten(values: list[float], more: list[float]) -> None:
    before, after = max_drawdown(points(values)), max_drawdown(points(values + more))
    assert before is not None and after is not None and after >= before


@given(curves, st.integers(-8, 8), st.sampled_from([0.5, 2.0, 4.0]))
def test_shifts_and_scales(values: list[float], shift: int, scale: float) -> None:
    moved = points([scale * value + shift for value in values])
    for number in (max_drawdown, area_lost, short_term_risk, long_term_risk, slope):
        before, after = number(points(values)), number(moved)
        assert before is not None and after == pytest.approx(scale * before, abs=1e-9)


@given(curves.filter(lambda values: len(values) > 2), st.integers(-3, 3))
def test_a_trend_is_no_dispersion(values: list[float], trend: int) -> None:
    steeper = points([value + trend * step for step, value in enumerate(values)])
    before, after = dispersion_across_time(points(values)), dispersion_across_time(steeper)
    assert before is not None and after == pytest.approx(before, abs=1e-9)


@given(curves)
def test_slope_agrees_with_polyfit(values: list[float]) -> None:
    steps = np.arange(len(values)) * 3 + 1
    expected = 100 * np.polyfit(steps, values, 1)[0]
    assert slope(points(values, steps.tolist())) == pytest.approx(expected, abs=1e-9)


@given(curves, rates, rates)
def test_a_higher_level_takes_no_less(values: list[float], one: float, other: float) -> None:
    low, high = (step_to_reach(points(values), level) for level in sorted((one, other)))
    assert high is None or (low is not None and low <= high)


@given(curves, st.sampled_from([0.0, 0.25, 0.5, 0.95, 1.0]))
def test_upper_quantile_is_numpys_on_finite_values(values: list[float], share: float) -> None:
    expected = float(np.quantile(values, share))
    assert upper_quantile(points(values), share) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.just(0.1) | rates, min_size=2, max_size=25), st.sampled_from([0.05, 0.1, 0.5]))
def test_a_tail_is_never_empty(values: list[float], tail: float) -> None:
    risk = short_term_risk(points(values), tail)
    assert risk is not None and math.isfinite(risk)
