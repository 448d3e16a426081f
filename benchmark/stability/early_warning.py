"""Early warning: which number of a log warns of a collapse, by a rule tested on other runs.

The rule of `precursors` compares a run with its own first 5 updates, so it is blind to what falls
as early as update 3. Here a run is compared with runs that did not collapse: a rule raises an alarm
at the first update at which its signal is beyond a limit. One update suffices, since a run can fall
within three.

The limits that are tried are the most extreme values of the healthy runs. On one half of the runs
the rule is chosen that has the highest share of warnings minus share of false alarms; the other
half says how good it is.

Collapsed runs are watched until they fall, so healthy runs must not be watched longer: a false
alarm counts as the share of the collapsed runs of its track that fall after it.

Success warns of nothing: its loss is what a warning should come before. What is computed from
returns (reward, penalty, spread in groups) is success in other units, and so are turns, since an
episode that is not solved runs to its limit. Success of the training episodes is measured all the
same, as `SUCCESS`: a warning that comes no earlier tells nothing new.

Source: this project's definition; the criterion is that of Youden (Cancer 3, 1950, 32-35).
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from benchmark.logs.curves import Points
from benchmark.stability.precursors import first_movers
from benchmark.stats.intervals import Interval
from benchmark.stats.paired import Side, difference
from tasks.seeding import stable_seed

_ROUND: Final = Context(prec=2, rounding=ROUND_CEILING)


@dataclass(frozen=True, slots=True)
class Signal:
    """A number of the updates that may warn.

    Attributes:
        name: In `METRICS`.
        below: An alarm is a low value, not a high one.
        relative: Its multiple of the run's first value counts, where tasks differ in size.
        behavior: Seen in episodes; others are seen in the policy itself.
    """

    name: str
    below: bool = False
    relative: bool = False
    behavior: bool = False

    @property
    def label(self) -> str:
        """What it is called: its name, and where it is watched in both directions which one."""
        both = sum(each.name == self.name for each in SIGNALS) > 1
        return f"{self.name} ({'down' if self.below else 'up'})" if both else self.name


SIGNALS: Final = (
    Signal("kl_old/clipped_mean"),
    Signal("kl_init/clipped_mean"),
    Signal("ratio/p99"),
    Signal("ratio/sequence_p99"),
    Signal("ratio/ess", below=True),
    Signal("policy/grad_norm", relative=True),
    Signal("policy/entropy", relative=True),
    Signal("policy/entropy", below=True, relative=True),
    Signal("engine/k3", relative=True),
    Signal("rollout/format_ok", below=True, relative=True, behavior=True),
    Signal("rollout/action_ok", below=True, relative=True, behavior=True),
    Signal("rollout/repeated", behavior=True),
    Signal("response/tokens_mean", relative=True, behavior=True),
    Signal("response/truncated", behavior=True),
)
"""What is watched, with the directions that mean harm."""
SUCCESS: Final = Signal("rollout/success", below=True, relative=True, behavior=True)
"""What no warning may be: for comparison only."""


@dataclass(frozen=True, slots=True, eq=False)
class WatchedRun:
    """One training run; a run equals itself alone.

    Attributes:
        track: Its track.
        recipe: Its recipe.
        seed: Its seed.
        curves: Numbers of its updates, by name.
        collapse: Update after which it collapsed; None if it is healthy.
        fall: Update after which that was first seen, at most `collapse`; None likewise.
        unfallen: Update of the last validation before that; None likewise.
        falls: Falls of all runs of its track that collapsed; see `comparable`.
    """

    track: str
    recipe: str
    seed: int
    curves: Mapping[str, Points]
    collapse: int | None = None
    fall: int | None = None
    unfallen: int | None = None
    falls: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """A signal with its limit: an alarm is what lies beyond."""

    signal: Signal
    limit: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a rule does on some runs.

    Attributes:
        leads: Updates from the alarm to the fall, at least 1, of every run that was warned of.
        certain: Of these, runs with the alarm by the last validation before the fall: of the others
            nobody knows whether they had fallen by then.
        watched: Collapsed runs with an update up to that validation, where it was possible.
        collapsed: Runs that collapsed.
        false_alarms: Healthy runs with an alarm, each watched as long as a collapsed run of its
            track: the sum of `false_alarm`.
        healthy: Healthy runs.
    """

    leads: tuple[int, ...]
    certain: int
    watched: int
    collapsed: int
    false_alarms: Fraction
    healthy: int

    @property
    def excess(self) -> Fraction:
        """Share of collapsed runs that are warned of minus share of healthy ones with an alarm."""
        warned = Fraction(len(self.leads), max(self.collapsed, 1))
        return warned - self.false_alarms / max(self.healthy, 1)


def comparable(runs: Sequence[WatchedRun]) -> tuple[WatchedRun, ...]:
    """Runs on tracks on which at least one has collapsed.

    On a track without any the setting itself is harmless: a rule that only tells tracks apart
    would look like a warning.

    Returns:
        Copies that know the falls of their track.
    """
    falls: dict[str, tuple[int, ...]] = {}
    for run in runs:
        if run.fall is not None:
            falls[run.track] = (*falls.get(run.track, ()), run.fall)
    return tuple(replace(run, falls=falls[run.track]) for run in runs if run.track in falls)


def halves(
    runs: Sequence[WatchedRun], draw: int | None = None
) -> tuple[tuple[WatchedRun, ...], tuple[WatchedRun, ...]]:
    """Cut runs into two halves, the same ones whatever their order and whatever others there are.

    The seeds of a recipe on a track are alike and stay together: one bit of a hash of the two names
    says in which half. So runs that are added later move no others, and the halves may differ in
    size.

    Args:
        runs: What is cut.
        draw: Goes into the hash: another number, another split. None for the split that counts.
    """
    salt = () if draw is None else (draw,)
    both: tuple[list[WatchedRun], list[WatchedRun]] = ([], [])
    for run in sorted(runs, key=lambda run: (run.track, run.recipe, run.seed)):
        both[stable_seed(*salt, run.track, run.recipe, bits=1)].append(run)
    return tuple(both[0]), tuple(both[1])


def rules_of(signal: Signal, runs: Sequence[WatchedRun]) -> tuple[Rule, ...]:
    """The limits of a signal that are tried: what each healthy run has at its most extreme.

    Args:
        signal: What is watched.
        runs: One half of the runs.

    Returns:
        Rules, the farthest limit first, which none of the healthy runs pass; rounded outward to
        2 digits. None if no healthy run has the signal.
    """
    found = (_harm(run, signal) for run in runs if run.fall is None)
    peaks = sorted((float(harm.values.max()) for harm in found if harm), reverse=True)
    limits = dict.fromkeys(float(_ROUND.create_decimal(str(peak))) for peak in peaks)
    return tuple(
        Rule(signal, -limit if signal.below else limit) for limit in limits if math.isfinite(limit)
    )


@lru_cache(maxsize=2**18)
def alarm_at(run: WatchedRun, rule: Rule) -> int | None:
    """The first update at which a rule raises an alarm; None if it never does."""
    harm = _harm(run, rule.signal)
    if harm is None:
        return None
    beyond = np.flatnonzero(harm.values > (-rule.limit if rule.signal.below else rule.limit))
    return int(harm.steps[beyond[0]]) if beyond.size else None


def warning_at(run: WatchedRun, rule: Rule) -> int | None:
    """The first alarm, if it comes before the fall: at least 1 update ahead."""
    at = alarm_at(run, rule)
    return at if at is not None and run.fall is not None and at < run.fall else None


def false_alarm(run: WatchedRun, rule: Rule) -> Fraction:
    """What the alarm of a healthy run counts.

    It is the share of the collapsed runs of its track that fall after it, as after a warning: the
    expectation if the run is watched as long as one of these, drawn at random.

    Args:
        run: It is healthy, and one of the `comparable` runs.
        rule: What raises the alarm.
    """
    return share_after(alarm_at(run, rule), run.falls)


def share_after(at: int | None, falls: Sequence[int]) -> Fraction:
    """Share of some falls, at least one, that come after an alarm; 0 without an alarm."""
    return Fraction() if at is None else Fraction(sum(at < fall for fall in falls), len(falls))


def margin(warned: int, collapsed: int, false_alarms: Fraction, healthy: int) -> Interval:
    """Share of warnings minus that of false alarms, with its 95% interval.

    Args:
        warned: Collapsed runs that were warned of.
        collapsed: Collapsed runs, at least one.
        false_alarms: Healthy runs with an alarm, as in `Outcome`.
        healthy: Healthy runs, at least one.
    """
    return difference(
        Side.of_rates([warned / collapsed], collapsed),
        Side.of_rates([float(false_alarms / healthy)], healthy),
    )


def alarms(rule: Rule, runs: Sequence[WatchedRun]) -> int:
    """Healthy runs with an alarm anywhere until their end: what a user sees who watches them."""
    return sum(run.fall is None and alarm_at(run, rule) is not None for run in runs)


def first_moves(run: WatchedRun, rules: Sequence[Rule]) -> tuple[tuple[str, ...], int | None]:
    """Which signals of a collapsed run moved first, up to its fall.

    Args:
        run: It has a fall.
        rules: One of each signal; fixed on other runs.

    Returns:
        Labels of the signals, and the updates from their alarm to the fall, 0 if that is the last
        update before the validation; nothing and None if none moved.
    """
    assert run.fall is not None
    moves = {rule.signal.label: alarm_at(run, rule) for rule in rules}
    first = first_movers(moves)
    lead = run.fall - (moves[first[0]] or 0) if first else -1
    return (first, lead) if lead >= 0 else ((), None)


def outcome(rule: Rule, runs: Sequence[WatchedRun]) -> Outcome:
    """Count warnings and false alarms of `comparable` runs; one without the signal has neither."""
    fallen = [(run, warning_at(run, rule)) for run in runs if run.fall is not None]
    warned = [(run, at) for run, at in fallen if at is not None]
    healthy = [run for run in runs if run.fall is None]
    return Outcome(
        leads=tuple(sorted((run.fall or 0) - at for run, at in warned)),
        certain=sum(at <= (run.unfallen or 0) for run, at in warned),
        watched=sum((run.unfallen or 0) > 0 for run, _ in fallen),
        collapsed=len(fallen),
        false_alarms=sum((false_alarm(run, rule) for run in healthy), Fraction()),
        healthy=len(healthy),
    )


def chosen_rule(rules: Sequence[Rule], runs: Sequence[WatchedRun]) -> Rule | None:
    """The rule with the most warnings over false alarms; of equals the longest median lead.

    Of these the first name, and of one signal the farthest limit.

    Args:
        rules: What is tried; of one signal the farthest limit first.
        runs: One half of the runs.

    Returns:
        None if no rule warns more often than it gives false alarms.
    """
    found = ((rule, outcome(rule, runs)) for rule in rules)
    useful = [(rule, each) for rule, each in found if each.leads and each.excess > 0]
    best = min(
        useful,
        key=lambda one: (-one[1].excess, -statistics.median(one[1].leads), one[0].signal.label),
        default=None,
    )
    return None if best is None else best[0]


@lru_cache(maxsize=2**14)
def _harm(run: WatchedRun, signal: Signal) -> Points | None:
    """A signal of a run, so that more is worse; what overflowed is the worst. None without it."""
    points = run.curves.get(signal.name)
    if points is None or not points.values.size:
        return None
    values = points.values
    if signal.relative:
        if not (math.isfinite(values[0]) and values[0] > 0):
            return None
        values = values / values[0]
    values = np.where(np.isfinite(values), -values if signal.below else values, np.inf)
    return Points(points.steps, values)
