"""The rules of collapse, on curves calculated by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.logs.curves import Points, RunCurves
from benchmark.stability.collapse import (
    Curve,
    collapse_step,
    diverged,
    fall_step,
    format_collapse_step,
    halved,
    halved_on,
    reward_std_stop,
    running_best,
    should_stop,
    smoothed,
    success_stop,
)

NAN = math.nan
CURVES = st.lists(st.integers(0, 20).map(lambda n: n / 20), max_size=25)


def test_smoothed_is_the_mean_of_the_last_three_values() -> None:
    assert smoothed([0.25, 0.75, 0.5, 1.0, 0.0]) == [0.25, 0.5, 0.5, 0.75, 0.5]
    assert smoothed([0.25, 0.75], window=1) == [0.25, 0.75]
    assert smoothed([]) == []


def test_what_was_not_measured_is_passed_over() -> None:
    assert smoothed([None, 0.25, NAN, 0.75, None, 0.5, 1.0]) == [
        None, 0.25, None, 0.5, None, 0.5, 0.75,
    ]  # fmt: skip
    assert running_best([None, 0.25, NAN, 0.75, 0.5]) == [None, 0.25, 0.25, 0.75, 0.75]


@pytest.mark.parametrize(
    ("success", "is_halved"),
    [
        ([0.2, 0.6, 0.6, 0.3], True),
        ([0.2, 0.6, 0.6, 0.31], False),
        ([0.2, 0.6, 0.1, 0.6], False),
        ([0.2, 0.6, None, 0.3, NAN], True),  # the last measured one
        ([0.0, 0.1, 0.05], True),
        ([0.0, 0.09, 0.0], False),  # half of so little means nothing
        ([], False),
    ],
)
def test_a_late_loss_is_halved(success: list[float | None], is_halved: bool) -> None:
    assert halved(success) is is_halved


def test_a_run_is_halved_on_some_of_its_panels() -> None:
    curves = {
        "validation/success": [0.5, 0.4],
        "validation/success@sokoban.builtin": [0.6, 0.3],
        "validation/success@tir_math.builtin": [0.4, 0.5],
        "validation/format_ok": [1.0, 0.1],
    }
    run = RunCurves(
        "a", "arlarena-bench", "grpo", 0,
        {name: Points(np.array([0, 3]), np.array(each)) for name, each in curves.items()},
    )  # fmt: skip
    assert halved_on(run) == ("sokoban.builtin",)


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one value, not 0"):
        smoothed([0.5], window=0)


@pytest.mark.parametrize(
    ("curve", "step", "why"),
    [
        ([], None, "no point"),
        ([0.5], None, "one point"),
        ([None, NAN], None, "nothing measured"),
        ([0.0] * 20, None, "flat at 0: nothing to lose"),
        ([0.4] * 20, None, "flat"),
        ([0.1, 0.3, 0.5, 0.7, 0.9], None, "rising"),
        # Means .2 .3 .4 .6 .6 .5 .3 .2 .1: half of the gain of .4 at .4, half of the best at .3.
        ([0.2, 0.4, 0.6, 0.8, 0.4, 0.3, 0.2, 0.1, 0.0], 6, "both rules at once"),
        # Means .4 .5 .6 .8 .8 .6 .6 .6: .6 is half of the gain of .4, more than half of the best.
        ([0.4, 0.6, 0.8, 1.0, 0.6, 0.2, 1.0, 0.6], 5, "half of the gain, three times"),
        # Means .5, .55, .6, .7, .7, .6, .6, .6: .6 is half of the gain of .2.
        ([0.5, 0.6, 0.7, 0.8, 0.6, 0.4, 0.8, 0.6], 5, "ties count as lost"),
        # As above, with only two such means before the end, and before a recovery.
        ([0.5, 0.6, 0.7, 0.8, 0.6, 0.4, 0.8], None, "two evaluations are too few"),
        ([0.5, 0.6, 0.7, 0.8, 0.6, 0.4, 0.8, 0.7, 0.6, 0.8], None, "recovered in time"),
        # Means .5 .55 .6 .7: gains of up to .09 are not enough, and .5 is more than .59 / 2.
        ([0.5, 0.59, 0.59, 0.59, 0.5, 0.5, 0.5, 0.5, 0.5], None, "it had not learned"),
        # Means .6 .6 .6 .4 .2 .0: half of the best at .3.
        ([0.6, 0.6, 0.6, 0.0, 0.0, 0.0], 4, "a good init that falls"),
        ([0.5, 0.0], 1, "a mean of .25 is half of .5"),
        ([0.5, 0.1], None, "a mean of .3 is not"),
        ([0.09, 0.0, 0.0, 0.0, 0.0], None, "best below .10"),
        ([0.10, 0.0, 0.0], 1, "best of .10"),
    ],
)
def test_collapse_step(curve: Curve, step: int | None, why: str) -> None:
    assert collapse_step(curve) == step, why


@pytest.mark.parametrize(
    ("curve", "fall", "why"),
    [
        # Means .6 .3 .2 .0: the collapse is at 1.
        ([0.6, 0.0, 0.0, 0.0], 1, "seen at once"),
        # Means .3 .25 .2 .1: half of the best is .15, below it since 2.
        ([0.3, 0.2, 0.1, 0.0], 2, "the smoothed curve lags by one"),
        # Means .3 .3 .3 .2 .1: the collapse is at 4, the first value below .15 at 3.
        ([0.3, 0.3, 0.3, 0.0, 0.0], 3, "and here, too"),
        # Half of the gain at .4 (see below): .5 is above, .2 is not.
        ([0.3, 0.4, 0.5, 0.5, 0.5, 0.2, 0.05], 5, "half of the gain"),
        ([0.6, None, NAN, 0.0], 3, "positions count what was not measured"),
        ([0.5, 0.5], None, "no collapse, no fall"),
    ],
)
def test_the_fall_is_the_first_value_that_shows_the_loss(
    curve: Curve, fall: int | None, why: str
) -> None:
    assert fall_step(curve) == fall, why


@given(CURVES)
def test_a_fall_is_at_most_two_values_before_the_collapse(curve: list[float]) -> None:
    step, fall = collapse_step(curve), fall_step(curve)
    assert (fall is None) == (step is None)
    if step is not None and fall is not None:
        assert step - 2 <= fall <= step


def test_without_the_init_nobody_knows_what_was_gained() -> None:
    """From .2 to .8 and back to .45: half of the gain is lost, but not half of the best."""
    curve = [0.2, 0.8, 0.8, 0.8, 0.45, 0.45, 0.45, 0.45, 0.45]
    assert collapse_step(curve) is not None
    assert collapse_step(curve, from_start=False) is None
    fallen = [*curve, 0.0, 0.0, 0.0]
    assert collapse_step(fallen, from_start=False) is not None


def test_one_deep_point_does_not_move_the_step_of_the_other_rule() -> None:
    # Means .3 .35 .4 .47 .5 .4 .25: half of the gain at .4, half of the best at .25. The second
    # rule holds at 6; if the next mean is also at most .4, the stretch of the first begins at 5.
    falling = [0.3, 0.4, 0.5, 0.5, 0.5, 0.2, 0.05]
    assert collapse_step(falling) == 6
    assert collapse_step([*falling, 1.0]) == 6
    assert collapse_step([*falling, 0.5]) == 5


@given(CURVES)
def test_gaps_do_not_change_the_rule(curve: list[float]) -> None:
    gaps = [gap for value in curve for gap in (value, None, NAN)]
    step = collapse_step(curve)
    assert collapse_step(gaps) == (None if step is None else 3 * step)


@given(CURVES)
def test_a_rising_curve_never_collapses(curve: list[float]) -> None:
    assert collapse_step(sorted(curve)) is None
    assert format_collapse_step(sorted(curve)) is None


@given(CURVES, CURVES)
def test_a_collapse_is_not_undone_by_what_follows(curve: list[float], more: list[float]) -> None:
    step = collapse_step(curve)
    if step is not None:
        later = collapse_step(curve + more)
        # A stretch of the first rule may turn out to start up to two evaluations earlier.
        assert later is not None and step - 2 <= later <= step


def test_format_collapse_is_below_half_of_the_best_three_times() -> None:
    assert format_collapse_step([0.9, 1.0, 0.49, 0.4, 0.3]) == 2
    assert format_collapse_step([0.9, 1.0, 0.5, 0.5, 0.5]) is None
    assert format_collapse_step([0.9, 1.0, 0.4, 0.4, 0.6, 0.4]) is None
    assert format_collapse_step([0.9, None, 1.0, 0.4, NAN, 0.4, 0.4]) == 3
    assert format_collapse_step([0.0, 0.0, 0.0, 0.0]) is None
    assert format_collapse_step([]) is None


def test_reward_std_is_held_against_its_first_ten_updates() -> None:
    first = [0.4, 0.6] * 5  # mean .5, limit .05
    assert reward_std_stop([*first, *[0.049] * 10]) == 19
    assert reward_std_stop([*first, *[0.049] * 9]) is None
    assert reward_std_stop([*first, *[0.05] * 20]) is None
    assert reward_std_stop([*first, *[0.01] * 9, 0.3, *[0.01] * 10]) == 29
    assert reward_std_stop([None, *first, None, *[0.01] * 10]) == 21
    assert reward_std_stop([0.0] * 40) is None
    assert reward_std_stop([0.5] * 9 + [0.0]) is None


def test_success_stop_needs_five_validations_below_one_percent() -> None:
    assert success_stop([0.3, 0.0, 0.009, 0.0, 0.0, 0.0]) == 5
    assert success_stop([0.3, 0.0, 0.0, 0.01, 0.0, 0.0, 0.0]) is None
    assert success_stop([0.0, None, 0.0, 0.0, NAN, 0.0, 0.0]) == 6
    assert success_stop([0.0] * 4) is None


def test_should_stop_says_why() -> None:
    steady = [0.5] * 8
    assert should_stop(steady, [1.0] * 8, [0.4] * 30) is None
    assert should_stop([]) is None
    assert should_stop([0.6, 0.6, 0.6, 0.0, 0.0, 0.0]) == (
        "success collapsed at validation 4: 0.0% over the last 3, 60.0% at best"
    )
    assert should_stop(steady, [1.0, 0.9, 0.3, 0.2, 0.1]) == (
        "valid actions collapsed at validation 2: 10.0%, 100.0% at best"
    )
    assert should_stop([0.005] * 5) == "success was below 1% in 5 validations in a row"
    reason = should_stop(steady, [], [0.5] * 10 + [0.0] * 10)
    assert reason is not None and "below 10% of that of the first 10 updates" in reason


@pytest.mark.parametrize(
    ("made", "skipped", "ended"),
    [
        ((4, 4, 0), (0, 0, 3), True),
        ((4, 2, 0), (0, 2, 1), True),
        ((4, 4, 0), (0, 0, 2), False),
        ((0, 4), (9, 2), False),
        ((), (), False),
        ((None, None), (None, None), False),
    ],
)
def test_steps_that_are_not_finite_end_a_run(
    made: tuple[float | None, ...], skipped: tuple[float | None, ...], ended: bool
) -> None:
    assert (diverged(made, skipped, 3) is not None) == ended
