"""Early warning: limits from healthy runs, a rule chosen on one half, counted on the other."""

import math
from fractions import Fraction

import numpy as np
import pytest

from benchmark.logs.curves import Points
from benchmark.logs.metrics import METRICS
from benchmark.stability.early_warning import (
    SIGNALS,
    SUCCESS,
    Outcome,
    Rule,
    Signal,
    WatchedRun,
    alarm_at,
    chosen_rule,
    comparable,
    first_moves,
    halves,
    outcome,
    rules_of,
    warning_at,
)

KL = Signal("kl_old/clipped_mean")
ENTROPY = Signal("policy/entropy", below=True, relative=True)


def run(
    *values: float, name: str = KL.name, fall: int | None = None, recipe: str = "grpo",
    seed: int = 0, track: str = "stress",
) -> WatchedRun:  # fmt: skip
    curve = Points(np.arange(1, len(values) + 1), np.array(values, np.float64))
    unfallen = None if fall is None else fall - 2
    return WatchedRun(track, recipe, seed, {name: curve}, fall, fall, unfallen)


def test_signals_are_numbers_of_the_log_with_names_of_their_own() -> None:
    assert {signal.name for signal in (*SIGNALS, SUCCESS)} <= METRICS.keys()
    labels = [signal.label for signal in SIGNALS]
    assert len(set(labels)) == len(labels)
    assert ENTROPY.label == "policy/entropy (down)"
    assert KL.label == "kl_old/clipped_mean"
    assert SUCCESS not in SIGNALS


def test_limits_are_the_extremes_of_the_healthy_runs_rounded_outwards() -> None:
    runs = [run(0.1, 0.2211, 0.1), run(0.05), run(0.221), run(9.0, fall=1)]
    assert rules_of(KL, runs) == (Rule(KL, 0.23), Rule(KL, 0.05))
    # Entropy halves and falls to 0.2341 of its first value: 0.23 is further than that.
    lows = [run(2.0, 1.0, 4.0, name=ENTROPY.name), run(1.0, 0.2341, name=ENTROPY.name)]
    assert rules_of(ENTROPY, lows) == (Rule(ENTROPY, 0.23), Rule(ENTROPY, 0.5))
    assert rules_of(KL, [run(9.0, fall=1)]) == ()
    assert rules_of(KL, [run(math.nan), run(0.5, name="ratio/p99")]) == ()


@pytest.mark.parametrize(
    ("values", "at"),
    [
        ([0.1, 0.2, 0.3], 3),  # beyond, not at the limit
        ([0.1, 0.2], None),
        ([0.5, 0.1], 1),
        ([0.1, math.inf], 2),
        ([0.1, math.nan], 2),
    ],
)
def test_an_alarm_is_the_first_value_beyond_the_limit(values: list[float], at: int | None) -> None:
    assert alarm_at(run(*values), Rule(KL, 0.2)) == at


def test_low_and_relative_signals() -> None:
    rule = Rule(ENTROPY, 0.5)
    assert alarm_at(run(2.0, 1.0, 0.9, name=ENTROPY.name), rule) == 3
    assert alarm_at(run(0.2, 4.0, math.inf, name=ENTROPY.name), rule) == 3
    # Without a first value above 0 there is nothing to compare with.
    assert alarm_at(run(0.0, 1.0, name=ENTROPY.name), rule) is None
    assert alarm_at(run(1.0), rule) is None


def test_a_warning_is_at_least_one_update_ahead() -> None:
    rule = Rule(KL, 0.2)
    assert warning_at(run(0.1, 0.3, 0.3, fall=3), rule) == 2
    assert warning_at(run(0.1, 0.1, 0.3, fall=3), rule) is None
    assert warning_at(run(0.1, 0.3), rule) is None


def test_warnings_and_false_alarms_are_counted() -> None:
    runs = [
        run(0.3, 0.1, 0.1, 0.1, fall=4),  # 3 ahead
        run(0.1, 0.1, 0.3, 0.1, fall=4),  # 1 ahead
        run(0.1, 0.1, 0.1, 0.3, fall=4),  # too late
        run(0.1, 0.3),
        run(0.1, 0.1),
        run(0.3, name="ratio/p99"),  # has no such signal
    ]
    assert outcome(Rule(KL, 0.2), runs) == Outcome((1, 3), 1, 3, 3, 1, 3)
    assert Outcome((1, 3), 1, 3, 3, 1, 3).excess == Fraction(1, 3)
    assert Outcome((), 0, 0, 0, 0, 0).excess == 0


def test_the_rule_with_the_most_warnings_over_false_alarms_is_chosen() -> None:
    # One of 2 is warned of beyond 0.4, with no false alarm; beyond 0.1 both are, with 1 of 2. That
    # is 1/2 either way. Leads are 1, and 3 and 1 with a median of 2: the nearer limit.
    runs = [run(0.0, 0.0, 0.5, fall=4), run(0.2, 0.0, 0.0, fall=4), run(0.4), run(0.1)]
    far, near = rules_of(KL, runs)
    assert (far, near) == (Rule(KL, 0.4), Rule(KL, 0.1))
    assert outcome(far, runs) == Outcome((1,), 0, 2, 2, 0, 2)
    assert outcome(near, runs) == Outcome((1, 3), 1, 2, 2, 1, 2)
    assert chosen_rule([far, near], runs) == near
    # With 2 of 3 false alarms it is 1/3, and the farther one still has 1/2.
    assert chosen_rule([far, near], [*runs, run(0.3)]) == far
    # No more warnings than false alarms, as shares: no rule.
    assert chosen_rule([Rule(KL, -1.0), Rule(KL, 1.0)], runs) is None


def test_equal_rules_are_told_apart_by_their_names() -> None:
    other = Signal("ratio/p99")
    curves = {**run(0.5, 0.0).curves, **run(0.5, 0.0, name=other.name).curves}
    runs = [WatchedRun("stress", "grpo", 0, curves, 2, 2), run(0.0)]
    assert chosen_rule([Rule(other, 0.1), Rule(KL, 0.1)], runs) == Rule(KL, 0.1)


def test_who_moved_first_up_to_the_fall() -> None:
    curves = {**run(0.0, 0.3).curves, **run(1.0, 0.4, name=ENTROPY.name).curves}
    rules = [Rule(KL, 0.2), Rule(ENTROPY, 0.5), Rule(Signal("ratio/p99"), 1.0)]
    at_three = WatchedRun("stress", "grpo", 0, curves, 6, 3)
    assert first_moves(at_three, rules) == ((KL.label, ENTROPY.label), 1)
    assert first_moves(WatchedRun("stress", "grpo", 0, curves, 6, 2), rules)[1] == 0
    assert first_moves(WatchedRun("stress", "grpo", 0, curves, 6, 1), rules) == ((), None)
    assert first_moves(at_three, rules[2:]) == ((), None)


def test_tracks_without_a_collapse_are_left_out() -> None:
    runs = [run(1.0, fall=1), run(1.0, seed=1), run(1.0, track="standard")]
    assert comparable(runs) == (runs[0], runs[1])


def test_halves_keep_seeds_together_and_share_both_kinds() -> None:
    fallen = [run(1.0, fall=1, recipe=recipe, seed=seed) for recipe in "abcd" for seed in (0, 1)]
    # One seed with a collapse makes its recipe one of those.
    fallen.append(run(1.0, recipe="a", seed=2))
    held = [run(1.0, recipe=recipe, track=track) for recipe in "efg" for track in ("x", "y")]
    first, second = halves([*fallen, *held])
    pairs = [{(each.track, each.recipe) for each in half} for half in (first, second)]
    assert not pairs[0] & pairs[1]
    assert [sum(recipe in "abcd" for _, recipe in half) for half in pairs] == [2, 2]
    # Three on each of two tracks: 2 and 1 of the first one, 1 and 2 of the other.
    for track, counts in (("x", [2, 1]), ("y", [1, 2])):
        assert [sum(name == track for name, _ in half) for half in pairs] == counts
    drawn = {tuple(map(id, halves([*fallen, *held], draw)[0])) for draw in range(20)}
    assert len(drawn) > 5
    again = halves([*reversed(held), *reversed(fallen)])
    assert [list(map(id, half)) for half in again] == [
        list(map(id, half)) for half in (first, second)
    ]


def test_what_the_curves_say_moves_no_run_to_the_other_half() -> None:
    def names(value: float) -> list[list[str]]:
        runs = [run(value, fall=1, recipe=recipe) for recipe in "abcdef"]
        return [[each.recipe for each in half] for half in halves(runs)]

    assert names(0.0) == names(9.0)
    assert list(map(len, names(0.0))) == [3, 3]
