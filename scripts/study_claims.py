"""What was expected of the tiny study, and what its numbers say to it."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from benchmark.statistics import Interval, wilson
from scripts.study import AGGRESSIVE, STABLE, Run
from scripts.study_numbers import Result, Study, difference, mean_of

Outcome = Literal["Reproduced", "Reproduced in part", "Not reproduced", "Not decided"]

GAIN = 0.10
GAINING = ("gspo", "sampo")
PAIRS = (("cispo", "cispo_sm"), ("sapo", "sapo_sm"))
MINUTES = 8
"""Of CPU time, in which the gain is to be had."""
BASE = "grpo"
"""What the paper compares with."""
PAPER_SOKOBAN: Final[Mapping[str, float]] = {
    "grpo": 0.8390,
    "grpo_st": 0.6873,
    "sapo": 0.3025,
    "cispo": 0.2602,
    "gspo": 0.8222,
    "gigpo": 0.8267,
    "empg": 0.7916,
    "dapo_grpo": 0.8240,
    "dapo_gigpo": 0.8620,
    "sampo": 0.8886,
}
"""Success on Sokoban of a model with 4 billion parameters, one seed (ARLArena, arXiv 2602.21534,
table 3)."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim and what became of it.

    Attributes:
        claim: What was expected, a sentence.
        outcome: What became of it.
        evidence: The numbers, as sentences.
    """

    claim: str
    outcome: Outcome
    evidence: str


def verdicts(study: Study) -> list[Verdict]:
    """All claims, judged."""
    return [
        *(gains(study, recipe) for recipe in GAINING),
        *(rescue(study, plain, masked) for plain, masked in PAIRS),
        best_of_all(study),
    ]


def gains(study: Study, recipe: str) -> Verdict:
    """Does a recipe gain at least 10 points in the stable setting?"""
    updates = Run("stable", recipe, 0, STABLE).updates
    claim = (
        f"{recipe} gains at least {100 * GAIN:.0f} points of held-out success in {updates} updates "
        "of the stable setting."
    )
    found = study.finished("stable", recipe)
    if not found:
        return Verdict(claim, "Not decided", _nothing(study, recipe))
    gain = mean_of([result.gain for result in found])
    each = ", ".join(f"{points(result.gain.value)}" for result in found)
    minutes = [result.minutes for result in found]
    text = f"The mean gain is {with_interval(gain, points)} points ({each} for each run). "
    if gain.low >= GAIN:
        text += f"The whole interval lies at or above {100 * GAIN:.0f} points."
    elif gain.low > 0:
        text += f"The interval lies above 0 but not all of it above {100 * GAIN:.0f} points."
    else:
        text += "The interval does not lie above 0."
    text += (
        f" A run took {spread(minutes, '.1f')} minutes on the clock; the aim is at most {MINUTES} "
        "minutes of CPU time."
    )
    if not study.complete("stable", recipe):
        return Verdict(claim, "Not decided", _so_far(study, found) + text)
    return Verdict(claim, "Reproduced" if gain.value >= GAIN else "Not reproduced", text)


def rescue(study: Study, plain: str, masked: str) -> Verdict:
    """Does a recipe collapse in the aggressive setting while its masked form does not?

    Runs that are not finished and have not collapsed may still do either: the outcome is decided
    only if it is the same however they end.
    """
    runs = len(study.seeds)
    needed = -(-2 * runs // 3)
    updates = Run("aggressive", plain, 0, AGGRESSIVE).updates
    claim = (
        f"{plain} collapses within {updates} updates of the aggressive setting in at least "
        f"{needed} of {count(runs, 'seed')}, and {masked} in none."
    )
    outcomes = {
        _rescued(one, other, needed)
        for one, other in itertools.product(_possible(study, plain), _possible(study, masked))
    }
    outcome: Outcome = outcomes.pop() if len(outcomes) == 1 else "Not decided"
    text = f"{_collapses(study, plain)} {_collapses(study, masked)}"
    return Verdict(claim, outcome, text)


def best_of_all(study: Study) -> Verdict:
    """Does SAMPO end highest in the stable setting?"""
    best = "sampo"
    claim = f"{best} ends with the highest success of all recipes of the stable setting."
    others = [recipe for recipe in study.recipes if recipe != best]
    if best not in study.recipes:
        return Verdict(claim, "Not decided", _nothing(study, best))
    if not others:
        return Verdict(claim, "Not decided", "There is no other recipe.")
    lacking = [recipe for recipe in study.recipes if not study.complete("stable", recipe)]
    if lacking:
        text = f"Seeds are missing of {', '.join(lacking)}."
        return Verdict(claim, "Not decided", text)
    margins = {other: _between(study, best, other) for other in others}
    above = [other for other, margin in margins.items() if margin.low > 0]
    below = [other for other, margin in margins.items() if margin.high < 0]
    nearest = min(margins, key=lambda other: margins[other].value)
    text = (
        f"Of {count(len(others), 'other')}, {len(above)} end lower by more than the noise"
        f"{_listed(above)} and {len(below)} higher{_listed(below)}. {best} minus {nearest}, the "
        f"highest of them: {with_interval(margins[nearest], points)} points."
    )
    if len(above) == len(others):
        return Verdict(claim, "Reproduced", text)
    return Verdict(claim, "Not reproduced" if below else "Not decided", text)


def beside_base(study: Study, recipe: str) -> Interval | None:
    """Final success in the stable setting minus that of GRPO; None if runs of either are missing.

    Raises:
        ValueError: The recipe is GRPO.
    """
    if recipe == BASE:
        raise ValueError(f"{BASE} is what others are compared with")
    if BASE not in study.recipes or not all(study.complete("stable", r) for r in (BASE, recipe)):
        return None
    return _between(study, recipe, BASE)


def early_signs(study: Study) -> str | None:
    """How the largest token ratios of runs that collapse differ from those of others."""
    results = study.begun("aggressive")
    collapsed = [result for result in results if result.collapse is not None]
    others = [result for result in results if result.collapse is None and result.finished]
    if not collapsed or not others:
        return None
    name = "ratio/max"
    first = [result.highest_of(name, result.collapse) for result in collapsed]
    second = [result.highest_of(name) for result in others]
    known, beside = [v for v in first if v is not None], [v for v in second if v is not None]
    if not known or not beside:
        return None
    return (
        f"The largest ratio of a token, new over old policy, was {_range(known)} in the "
        f"{count(len(known), 'run')} that collapsed (up to the collapse) and {_range(beside)} in "
        f"the {count(len(beside), 'run')} that did not."
    )


def points(value: float) -> str:
    """A difference of success rates in points, with its sign."""
    return f"{round(100 * value, 1) + 0.0:+.1f}"


def percent(value: float) -> str:
    """A success rate in percent, without the sign of it."""
    return f"{100 * value:.1f}"


def with_interval(interval: Interval, text: Callable[[float], str] = percent) -> str:
    """An estimate and, in brackets, its interval."""
    return f"{text(interval.value)} [{text(interval.low)}, {text(interval.high)}]"


def count(number: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def spread(values: Sequence[float], form: str) -> str:
    """One number, or the lowest and the highest."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"


def short(value: float) -> str:
    """Two digits of a small number, all before the point of a large one."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _range(values: Sequence[float]) -> str:
    low, high = short(min(values)), short(max(values))
    return low if low == high else f"{low} to {high}"


def _between(study: Study, first: str, second: str) -> Interval:
    pairs = zip(study.finished("stable", first), study.finished("stable", second), strict=True)
    return mean_of([difference(one.final, other.final) for one, other in pairs])


def _possible(study: Study, recipe: str) -> range:
    """How many seeds of the aggressive setting can have collapsed in the end."""
    results = study.begun("aggressive", recipe)
    certain = sum(result.collapse is not None for result in results)
    healthy = sum(result.collapse is None and result.finished for result in results)
    return range(certain, len(study.seeds) - healthy + 1)


def _rescued(plain: int, masked: int, needed: int) -> Outcome:
    if plain < needed or masked >= plain:
        return "Not reproduced"
    return "Reproduced in part" if masked else "Reproduced"


def _collapses(study: Study, recipe: str) -> str:
    """How many runs of a recipe collapsed, by both criteria."""
    results = study.begun("aggressive", recipe)
    judged = [result for result in results if result.finished or result.collapse is not None]
    if not judged:
        return _nothing(study, recipe)
    steps = [result.collapse for result in judged if result.collapse is not None]
    low = sum(result.below_half is not None for result in judged)
    share = wilson(len(steps), len(judged))
    when = f" after update {_joined(steps)}" if steps else ""
    text = (
        f"{recipe} collapsed in {len(steps)} of {count(len(judged), 'run')}{when} "
        f"({with_interval(share)} %), and fell below half of the init's success in {low}."
    )
    left = len(study.seeds) - len(judged)
    return text + (
        f" {count(left, 'run').capitalize()} of it cannot be judged yet." if left else ""
    )


def _nothing(study: Study, recipe: str) -> str:
    if recipe not in study.recipes:
        return f"{recipe} was not among the recipes."
    return f"No run of {recipe} is finished."


def _so_far(study: Study, found: Sequence[Result]) -> str:
    return f"So far, {len(found)} of {count(len(study.seeds), 'run')} are finished. "


def _listed(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def _joined(numbers: Sequence[int]) -> str:
    *most, last = (str(number) for number in numbers)
    return f"{', '.join(most)} and {last}" if most else last
