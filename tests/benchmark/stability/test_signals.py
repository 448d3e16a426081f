"""Warning signs in the updates, calculated by hand."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.stability.signals import (
    degenerate_step,
    entropy_baseline,
    entropy_collapse_step,
    entropy_explosion_step,
    peak,
    spikes_of,
)
from tests.benchmark.stability.given import points

NAN, INF = math.nan, math.inf
norms = st.lists(st.integers(0, 60).map(lambda n: n / 4), max_size=90)


def spikes(values: list[float]) -> list[int]:
    return [int(step) for step in spikes_of(points(values)).steps]


def test_a_spike_is_far_above_the_median_of_what_came_before() -> None:
    # Of 1 to 10: median 5.5, median distance 2.5, limit 5.5 + 6 * 1.4826 * 2.5 = 27.739.
    history = [float(value) for value in range(1, 11)]
    assert spikes([*history, 27.7]) == []
    assert spikes([*history, 27.8]) == [10]
    assert spikes_of(points([*history, 27.8])).per_100 == 100
    assert spikes_of(points([*history, 27.8, 1.0, 2.0, 3.0])).per_100 == 25


def test_only_the_last_fifty_count() -> None:
    # Of 25 ones and 25 threes: median 2, median distance 1, limit 10.8956.
    recent = [1.0, 3.0] * 25
    assert spikes([1000.0] * 10 + recent + [10.8]) == []
    assert spikes([1000.0] * 10 + recent + [10.9]) == [60]


def test_spikes_do_not_hide_those_after_them() -> None:
    calm = [1.0, 2.0, 3.0, 4.0, 5.0] * 4
    assert spikes([*calm, 100.0, *calm, 100.0, 100.0]) == [20, 41, 42]


def test_constants_have_no_spikes_but_what_rises_above_them() -> None:
    assert spikes([0.1] * 60) == []
    assert spikes([0.3] * 20 + [0.1 + 0.2]) == []  # the same except for rounding
    assert spikes([0.5] * 20 + [0.51, 0.5]) == [20]
    assert spikes([0.0] * 20) == []


def test_a_short_history_says_nothing() -> None:
    few = spikes_of(points([1.0] * 9 + [1000.0]))
    assert (few.steps.size, few.judged, few.per_100) == (0, 0, None)
    assert spikes_of(points([])).per_100 is None
    assert spikes_of(points([NAN] * 30)).per_100 is None


def test_norms_that_are_not_finite_are_passed_over() -> None:
    history = [float(value) for value in range(1, 11)]
    assert spikes([NAN, *history, INF, 27.8, NAN]) == [12]


@given(norms)
def test_spikes_follow_the_formula(values: list[float]) -> None:
    expected = []
    for place in range(10, len(values)):
        window = values[max(0, place - 50) : place]
        middle = statistics.median(window)
        mad = statistics.median(abs(value - middle) for value in window)
        if values[place] > middle + 6 * 1.4826 * mad + 1e-9 * middle:
            expected.append(place)
    found = spikes_of(points(values))
    assert found.steps.tolist() == expected
    assert found.judged == max(0, len(values) - 10)


@given(norms, st.sampled_from([0.25, 2.0, 1024.0]))
def test_spikes_do_not_depend_on_the_unit(values: list[float], scale: float) -> None:
    assert spikes([scale * value for value in values]) == spikes(values)


def test_a_step_of_the_rounding_is_no_spike() -> None:
    # Median 0.004 with distance 0; 0.004 + 6 * 1.4826 * 0.001 + 0.001 = 0.0138956.
    rounded = [0.004] * 20 + [0.005, 0.004, 0.003, 0.013, 0.014]
    assert spikes(rounded) == [20, 23, 24]
    assert spikes_of(points(rounded), 0.001).steps.tolist() == [24]
    calm = [round(0.0042 + 0.0004 * math.sin(7 * number), 3) for number in range(200)]
    assert set(calm) == {0.004, 0.005}
    assert len(spikes(calm)) > 20
    assert spikes_of(points(calm), 0.001).per_100 == 0


@given(norms, st.sampled_from([0.5, 1.0, 2.0, 8.0]))
def test_what_is_a_spike_in_rounded_norms_is_one(values: list[float], unit: float) -> None:
    rounded = [unit * round(value / unit) for value in values]
    sure = spikes_of(points(rounded), unit)
    assert set(sure.steps.tolist()) <= set(spikes(values))
    assert sure.judged == spikes_of(points(values)).judged


def test_peak_is_the_largest_by_the_median() -> None:
    assert peak(points([1.0, 2.0, 3.0, 20.0, INF, NAN])) == 8  # 20 by 2.5
    assert peak(points([4.0])) == 1
    assert peak(points([0.0, 0.0, 7.0])) is None
    assert peak(points([NAN])) is None
    assert peak(points([])) is None


def test_entropy_is_held_against_its_first_ten_updates() -> None:
    first = [0.5, 1.5] * 5  # mean 1
    assert entropy_baseline(points([*first, 9.0])) == 1
    assert entropy_collapse_step(points([*first, 0.2, 0.3, 0.19, 0.1])) == 12
    assert entropy_collapse_step(points([*first, 0.2])) is None
    assert entropy_explosion_step(points([*first, 3.0, 3.1, 0.1])) == 11
    assert entropy_explosion_step(points([*first, 3.0])) is None
    # The first ten are not judged, and non-finite values do not count among them.
    assert entropy_collapse_step(points([0.0, *[1.0] * 12])) is None
    assert entropy_collapse_step(points([NAN, *first, INF, 0.1], range(5, 18))) == 17


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 9 + [0.0], [0.0] * 10 + [1.0], [NAN] * 20])
def test_entropy_without_a_baseline_says_nothing(values: list[float]) -> None:
    assert entropy_baseline(points(values)) is None
    assert entropy_collapse_step(points(values)) is None
    assert entropy_explosion_step(points(values)) is None


def test_degenerate_text_is_most_responses_three_times() -> None:
    assert degenerate_step(points([0.0, 0.6, 0.7, 0.8], every=2)) == 2
    assert degenerate_step(points([0.0, 0.6, 0.7, 0.5, 0.8, 0.8])) is None
    assert degenerate_step(points([0.6, NAN, 0.7, 0.8])) == 0
    assert degenerate_step(points([0.9, 0.9])) is None
    assert degenerate_step(points([])) is None
