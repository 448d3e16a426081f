"""The result of testing the early warning rule, as a list of points."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import count, islice
from typing import Final

import numpy as np

from baselines.study.pages.halves import (
    Half,
    halves_of,
    lead_text,
    limit_text,
    share_text,
    testable,
)
from baselines.study.pages.markdown import bullets
from benchmark.stability.early_warning import (
    Outcome,
    Rule,
    WatchedRun,
    alarm_at,
    alarms,
    margin,
    outcome,
)
from benchmark.stats.formatting import count_text, points_text
from benchmark.stats.intervals import Interval
from tasks.texts import counted

SPLITS: Final = 100
"""Number of other splits into halves for comparison."""
AGREEING: Final = 95
"""How many of them must have a higher share of warnings than of false alarms."""


def answer(first: Half, second: Half, others: Sequence[WatchedRun] = ()) -> str:
    """The result of the test: a sentence, or a list of points.

    Args:
        first: The half that selects the rule.
        second: The half that tests it.
        others: Runs on tracks without a collapse, or on which collapse is unknown.
    """
    if not first.runs:
        return "No run has collapsed yet on a track whose runs can show whether they have."
    if not testable((first.runs, second.runs)):
        return (
            "There are too few runs for a test: each half needs some that collapsed and some that "
            "did not."
        )
    if (rule := first.chosen) is None:
        return (
            "On the first half of the runs no signal warns of collapses more often than it gives "
            "false alarms, so that there is no rule to test."
        )
    runs = (*first.runs, *second.runs)
    always = _always_collapsed(runs)
    known, done = outcome(rule, first.runs), outcome(rule, second.runs)
    within = outcome(rule, [run for run in second.runs if run.recipe not in always])
    lead = f", {lead_text(done.leads)} updates ahead," if done.leads else ""
    drawn = _other_splits(runs)
    said = [
        f"**{_verdict(done, within, drawn)}.** A rule is chosen on one half of the runs and tested "
        f"on the other. That of the first half, `{rule.signal.name}` {limit_text(rule)}, warned of "
        f"{share_text(len(done.leads), done.collapsed)} collapsed "
        f"runs of the second half{lead} and gave a false alarm in "
        f"{share_text(done.false_alarms, done.healthy)} "
        "runs that did not collapse, each watched as long as a collapsed run of its track. On the "
        f"half that it was chosen on it warned of {count_text(len(known.leads), known.collapsed)}, "
        f"with {count_text(known.false_alarms, known.healthy)} false alarms.",
        _by_name(always, within, runs, others),
        "A user who watches runs to their end sees more: "
        f"{share_text(alarms(rule, second.runs), done.healthy)} runs of the second half that did "
        "not collapse have an alarm somewhere.",
        _of_splits(done, drawn),
    ]
    if done.leads:
        said.append(
            f"Of {counted(len(done.leads), 'warning')}, {done.certain} came before a validation "
            "that was still healthy, and so before the fall for certain; "
            f"{done.watched} of {counted(done.collapsed, 'collapsed run')} had such a validation. "
            f"{_at_once(rule, second.runs)}"
        )
    return bullets(said)


def _verdict(done: Outcome, within: Outcome, drawn: Sequence[Fraction]) -> str:
    """The answer in a few words, with the reasons if it is negative."""
    nothing = "No signal has been shown to warn of a collapse"
    if not _above_zero(done):
        return f"{nothing}: the interval of warnings minus false alarms is not above 0"
    if (agreeing := sum(each > 0 for each in drawn)) < AGREEING:
        return (
            f"{nothing}: warnings are more frequent than false alarms here, but in only {agreeing} "
            f"of {SPLITS} other splits of the runs, and {AGREEING} are asked for"
        )
    more = "Warnings are more frequent than false alarms"
    return more if _above_zero(within) else f"{more}, but within recipes these runs do not show it"


def _margin(done: Outcome) -> Interval:
    """Share of warnings minus share of false alarms."""
    return margin(len(done.leads), done.collapsed, done.false_alarms, done.healthy)


def _above_zero(done: Outcome) -> bool:
    return done.collapsed > 0 and _margin(done).low > 0


def _of_splits(done: Outcome, drawn: Sequence[Fraction]) -> str:
    """The criterion of the verdict, and the numbers behind it."""
    low, middle, high = np.percentile([100 * float(each) for each in drawn], (5, 50, 95))
    return (
        f"The share of warnings minus that of false alarms is {points_text(_margin(done))} points. "
        f"In {SPLITS} other splits into halves, drawn alike, a rule is chosen and tested in the "
        f"same way: the difference is {middle:+.1f} in the median, 90% of them lie between "
        f"{low:+.1f} and {high:+.1f}, {sum(each > 0 for each in drawn)} are above 0, and that of "
        f"this split is larger than in {sum(each < done.excess for each in drawn)} of them. "
        f"Warnings are called more frequent only if the interval and {AGREEING} of these "
        "differences are above 0."
    )


def _always_collapsed(runs: Sequence[WatchedRun]) -> frozenset[str]:
    """Recipes with at least two runs, all of which collapsed."""
    fallen: dict[str, list[bool]] = {}
    for run in runs:
        fallen.setdefault(run.recipe, []).append(run.fall is not None)
    return frozenset(recipe for recipe, each in fallen.items() if all(each) and len(each) > 1)


def _by_name(
    always: frozenset[str],
    within: Outcome,
    runs: Sequence[WatchedRun],
    others: Sequence[WatchedRun],
) -> str:
    """What the recipe name alone predicts at update 0, and what the rule adds to it.

    Args:
        always: Recipes all of whose runs collapsed.
        within: Results of the rule on the second half without these.
        runs: Runs of both halves.
        others: Runs on the other tracks.
    """
    if not always:
        return ""
    warned = sum(run.recipe in always for run in runs)
    names = " or ".join(f"`{recipe}`" for recipe in sorted(always))
    collapsed = sum(run.fall is not None for run in runs)
    false = sum(run.recipe in always for run in others)
    elsewhere = (
        f" On the other tracks, the same names are false alarms in {false} of "
        f"{counted(len(others), 'run')}."
        if others
        else ""
    )
    return (
        f"The recipe alone says more, before the first update: all runs of {names} on these "
        f"tracks collapsed. They are {warned} of the {collapsed} collapsed runs, at no false "
        f"alarm.{elsewhere} So a rule that tells recipes apart seems to warn. {_within(within)} "
        "Which recipes always collapse is known from all runs; that was not tested on others."
    )


def _within(done: Outcome) -> str:
    """Results of the rule for recipes that do not always collapse."""
    if not done.collapsed:
        return "Of the other recipes no run of the second half collapsed: nothing is known of them."
    shown = (
        "an interval above 0"
        if _above_zero(done)
        else "which does not show that it warns within recipes"
    )
    return (
        "Of the other recipes, on the second half, the rule warned of "
        f"{share_text(len(done.leads), done.collapsed)} collapsed runs and gave a false alarm in "
        f"{share_text(done.false_alarms, done.healthy)} others. That is "
        f"{points_text(_margin(done))} points from only {counted(done.collapsed, 'collapse')}, "
        f"{shown}."
    )


def _other_splits(runs: Sequence[WatchedRun]) -> list[Fraction]:
    """Share of warnings minus share of false alarms, for other splits that can be tested.

    Without a rule, both shares are 0.
    """
    drawn = (halves_of(runs, draw) for draw in count())
    found = []
    for first, second in islice((both for both in drawn if testable(e.runs for e in both)), SPLITS):
        rule = first.chosen
        found.append(Fraction() if rule is None else outcome(rule, second.runs).excess)
    return found


def _at_once(rule: Rule, runs: Sequence[WatchedRun]) -> str:
    """How many warnings came as early as possible, so that the lead depends on a validation."""
    warned = [
        (at, run.fall)
        for run in runs
        if run.fall is not None and (at := alarm_at(run, rule)) is not None and at < run.fall
    ]
    first = min(at for at, _ in warned)
    early = sum(at == first for at, _ in warned)
    return (
        f"{early} of the {len(warned)} alarms came in update {first}; falls are seen only at "
        f"validations, the earliest at update {min(fall for _, fall in warned)}, so that these "
        "leads say little."
    )
