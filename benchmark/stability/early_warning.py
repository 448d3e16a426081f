"""Early warning: which logged number predicts a collapse, with a rule tested on held-out runs.

The rule of `precursors` compares a run with its own first 5 updates, so it misses runs that fall as
early as update 3. Here a run is compared with runs that did not collapse: a rule raises an alarm at
the first update at which its signal is beyond a limit. One update suffices, since a run can fall
within three.

Candidate limits are the most extreme values of the healthy runs. One half of the runs selects the
rule with the highest share of warnings minus share of false alarms; the other half evaluates it.

Collapsed runs are watched until they fall, so healthy runs must not be watched longer: a false
alarm counts as the share of the collapsed runs of its track that fall after it.

Success is not a warning signal: a warning should come before its loss. Numbers computed from
returns (reward, penalty, spread in groups) are success in other units, and so are turns, since an
unsolved episode runs to its limit. Success of the training episodes is still measured, as
`SUCCESS`: a warning that comes no earlier than that is of no use.

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
    """A logged number that may give a warning.

    Attributes:
        name: Its name in `METRICS`.
        below: Low values raise the alarm instead of high ones.
        relative: Use its ratio to the run's first value, because its scale depends on the task.
        behavior: Measured in episodes; others are measured in the policy itself.
    """

    name: str
    below: bool = False
    relative: bool = False
    behavior: bool = False

    @property
    def label(self) -> str:
        """Its name, and its direction if both directions are watched."""
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
"""The watched signals, with the harmful directions."""
SUCCESS: Final = Signal("rollout/success", below=True, relative=True, behavior=True)
"""Not a warning signal; for comparison only."""


@dataclass(frozen=True, slots=True, eq=False)
class WatchedRun:
    """One training run, compared by identity.

    Attributes:
        track: Its track.
        recipe: Its recipe.
        seed: Its seed.
        curves: Numbers of its updates, by name.
        collapse: Update after which it collapsed; None if it is healthy.
        fall: Update after which the fall first shows, at most `collapse`; None likewise.
        unfallen: Update of the last validation before the fall; None likewise.
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
    """A signal with its limit: values beyond it raise an alarm."""

    signal: Signal
    limit: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of a rule on a set of runs.

    Attributes:
        leads: Updates from the alarm to the fall, at least 1, of every run with a warning.
        certain: Number of these whose alarm came by the last validation before the fall; the others
            may already have fallen by then.
        watched: Collapsed runs with an update up to that validation, so that this was possible.
        collapsed: Number of runs that collapsed.
        false_alarms: Healthy runs with an alarm, each watched as long as a collapsed run of its
            track: the sum of `false_alarm`.
        healthy: Number of healthy runs.
    """

    leads: tuple[int, ...]
    certain: int
    watched: int
    collapsed: int
    false_alarms: Fraction
    healthy: int

    @property
    def excess(self) -> Fraction:
        """Share of collapsed runs with a warning minus share of healthy runs with an alarm."""
        warned = Fraction(len(self.leads), max(self.collapsed, 1))
        return warned - self.false_alarms / max(self.healthy, 1)


def comparable(runs: Sequence[WatchedRun]) -> tuple[WatchedRun, ...]:
    """Runs on tracks with at least one collapse.

    On a track without any, the setting itself is harmless: a rule that only distinguishes tracks
    would look like a warning.

    Returns:
        Copies with the falls of their track.
    """
    falls: dict[str, tuple[int, ...]] = {}
    for run in runs:
        if run.fall is not None:
            falls[run.track] = (*falls.get(run.track, ()), run.fall)
    return tuple(replace(run, falls=falls[run.track]) for run in runs if run.track in falls)


def halves(
    runs: Sequence[WatchedRun], draw: int | None = None
) -> tuple[tuple[WatchedRun, ...], tuple[WatchedRun, ...]]:
    """Split runs into two halves, independent of their order and of other runs.

    The seeds of a recipe on a track are similar and stay together: one bit of a hash of the two
    names selects their half. So runs added later do not move others, and the halves may differ in
    size.

    Args:
        runs: The runs to split.
        draw: Part of the hash, for other splits. None for the official split.
    """
    salt = () if draw is None else (draw,)
    both: tuple[list[WatchedRun], list[WatchedRun]] = ([], [])
    for run in sorted(runs, key=lambda run: (run.track, run.recipe, run.seed)):
        both[stable_seed(*salt, run.track, run.recipe, bits=1)].append(run)
    return tuple(both[0]), tuple(both[1])


def rules_of(signal: Signal, runs: Sequence[WatchedRun]) -> tuple[Rule, ...]:
    """Candidate rules of a signal, with the most extreme value of each healthy run as limit.

    Args:
        signal: The signal.
        runs: One half of the runs.

    Returns:
        Rules with limits rounded outward to 2 digits, the farthest first, which no healthy run
        passes. Empty if no healthy run has the signal.
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
    """The first alarm, if it comes at least 1 update before the fall."""
    at = alarm_at(run, rule)
    return at if at is not None and run.fall is not None and at < run.fall else None


def false_alarm(run: WatchedRun, rule: Rule) -> Fraction:
    """The weight of a healthy run's alarm.

    It is the share of the collapsed runs of its track that fall after it: the expected number of
    false alarms if the run is watched as long as a randomly drawn one of these.

    Args:
        run: A healthy run among the `comparable` runs.
        rule: The rule that raises the alarm.
    """
    return share_after(alarm_at(run, rule), run.falls)


def share_after(at: int | None, falls: Sequence[int]) -> Fraction:
    """Share of falls, at least one, that come after an alarm; 0 without an alarm."""
    return Fraction() if at is None else Fraction(sum(at < fall for fall in falls), len(falls))


def margin(warned: int, collapsed: int, false_alarms: Fraction, healthy: int) -> Interval:
    """Share of warnings minus that of false alarms, with its 95% interval.

    Args:
        warned: Collapsed runs with a warning.
        collapsed: Collapsed runs, at least one.
        false_alarms: Healthy runs with an alarm, as in `Outcome`.
        healthy: Healthy runs, at least one.
    """
    return difference(
        Side.of_rates([warned / collapsed], collapsed),
        Side.of_rates([float(false_alarms / healthy)], healthy),
    )


def alarms(rule: Rule, runs: Sequence[WatchedRun]) -> int:
    """Number of healthy runs with an alarm at any time, as a user who watches them would see."""
    return sum(run.fall is None and alarm_at(run, rule) is not None for run in runs)


def first_moves(run: WatchedRun, rules: Sequence[Rule]) -> tuple[tuple[str, ...], int | None]:
    """Which signals of a collapsed run moved first, up to its fall.

    Args:
        run: A run with a fall.
        rules: One rule per signal, fitted on other runs.

    Returns:
        Labels of the signals, and the updates from their alarm to the fall, 0 if that is the last
        update before the validation; empty and None if none moved.
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
    """The rule with the highest excess of warnings over false alarms.

    Ties are broken by the longest median lead, then the first name, then the farthest limit.

    Args:
        rules: Candidate rules; for each signal, the farthest limit first.
        runs: One half of the runs.

    Returns:
        The rule; None if no rule gives more warnings than false alarms.
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
    """A run's signal, oriented so that higher is worse and overflow is worst; None without it."""
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
