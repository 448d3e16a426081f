"""Results of one run: every number from handwritten curves."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.logs.curves import Points, run_curves_of
from benchmark.logs.training_log import read_training_log
from benchmark.stability.runs import Reached, run_stability
from benchmark.stats.survival import EventOutcome
from tests.benchmark.stability.given import points, run
from tests.support.training.logs import (
    run_lines,
    start_line,
    update_line,
    validation_line,
    write_log,
)

NAN, INF = math.nan, math.inf
floats = st.floats(-3e38, 3e38) | st.sampled_from([NAN, INF, -INF])


def from_update_1(values: list[float]) -> Points:
    return points(values, range(1, len(values) + 1))


def hand_made() -> Mapping[str, Points]:
    return {
        # Means .2 .3 .4 .6 .6 .5 .3 .2 .1: collapsed at the seventh evaluation.
        "validation/success": points([0.2, 0.4, 0.6, 0.8, 0.4, 0.3, 0.2, 0.1, 0.0], every=5),
        "validation/action_ok": points([1.0, 1.0, 0.9, 0.9, 0.4, 0.4, 0.4, 0.2, 0.1], every=5),
        "rollout/repeated": from_update_1([0.0] * 30 + [0.25] + [0.75] * 10),
        "policy/entropy": from_update_1([0.5] * 20 + [0.09] * 21),
        "policy/grad_norm": from_update_1([1.0] * 20 + [NAN, 5.0] + [1.0] * 19),
        "kl_init/mean": from_update_1([0.01 * step for step in range(1, 42)]),
        "kl_old/mean": from_update_1([0.001] * 40 + [INF]),
        "engine/k3": from_update_1([1e-4] * 38 + [NAN, NAN, NAN]),
    }


def test_a_run_that_collapses_in_every_way() -> None:
    tokens = from_update_1([100.0 * step for step in range(1, 42)])
    found = run_stability(run(hand_made(), seed=3, tokens=tokens), levels=(0.5, 0.3))
    assert (found.name, found.source, found.recipe, found.seed) == (
        "run 3", "arlarena-bench", "grpo", 3,
    )  # fmt: skip
    assert (found.success_curve, found.valid_curve) == (
        "validation/success",
        "validation/action_ok",
    )
    assert (found.evaluations, found.last_step) == (9, 41)
    assert found.events == {
        "collapse": EventOutcome(30, True),
        "format_collapse": EventOutcome(20, True),
        "degenerate_text": EventOutcome(32, True),
        "entropy_collapse": EventOutcome(21, True),
        "entropy_explosion": EventOutcome(41, False),
    }
    assert found.reached == (Reached(0.3, 5, 500.0, None), Reached(0.5, 15, 1500.0, None))
    assert found.numbers == pytest.approx(
        {
            "initial_success": 0.2,
            "final_success": 0.0,
            "best_success": 0.6,
            "mean_success": (0.1 + 0.4 + 0.6 + 0.8 + 0.4 + 0.3 + 0.2 + 0.1) / 8,
            "max_drawdown": 0.8,
            "retention": 1 / 6,
            "area_lost": (0.4 + 0.5 + 0.6 + 0.7 + 0.8) / 9,
            # Changes .2 .2 .2 -.4 -.1 -.1 -.1 -.1; their 10% quantile is -.19.
            "short_term_risk": 0.4 / 5,
            # Drawdowns 0 0 0 0 .4 .5 .6 .7 .8; their 90% quantile is .72.
            "long_term_risk": 0.8,
            "dispersion_across_time": 0.3 / 5,  # quartiles -.1 and .2
            "late_std": 0.05,  # .1 and 0
            "kl_init_final": 0.365,
            "kl_init_slope": 1.0,
            "kl_old_p95": 0.001,
            "grad_spikes": 100 / 30,
            "grad_peak": 5.0,
            "grad_nonfinite": 1,
            "entropy_kept": 0.18,
            "repeated_max": 0.75,
            "mismatch_k3": 1e-4,
            "mismatch_p95": INF,  # 3 of 41 updates overflowed
        }
    )


def test_a_log_that_says_nothing() -> None:
    found = run_stability(run({}))
    assert set(found.numbers.values()) == {None} and set(found.events.values()) == {None}
    assert (found.success_curve, found.valid_curve, found.last_step) == (None, None, None)
    assert found.reached == () and found.evaluations == 0


@pytest.mark.parametrize("values", [[], [NAN, INF]])
def test_curves_without_a_finite_point_say_nothing_of_success(values: list[float]) -> None:
    found = run_stability(run({"validation/success": points(values)}))
    assert set(found.numbers.values()) == {None} and set(found.events.values()) == {None}
    assert found.reached == () and found.success_curve == "validation/success"


def test_one_evaluation_is_known_and_nothing_more() -> None:
    found = run_stability(run({"validation/success": points([0.5])}), levels=(0.5, 0.6))
    known = {name: value for name, value in found.numbers.items() if value is not None}
    assert known == {"initial_success": 0.5, "final_success": 0.5, "best_success": 0.5}
    assert found.collapse is None  # neither collapsed nor known to be stable
    assert found.reached == (Reached(0.5, 0, None, None), Reached(0.6, None, None, None))


def test_a_flat_run_is_censored_at_its_end() -> None:
    flat = {"validation/success": points([0.5] * 6, every=10)}
    found = run_stability(run(flat))
    assert found.collapse == EventOutcome(50, False)
    assert (found.max_drawdown, found.retention, found.area_lost) == (0, 1, 0)


@pytest.mark.parametrize(
    ("values", "collapse"),
    [
        ([0.5, 0.5, 0.2], None),  # means .5 .5 .4: the init hides the loss
        ([0.9, 0.0, 0.0], EventOutcome(10, True)),
        ([0.5, 0.5, NAN, 0.2], None),
        ([0.5, 0.5, 0.5, 0.2], EventOutcome(30, False)),
    ],
)
def test_three_evaluations_can_show_a_collapse_but_not_that_there_is_none(
    values: list[float], collapse: EventOutcome | None
) -> None:
    curve = points(values, every=10)
    assert run_stability(run({"validation/success": curve})).collapse == collapse


def test_gaps_do_not_move_the_collapse() -> None:
    curve = hand_made()["validation/success"]
    values, steps = curve.values.tolist(), curve.steps.tolist()
    holes = points(
        [v for value in values for v in (value, NAN)],
        [s for step in steps for s in (step, step + 1)],
    )
    assert run_stability(run({"validation/success": holes})).collapse == EventOutcome(30, True)


def test_a_log_that_begins_later_does_not_know_its_init() -> None:
    found = run_stability(run({"validation/success": points([0.5, 0.6], [10, 20])}))
    assert found.initial_success is None and found.final_success == 0.6


def test_the_first_panel_counts_unless_another_is_named() -> None:
    curves = {
        "validation/success@builtin": points([0.2, 0.4]),
        "validation/action_ok@builtin": points([0.9, 0.8]),
        "validation/success@two_boxes": points([0.1, 0.3]),
        "validation/action_ok@two_boxes": points([0.7, 0.6]),
    }
    first = run_stability(run(curves))
    assert (first.success_curve, first.final_success) == ("validation/success@builtin", 0.4)
    assert first.valid_curve == "validation/action_ok@builtin"
    other = run_stability(run(curves), "validation/success@two_boxes")
    assert (other.valid_curve, other.final_success) == ("validation/action_ok@two_boxes", 0.3)
    with pytest.raises(KeyError):
        run_stability(run(curves), "validation/success@three_boxes")


def test_success_in_training_counts_only_if_it_is_named() -> None:
    curves = {
        "rollout/success": from_update_1([0.1, 0.5]),
        "rollout/format_ok": from_update_1([1.0]),
    }
    assert run_stability(run(curves)).final_success is None
    named = run_stability(run(curves), "rollout/success")
    assert (named.final_success, named.success_curve) == (0.5, "rollout/success")
    assert named.valid_curve == "rollout/format_ok" and named.format_collapse is None


def test_a_log_of_our_own(tmp_path: Path) -> None:
    path = write_log(tmp_path, run_lines(updates=60, collapse_at=40))
    found = run_stability(run_curves_of(read_training_log(path)))
    assert found.collapse == EventOutcome(42, True) and found.final_success == 0
    assert found.evaluations == 61 and found.last_step == 60
    # Tokens of 20 updates: 9,000, and 50 more each time.
    reached = next(one for one in found.reached if one.level == 0.5)
    assert reached.updates is not None and reached.seconds == 5 * reached.updates
    updates = reached.updates
    assert reached.tokens == 9000 * updates + 50 * updates * (updates + 1) / 2


def test_updates_that_overflowed_are_counted(tmp_path: Path) -> None:
    lines = [start_line(), validation_line(0)]
    lines += [update_line(n, {"policy/grad_norm": 1.0, "engine/k3": 1e-5}) for n in range(1, 10)]
    lines.append(update_line(10, nonfinite=["policy/grad_norm", "engine/k3"]))
    found = run_stability(run_curves_of(read_training_log(write_log(tmp_path, lines))))
    assert (found.grad_nonfinite, found.grad_peak, found.grad_spikes) == (1, 1.0, None)
    assert (found.mismatch_k3, found.mismatch_p95) == (1e-5, INF)


@given(
    st.dictionaries(
        st.sampled_from(sorted(hand_made())), st.lists(floats, max_size=70).map(points), max_size=8
    )
)
def test_no_curve_is_too_strange(curves: dict[str, Points]) -> None:
    found = run_stability(run(curves))
    for name, value in found.numbers.items():
        assert value is None or not math.isnan(value), name
