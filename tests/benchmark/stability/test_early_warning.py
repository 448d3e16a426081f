"""Early warning: limits from healthy runs, a rule chosen on one half and evaluated on the other."""

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
    alarms,
    chosen_rule,
    comparable,
    false_alarm,
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
    # Entropy halves and falls to 0.2341 of its first value: 0.23 is farther than that.
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
    # Without a first value above 0 there is no reference.
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
        run(0.3, name="ratio/p99"),  # does not have this signal
    ]
    found = outcome(Rule(KL, 0.2), comparable(runs))
    assert found == Outcome((1, 3), 1, 3, 3, Fraction(1), 3)
    assert found.excess == Fraction(1, 3)
    assert Outcome((), 0, 0, 0, Fraction(), 0).excess == 0


def test_false_alarms_count_as_long_as_a_collapsed_run_of_the_track_is_watched() -> None:
    rule = Rule(KL, 0.2)
    fallen = [run(0.1, fall=fall, seed=fall) for fall in (2, 4, 4)]
    elsewhere = run(0.1, fall=9, track="other")
    healthy = [
        run(0.3, 0.1, 0.1, 0.1),
        run(0.1, 0.3, 0.1, 0.1),
        run(0.1, 0.1, 0.1, 0.3),  # after every fall of its track, but not of the other one
        run(0.1, 0.1, 0.1, 0.1),
    ]
    *_, one, two, late, never = known = comparable([*fallen, elsewhere, *healthy])
    shares = [false_alarm(each, rule) for each in (one, two, late, never)]
    # Before the falls at 2, 4 and 4, or only those at 4, as an alarm at a fall is no warning.
    assert shares == [1, Fraction(2, 3), 0, 0]
    assert outcome(rule, known).false_alarms == Fraction(5, 3)
    assert outcome(rule, known[-2:]).false_alarms == 0
    # The falls of the whole track count, also when evaluating a half without them.
    assert outcome(rule, [two]).false_alarms == Fraction(2, 3)
    assert alarms(rule, known) == 3


def test_the_rule_with_the_most_warnings_over_false_alarms_is_chosen() -> None:
    # Beyond 0.4, one of 2 is warned of without a false alarm; beyond 0.1 both, with 1 false alarm
    # of 2. That is 1/2 either way. Leads are 1, and 3 and 1 with a median of 2: the nearer limit
    # wins.
    runs = comparable([run(0.0, 0.0, 0.5, fall=4), run(0.2, 0.0, 0.0, fall=4), run(0.4), run(0.1)])
    far, near = rules_of(KL, runs)
    assert (far, near) == (Rule(KL, 0.4), Rule(KL, 0.1))
    assert outcome(far, runs) == Outcome((1,), 0, 2, 2, Fraction(0), 2)
    assert outcome(near, runs) == Outcome((1, 3), 1, 2, 2, Fraction(1), 2)
    assert chosen_rule([far, near], runs) == near
    # With 2 of 3 false alarms it is 1/3, and the farther limit still has 1/2.
    assert chosen_rule([far, near], comparable([*runs, run(0.3)])) == far
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
    runs = [run(1.0, fall=1), run(1.0, seed=1), run(1.0, fall=3), run(1.0, track="standard")]
    found = comparable(runs)
    assert [(each.track, each.seed, each.fall) for each in found] == [
        ("stress", 0, 1), ("stress", 1, None), ("stress", 0, 3),
    ]  # fmt: skip
    assert {each.falls for each in found} == {(1, 3)}


def test_halves_keep_seeds_together_whatever_the_order_and_the_curves() -> None:
    runs = [run(0.0, fall=1, recipe=recipe, seed=seed) for recipe in "abcdef" for seed in (0, 1)]
    first, second = halves(runs)
    pairs = [{each.recipe for each in half} for half in (first, second)]
    # SHA-256 of '["stress","a"]' starts with a 0 bit, as do those of d and f; the others with 1.
    assert pairs == [{"a", "d", "f"}, {"b", "c", "e"}]
    assert [len(first), len(second)] == [6, 6]
    assert halves(runs[::-1]) == (first, second)
    other = [run(9.0, recipe=recipe) for recipe in "abcdef"]
    assert [{each.recipe for each in half} for half in halves(other)] == pairs
    drawn = {tuple(each.recipe for each in halves(runs, draw)[0]) for draw in range(20)}
    assert len(drawn) > 5


def test_a_run_of_another_pair_moves_no_pair() -> None:
    runs = [run(0.0, fall=1, recipe=recipe) for recipe in "abcdefgh"]
    for draw in (None, 0, 1):
        before = halves(runs, draw)
        for new in "ijkl":
            for fall in (None, 1):
                added = run(0.0, fall=fall, recipe=new, track="a")
                after = halves([*runs, added], draw)
                kept = tuple(tuple(each for each in half if each is not added) for half in after)
                assert kept == before
