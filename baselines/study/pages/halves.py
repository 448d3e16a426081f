"""Two halves of the runs, and texts on the rules that are chosen on one and tested on the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from benchmark.stats.formatting import range_text
from benchmark.stats.intervals import wilson

HALVES: Final = ("first", "second")
NOTHING: Final = "-"


@dataclass(frozen=True, slots=True)
class Half:
    """One half of the runs, and what is chosen on it.

    Attributes:
        name: `first` or `second`.
        runs: Its runs.
        rules: All that are tried on it.
    """

    name: str
    runs: tuple[WatchedRun, ...]
    rules: Mapping[Signal, tuple[Rule, ...]]

    @property
    def chosen(self) -> Rule | None:
        """The rule of all signals together."""
        return chosen_rule([rule for signal in SIGNALS for rule in self.rules[signal]], self.runs)

    def best(self, signal: Signal) -> Rule | None:
        """The rule of one signal."""
        return chosen_rule(self.rules[signal], self.runs)


def halves_of(runs: Sequence[WatchedRun], draw: int | None = None) -> tuple[Half, Half]:
    """Both halves of the runs; with a draw, of another split."""
    first, second = map(half_of, HALVES, halves(runs, draw))
    return first, second


def half_of(name: str, runs: Sequence[WatchedRun]) -> Half:
    """Some runs, with the rules that their healthy ones give."""
    return Half(name, tuple(runs), {each: rules_of(each, runs) for each in (*SIGNALS, SUCCESS)})


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


def share_text(count: int, number: int) -> str:
    """A count with the interval of its share; a dash of none."""
    if not number:
        return NOTHING
    ends = wilson(count, number)
    return f"{count} of {number} ({range_text(ends.low, ends.high)})"


def lead_text(leads: Sequence[int]) -> str:
    """Median and range, such as `3 (2 to 5)`."""
    if not leads:
        return NOTHING
    middle = f"{median(leads):g}"
    return middle if min(leads) == max(leads) else f"{middle} ({min(leads)} to {max(leads)})"
