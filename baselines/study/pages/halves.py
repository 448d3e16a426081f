"""Two halves of the runs, and texts on rules selected on one half and tested on the other."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import median
from typing import Final

from benchmark.stability.early_warning import (
    SIGNALS,
    SUCCESS,
    Rule,
    Signal,
    WatchedRun,
    chosen_rule,
    halves,
    rules_of,
)
from benchmark.stats.formatting import count_text, range_text
from benchmark.stats.intervals import wilson_rate

HALVES: Final = ("first", "second")
NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class Half:
    """One half of the runs, and its candidate rules.

    Attributes:
        name: `first` or `second`.
        runs: Its runs.
        rules: All candidate rules.
    """

    name: str
    runs: tuple[WatchedRun, ...]
    rules: Mapping[Signal, tuple[Rule, ...]]

    @property
    def chosen(self) -> Rule | None:
        """The best rule over all signals."""
        return chosen_rule([rule for signal in SIGNALS for rule in self.rules[signal]], self.runs)

    def best(self, signal: Signal) -> Rule | None:
        """The best rule of one signal."""
        return chosen_rule(self.rules[signal], self.runs)


def halves_of(runs: Sequence[WatchedRun], draw: int | None = None) -> tuple[Half, Half]:
    """Both halves of the runs; with `draw`, from another split."""
    first, second = map(half_of, HALVES, halves(runs, draw))
    return first, second


def half_of(name: str, runs: Sequence[WatchedRun]) -> Half:
    """Runs as a half, with the rules derived from the healthy ones."""
    return Half(name, tuple(runs), {each: rules_of(each, runs) for each in (*SIGNALS, SUCCESS)})


def testable(halves: Iterable[Sequence[WatchedRun]]) -> bool:
    """Whether each half has runs that collapsed and runs that did not."""
    return all({run.fall is None for run in runs} == {True, False} for runs in halves)


def limit_text(rule: Rule) -> str:
    """When a rule raises an alarm, such as `above 2 times its first value`."""
    side = "below" if rule.signal.below else "above"
    if not rule.signal.relative:
        return f"{side} {rule.limit:g}"
    return (
        f"{side} its first value"
        if rule.limit == 1
        else f"{side} {rule.limit:g} times its first value"
    )


def share_text(count: int | Fraction, number: int) -> str:
    """A count with the interval of its share; a dash if `number` is 0.

    A sum of shares varies at most as much as a count, so the interval is conservative.
    """
    if not number:
        return NOTHING
    ends = wilson_rate(float(count / number), number)
    return f"{count_text(count, number)} ({range_text(ends.low, ends.high)})"


def lead_text(leads: Sequence[int]) -> str:
    """Median and range, such as `3 (2 to 5)`."""
    if not leads:
        return NOTHING
    middle = f"{median(leads):g}"
    return middle if min(leads) == max(leads) else f"{middle} ({min(leads)} to {max(leads)})"
