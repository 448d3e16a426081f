"""What the test of the rule for early warning says, as a list of points."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

import numpy as np

from baselines.study.pages.halves import Half, halves_of, lead_text, limit_text, share_text
from baselines.study.pages.markdown import bullets
from benchmark.stability.early_warning import Rule, WatchedRun, alarm_at, outcome
from benchmark.stats.formatting import points_text
from benchmark.stats.paired import Side, difference
from tasks.texts import counted

SPLITS: Final = 100
"""Other splits into halves that the answer is compared with."""


def answer(first: Half, second: Half, others: Sequence[WatchedRun] = ()) -> str:
    """What the test says: a sentence, or a list of points.

    Args:
        first: The half on which the rule is chosen.
        second: The half on which it is tested.
        others: Runs on tracks on which none collapsed, or nobody can say whether one did.
    """
    if not first.runs:
        return "No run has collapsed yet on a track whose runs can show whether they have."
    if any({run.fall is None for run in half.runs} != {True, False} for half in (first, second)):
        return (
            "There are too few runs for a test: each half needs some that collapsed and some that "
            "did not."
        )
    if (rule := first.chosen) is None:
        return (
            "On the first half of the runs no signal warns of collapses more often than it gives "
            "false alarms, so that there is no rule to test."
        )
    known, done = outcome(rule, first.runs), outcome(rule, second.runs)
    lead = f", {lead_text(done.leads)} updates ahead," if done.leads else ""
    margin = difference(
        Side.of_rates([len(done.leads) / done.collapsed], done.collapsed),
        Side.of_rates([done.false_alarms / done.healthy], done.healthy),
    )
    drawn = _other_splits((*first.runs, *second.runs))
    low, middle, high = np.percentile([100 * float(each) for each in drawn], (5, 50, 95))
    lower = sum(each < done.excess for each in drawn)
    verdict = (
        "Warnings are more frequent than false alarms"
        if margin.low > 0 and low > 0
        else "These runs do not show that the rule warns of anything"
    )
    said = [
        f"**{verdict}.** The rule chosen on the first half of the runs, `{rule.signal.name}` "
        f"{limit_text(rule)}, warned of {share_text(len(done.leads), done.collapsed)} collapsed "
        f"runs of the second half{lead} and gave a false alarm in "
        f"{share_text(done.false_alarms, done.healthy)} "
        "runs that did not collapse. On the half that it was chosen on it warned of "
        f"{len(known.leads)} of {known.collapsed}, with {known.false_alarms} of {known.healthy} "
        "false alarms.",
        f"The share of warnings minus that of false alarms is {points_text(margin)} points. "
        f"In {SPLITS} other splits into halves, drawn alike, a rule is chosen and tested in the "
        f"same way: the difference is {middle:+.1f} in the median, 90% of them lie between "
        f"{low:+.1f} and {high:+.1f}, and that of this split is larger than in {lower} of them.",
    ]
    if done.leads:
        said.append(
            f"Of {counted(len(done.leads), 'warning')}, {done.certain} came before a validation "
            "that was still healthy, and so before the fall for certain; "
            f"{done.watched} of {counted(done.collapsed, 'collapsed run')} had such a validation. "
            f"{_at_once(rule, second.runs)}"
        )
    said.append(_by_name((*first.runs, *second.runs), others))
    return bullets(said)


def _by_name(runs: Sequence[WatchedRun], others: Sequence[WatchedRun]) -> str:
    """What the name of a recipe says at update 0: recipes all of whose runs have collapsed."""
    recipes = dict.fromkeys(run.recipe for run in runs)
    fallen = {
        recipe: [run.fall is not None for run in runs if run.recipe == recipe] for recipe in recipes
    }
    always = [recipe for recipe, each in fallen.items() if all(each) and len(each) > 1]
    if not always:
        return ""
    warned = sum(len(fallen[recipe]) for recipe in always)
    names = " or ".join(f"`{recipe}`" for recipe in sorted(always))
    collapsed = sum(map(sum, fallen.values()))
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
        f"alarm.{elsewhere} So a rule that "
        "tells recipes apart seems to warn, and what can be learned of a signal within other "
        f"recipes rests on {counted(collapsed - warned, 'run')}. This description is of all runs; "
        "nothing was tested on others."
    )


def _other_splits(runs: Sequence[WatchedRun]) -> list[Fraction]:
    """Share of warnings minus that of false alarms where halves are others.

    Without a rule there are neither.
    """
    found = []
    for draw in range(SPLITS):
        first, second = halves_of(runs, draw)
        rule = first.chosen
        found.append(Fraction() if rule is None else outcome(rule, second.runs).excess)
    return found


def _at_once(rule: Rule, runs: Sequence[WatchedRun]) -> str:
    """How many warnings came as early as they can: their leads are those to a validation."""
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
