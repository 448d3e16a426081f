"""Curves: thinning of long ones, and where a training run collapsed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from benchmark.logs.curves import Points, RunCurves
from benchmark.stability.runs import run_stability
from leaderboard.board.curves import MAX_POINTS, seed_curves, thinned
from tests.support.board_rows import training_run


def points(values: list[float]) -> Points:
    return Points(np.arange(len(values)), np.array(values, np.float64))


def test_a_short_curve_stays() -> None:
    curve = points([0.5] * MAX_POINTS)
    assert thinned(curve) is curve


def test_peaks_and_gaps_stay() -> None:
    # Between the ends: 1 5 2 | 3 9 4 | 0 7 6, of which the minimum and maximum are kept.
    curve = thinned(points([8.0, 1, 5, 2, 3, 9, 4, 0, 7, 6, 8]), most=8)
    assert curve.steps.tolist() == [0, 1, 2, 4, 5, 7, 8, 10]
    assert curve.values.tolist() == [8, 1, 5, 3, 9, 0, 7, 8]


def test_what_is_not_finite_stays_beside_the_peak() -> None:
    curve = thinned(points([0.0, 1, math.nan, 3, math.inf, 2, 0]), most=4)
    assert curve.steps.tolist() == [0, 2, 3, 6]


@given(
    hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(width=32)),
    st.integers(4, 20),
)
def test_thinning(values: np.ndarray, most: int) -> None:
    curve = Points(np.arange(values.size), values)
    kept = thinned(curve, most)
    assert kept.steps.size <= max(most, 4)
    assert (kept.steps[0], kept.steps[-1]) == (0, values.size - 1)
    np.testing.assert_array_equal(kept.values, values[kept.steps])
    finite = np.isfinite(values)
    assert np.isfinite(kept.values).all() == finite.all()
    if finite.any():
        assert np.nanmax(np.where(np.isfinite(kept.values), kept.values, np.nan)) == (
            values[finite].max()
        )


def test_the_curves_of_a_training() -> None:
    run = training_run("grpo", 3, 1.0, 100, noise=0)
    stability = run_stability(run)
    curves = seed_curves(run, stability, "sokoban/builtin")
    assert (curves.seed, curves.panel, curves.last_step) == (3, "sokoban/builtin", 200)
    assert curves.collapsed is True
    assert stability.collapse is not None
    assert curves.collapse_step == stability.collapse.step
    assert [series.name for series in curves.series] == [
        "success",
        "kl_init",
        "grad_norm",
        "entropy",
        "format",
    ]
    success = curves.of("success")
    assert success is not None
    assert success.steps == tuple(range(0, 201, 5))
    assert success.values == tuple(run.curves["validation/success"].values.tolist())


def test_a_training_that_was_not_measured() -> None:
    entropy = Points(np.array([1, 2]), np.array([0.5, math.nan]))
    run = RunCurves("grpo", "arlarena-bench", "grpo", 0, {"policy/entropy": entropy})
    curves = seed_curves(run, run_stability(run), None, stopped="nothing to learn from")
    assert (curves.collapse_step, curves.collapsed) == (None, None)
    assert curves.stopped == "nothing to learn from"
    assert curves.of("success") is None
    (series,) = curves.series
    assert series.values[0] == 0.5
    assert math.isnan(series.values[1])


def test_validations_of_the_panel_that_counts_as_success() -> None:
    run = RunCurves(
        "grpo",
        "arlarena-bench",
        "grpo",
        0,
        {
            f"validation/{name}@{panel}": Points(np.array([0, 1]), np.array([value, value]))
            for panel, value in (("b", 0.25), ("a", 0.75))
            for name in ("success", "format_ok")
        },
    )
    curves = seed_curves(run, run_stability(run, "validation/success@a"), "sokoban/a")
    values = {series.name: series.values for series in curves.series}
    assert values == {"success": (0.75, 0.75), "format": (0.75, 0.75)}


def test_a_run_without_a_seed() -> None:
    run = RunCurves("grpo", "trl", "grpo", None, {})
    with pytest.raises(ValueError, match="grpo has no seed"):
        seed_curves(run, run_stability(run), None)


def test_totals_and_signals_are_kept() -> None:
    updates = np.array([1, 2, 3])
    curves = {"ratio/p99": Points(updates, np.array([1.1, 1.2, 1.3]))}
    run = RunCurves("a", "arlarena-bench", "grpo", 0, curves,
                    tokens=Points(updates, np.array([10.0, 30, 60])))  # fmt: skip
    found = seed_curves(run, run_stability(run), None)
    kept = {each.name: (each.steps, each.values) for each in found.series}
    assert kept == {"ratio": ((1, 2, 3), (1.1, 1.2, 1.3)), "tokens": ((1, 2, 3), (10, 30, 60))}
