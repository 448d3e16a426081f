"""Results over the seeds of a recipe, from handwritten runs."""

import dataclasses
import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.logs.curves import RunCurves
from benchmark.stability.runs import run_stability
from benchmark.stability.seeds import ReachedSummary, recipe_stability
from benchmark.stats.bootstrap import BootstrapInterval
from benchmark.stats.intervals import exact
from tasks.errors import UserError
from tests.benchmark.stability.given import points, run

NAME = "validation/success"
RISING = [0.2, 0.4, 0.6, 0.8, 0.8, 0.8]
# Means .2 .3 .4 .6 .6 .4, then .2: half of its gain, and less than half of its best, at 30.
FALLING = [0.2, 0.4, 0.6, 0.8, 0.4, 0.0, 0.2]


def seed(number: int | None, values: list[float], **more: list[float]) -> RunCurves:
    curves = {NAME: points(values, every=5)}
    curves |= {name.replace("__", "/"): points(extra) for name, extra in more.items()}
    tokens = points([100.0 * step for step in range(1, 40)], range(1, 40))
    return run(curves, number, tokens)


def test_three_seeds_by_hand() -> None:
    found = recipe_stability([seed(2, FALLING), seed(0, RISING), seed(1, RISING)])
    assert [one.seed for one in found.runs] == [0, 1, 2]
    assert found.collapse_rate == exact(1, 3)
    assert found.worst_seed == 0.2
    falls = found.numbers["max_drawdown"]
    assert falls.values == pytest.approx((0, 0, 0.8)) and falls.known == 3
    # Of 27 draws, 20 have the median 0, 7 have .8; only one is without 0.
    assert falls.median is not None
    assert dataclasses.astuple(falls.median) == pytest.approx((0, 0, 0.8))
    assert falls.iqm is not None and falls.iqm.value == pytest.approx(0.8 / 3)
    assert falls.worst == pytest.approx(0.8)
    assert found.numbers["final_success"].worst == 0.2
    assert found.numbers["initial_success"].worst is None  # neither direction is better
    assert found.columns == pytest.approx(
        {
            "collapse_rate": 1 / 3,
            "worst_seed": 0.2,
            "max_drawdown": 0.0,
            "retention": 1.0,
            "mismatch_p95": None,
        }
    )


def test_survival_knows_which_runs_were_seen_how_long() -> None:
    found = recipe_stability([seed(0, FALLING), seed(1, RISING), seed(2, [0.5] * 9)])
    curve = found.survival
    assert curve is not None and curve.steps.tolist() == [25, 30, 40]
    # The rising run is last observed at 25: two are at risk when one collapses at 30.
    assert curve.survival.tolist() == [1, 0.5, 0.5]
    assert found.events["collapse"].happened == 1 and found.events["collapse"].known == 3


def test_what_it_took_to_reach_a_level() -> None:
    never = [0.2] * 6
    runs = [seed(0, RISING), seed(1, never), seed(2, [0.6, 0.6, 0.6])]
    found = recipe_stability(runs, levels=(0.75, 0.4)).reached
    # Smoothed, the first has .4 at update 10, .73 at 20, .8 at 25; the last has .6 from the start.
    assert found == (
        ReachedSummary(0.4, 2, 3, 10.0, 1000.0, None),
        ReachedSummary(0.75, 1, 3, None, None, None),
    )


def test_unknown_is_not_the_worst_and_not_left_out() -> None:
    silent = run({}, 2)
    found = recipe_stability([seed(0, RISING), seed(1, FALLING), silent])
    assert found.worst_seed is None and found.dispersion_across_runs is None
    assert found.numbers["final_success"].values == (0.8, 0.2, None)
    assert found.numbers["final_success"].known == 2
    assert found.collapse_rate == exact(1, 2) and found.events["collapse"].known == 2
    nothing = recipe_stability([silent])
    assert set(nothing.columns.values()) == {None} and nothing.survival is None
    assert nothing.events["collapse"].rate is None
    assert [one.known for one in nothing.reached] == [0] * 4


def test_a_single_seed_has_no_spread() -> None:
    found = recipe_stability([seed(None, RISING)])
    assert found.numbers["final_success"].median == BootstrapInterval(0.8, None, None)
    assert found.dispersion_across_runs is None and found.worst_seed == 0.8
    assert found.collapse_rate == exact(0, 1)


def test_a_mismatch_that_overflowed_in_one_seed_is_its_worst() -> None:
    runs = [
        seed(number, RISING, engine__k3=values)
        for number, values in enumerate(([1e-4], [2e-4], [math.inf]))
    ]
    found = recipe_stability(runs).numbers["mismatch_p95"]
    assert found.median == BootstrapInterval(2e-4, 1e-4, math.inf) and found.worst == math.inf


def test_one_seed_counts_once() -> None:
    with pytest.raises(UserError, match="run 1 and run 1 both have seed 1; give each run"):
        recipe_stability([seed(1, RISING), seed(0, RISING), seed(1, FALLING)])
    unknown = recipe_stability([seed(None, RISING), seed(None, FALLING)])  # unknown
    assert len(unknown.runs) == 2
    with pytest.raises(ValueError, match="no runs"):
        recipe_stability([])


def test_seeds_are_judged_on_one_panel() -> None:
    one = run({f"{NAME}@a": points(RISING)}, 0)
    other = run({f"{NAME}@b": points(RISING)}, 1)
    with pytest.raises(UserError, match=r"different panels \(validation/success@a, "):
        recipe_stability([one, other])


def test_another_curve_can_be_named() -> None:
    runs = [seed(0, RISING, rollout__success=FALLING), seed(1, RISING, rollout__success=RISING)]
    assert recipe_stability(runs).worst_seed == 0.8
    assert recipe_stability(runs, "rollout/success").worst_seed == 0.2
    with pytest.raises(KeyError):
        recipe_stability([*runs, seed(2, RISING)], "rollout/success")


@settings(max_examples=20)
@given(
    st.lists(
        st.lists(st.integers(0, 20).map(lambda n: n / 20), min_size=1, max_size=12),
        min_size=1,
        max_size=6,
    ),
    st.randoms(),
)
def test_the_order_of_the_seeds_moves_nothing(curves: list[list[float]], random: Random) -> None:
    runs = [seed(number, values) for number, values in enumerate(curves)]
    found = recipe_stability(runs, resamples=200)
    again = recipe_stability(random.sample(runs, len(runs)), resamples=200)
    assert found.columns == again.columns and found.numbers == again.numbers
    assert found.runs == again.runs == tuple(run_stability(one) for one in runs)
    finals = [one.final_success for one in found.runs if one.final_success is not None]
    assert found.worst_seed == min(finals)
    events = [one.collapse for one in found.runs if one.collapse is not None]
    assert found.events["collapse"].happened == sum(event.happened for event in events)
