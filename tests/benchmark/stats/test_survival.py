"""Survival of runs: by hand, and against scipy with censored data."""

import math
import warnings
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmark.stats.survival import EventOutcome, kaplan_meier

outcomes_of_runs = st.lists(
    st.builds(EventOutcome, st.integers(0, 12), st.booleans()), min_size=1, max_size=30
)


def test_survival_by_hand() -> None:
    runs = [
        EventOutcome(step, happened)
        for step, happened in ((5, True), (2, True), (3, False), (5, False), (4, True))
    ]
    curve = kaplan_meier(runs)
    assert curve.steps.tolist() == [2, 3, 4, 5]
    assert curve.at_risk.tolist() == [5, 4, 3, 2]
    assert curve.happened.tolist() == [1, 0, 1, 1]
    # 4/5, then 2/3 of it, then half of that.
    assert curve.survival == pytest.approx([0.8, 0.8, 1.6 / 3, 0.8 / 3])
    assert [curve.at(step) for step in (0, 1, 2, 3)] == [1, 1, 0.8, 0.8]
    assert curve.at(99) == pytest.approx(0.8 / 3)
    assert curve.median == 5


def test_the_interval_by_hand() -> None:
    # S = 1/2 with V = 1 / (2 * 1): bounds .5 ** exp(+-1.96 * sqrt(.5) / log(2)).
    curve = kaplan_meier([EventOutcome(10, True), EventOutcome(20, False)])
    power = math.exp(1.959964 * math.sqrt(0.5) / math.log(2))
    assert curve.low == pytest.approx([0.5**power] * 2)
    assert curve.high == pytest.approx([0.5 ** (1 / power)] * 2)
    assert curve.median == 10


def test_runs_that_never_collapse_have_no_median() -> None:
    curve = kaplan_meier([EventOutcome(10, False), EventOutcome(30, False)])
    assert curve.survival.tolist() == [1, 1]
    assert np.isnan(curve.low).all() and np.isnan(curve.high).all()
    assert curve.median is None and curve.at(1000) == 1


def test_when_all_collapse_nothing_is_left() -> None:
    curve = kaplan_meier([EventOutcome(3, True)])
    assert curve.survival.tolist() == [0] and curve.median == 3
    assert np.isnan(curve.low).all()


def test_without_runs_there_is_no_survival() -> None:
    with pytest.raises(ValueError, match="no runs"):
        kaplan_meier([])


@given(outcomes_of_runs, st.sampled_from([0.5, 0.9, 0.95]))
def test_survival_agrees_with_scipy(runs: list[EventOutcome], confidence: float) -> None:
    curve = kaplan_meier(runs, confidence)
    times = np.array([run.step for run in runs], float)
    censored = np.array([not run.happened for run in runs])
    reference = stats.ecdf(stats.CensoredData.right_censored(times, censored)).sf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # undefined at 0 and 1, as said
        interval = reference.confidence_interval(confidence, method="log-log")
    assert curve.steps.tolist() == reference.quantiles.tolist()
    assert curve.survival == pytest.approx(reference.probabilities)
    inside = (curve.survival > 0) & (curve.survival < 1)
    assert curve.low[inside] == pytest.approx(interval.low.probabilities[inside])
    assert curve.high[inside] == pytest.approx(interval.high.probabilities[inside])
    assert np.isnan(curve.low[~inside]).all() and np.isnan(curve.high[~inside]).all()


@given(outcomes_of_runs, st.randoms())
def test_the_order_of_the_runs_does_not_matter(runs: list[EventOutcome], random: Random) -> None:
    shuffled = random.sample(runs, len(runs))
    assert kaplan_meier(shuffled).survival.tolist() == kaplan_meier(runs).survival.tolist()


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_runs_of_one_length_give_the_plain_share(collapsed: list[bool]) -> None:
    curve = kaplan_meier([EventOutcome(5 if lost else 9, lost) for lost in collapsed])
    assert curve.at(9) == pytest.approx(1 - sum(collapsed) / len(collapsed))
