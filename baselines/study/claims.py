"""Claims and their verdicts from finished cells: rules in a YAML file.

A verdict has a rule and numbers, and no other words. A claim of which a planned run is missing is
incomplete: what happens to be finished decides nothing, though numbers of methods with three seeds
are shown. Nor do one or two seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field, ValidationError, model_validator

from baselines.config.layers import RECIPES, names
from baselines.study.chance import RARE, chance_of_half, chance_of_more, chance_text
from baselines.study.methods import (
    PanelKey,
    RecipeRuns,
    TrackResults,
    across_tracks,
    across_tracks_at_equal_seconds,
    collapse_share,
)
from baselines.study.schema import read_yaml
from baselines.tracks.registry import track_names
from benchmark.logs.lines import Word
from benchmark.stats.formatting import points_text, range_text
from benchmark.stats.intervals import Interval
from tasks.errors import UserError, suggestion
from tasks.strict import Strict, first_fault
from tasks.texts import counted, plural

Outcome = Literal["reproduced", "contradicted", "not decided", "incomplete"]
LEAST_SEEDS: Final = 3
"""Seeds of every method without which nothing is decided."""
LEAST_OF_ONE: Final = 6
"""The same for collapses of one method: 5 of 5 happen 1 time in 32 where half of all collapse."""
LEAST_OF_TWO: Final = 4
"""The same for those of two methods: of 3 and 3 seeds, chance picks one method's 1 time in 20."""


class Claim(Strict):
    """One claim.

    It has one rule: `better`, `best`, `learns`, `compared`, or `collapses` and `holds`.

    Success is the track's score, the mean over its tasks. Methods are judged after equal updates,
    as papers do; where they have not played equally much, their difference at equal episodes stands
    beside it.

    Attributes:
        claim: What is claimed, one sentence.
        of: Whose claim it is; empty for one of the track's own.
        track: Where.
        better: The first method ends higher than the second one. Reproduced if the interval of the
            difference is above 0, contradicted if it is below.
        best: The method ends higher than every other one of the track. Reproduced if all
            differences are above 0, contradicted if one is below.
        among: The others that `best` is compared with; if empty, all of the track.
        learns: One of these methods gains on its init: that which gains most. Reproduced if it
            gains `gain` and the interval is above `by`, contradicted if the interval is below `by`.
            One method with all its seeds is enough to reproduce it.
        gain: Least gain, a difference of success rates.
        by: What the interval of the gain is above.
        compared: The method, trained on this track, is compared with the same method trained on
            the tracks of `against`. Reproduced if the interval of the difference is above `above`,
            contradicted if it is below.
        against: Other tracks that have the panels of this one between them: one with all of them,
            or one for each.
        above: What the difference of success rates is above; -0.05 allows for a loss of 5 points.
        at: Where methods are compared: at the end of their runs, or after the seconds of training
            of the shortest one, which say something only of runs on equal machines.
        collapses: More than half of the method's trainings collapse. Alone: reproduced if as many
            collapsed seeds are rare (`RARE`) where half collapse, contradicted if as few are.
        holds: Fewer than half do, likewise. With both, more trainings of the first method collapse
            than of the second: reproduced if so large a share of the collapsed seeds being the
            first's is rare by chance (Fisher's exact test), contradicted if it is the second's.
        post_hoc: The claim, or a margin in it, was written down when its numbers were known.
    """

    claim: Annotated[str, Field(min_length=1, max_length=300)]
    of: Annotated[str, Field(max_length=100)] = ""
    track: Word
    better: Annotated[tuple[Word, Word], Field(strict=False)] | None = None
    best: Word | None = None
    among: Annotated[tuple[Word, ...], Field(strict=False)] = ()
    learns: Annotated[tuple[Word, ...], Field(strict=False, min_length=1)] | None = None
    gain: Annotated[float, Field(ge=0, lt=1)] = 0.0
    by: Annotated[float, Field(ge=0, lt=1)] = 0.0
    compared: Word | None = None
    against: Annotated[tuple[Word, ...], Field(strict=False)] = ()
    above: Annotated[float, Field(gt=-1, lt=1)] = 0.0
    at: Literal["end", "seconds"] = "end"
    collapses: Word | None = None
    holds: Word | None = None
    post_hoc: bool = False

    @model_validator(mode="after")
    def _one_rule(self) -> "Claim":
        held = self.collapses or self.holds
        rules = [self.better, self.best, self.learns, self.compared, held]
        if sum(rule is not None for rule in rules) != 1:
            raise ValueError(
                "give one rule: better, best, learns, compared, or collapses and holds"
            )
        if (self.by or self.gain) and self.learns is None:
            raise ValueError("by and gain belong to learns")
        if self.among and self.best is None:
            raise ValueError("among belongs to best")
        if bool(self.against) != (self.compared is not None):
            raise ValueError("compared and against belong together")
        if (self.above or self.at != "end") and self.compared is None:
            raise ValueError("above and at belong to compared")
        if self.at == "seconds" and len(self.against) > 1:
            raise ValueError("at: seconds compares with one track")
        return self

    @property
    def text(self) -> str:
        """The claim, and that it is post hoc if it is."""
        return f"{self.claim} (post hoc)" if self.post_hoc else self.claim

    @property
    def title(self) -> str:
        """The claim, preceded by its source."""
        return f"{self.of}: {self.text}" if self.of else self.text

    @property
    def least_seeds(self) -> int:
        """Seeds of every method without which it is not decided."""
        if self.collapses and self.holds:
            return LEAST_OF_TWO
        return LEAST_OF_ONE if self.collapses or self.holds else LEAST_SEEDS

    @property
    def recipes(self) -> tuple[str, ...]:
        """The methods that it names."""
        several = (*(self.better or ()), *self.among, *(self.learns or ()))
        named = (*several, self.best, self.compared, self.collapses, self.holds)
        return tuple(recipe for recipe in named if recipe is not None)


class _Claims(Strict):
    claims: Annotated[tuple[Claim, ...], Field(max_length=1000, strict=False)]


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """What became of a claim.

    Attributes:
        claim: The claim.
        outcome: Whether it is reproduced.
        numbers: What decides, as text; empty if nothing is there.
    """

    claim: Claim
    outcome: Outcome
    numbers: str


def read_claims(path: Path) -> tuple[Claim, ...]:
    """Read a file of claims.

    Raises:
        UserError: It cannot be read, breaks the schema, or names a track or a recipe that is not
            there.
    """
    try:
        claims = _Claims.model_validate(read_yaml(path)).claims
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}") from error
    tracks, recipes = track_names(), names(RECIPES)
    for claim in claims:
        for track in (claim.track, *claim.against):
            if track not in tracks:
                raise UserError(
                    f"{path}: {claim.claim!r}: there is no track {track!r}"
                    f"{suggestion(track, tracks)}"
                )
        for recipe in claim.recipes:
            if recipe not in recipes:
                raise UserError(
                    f"{path}: {claim.claim!r}: there is no recipe {recipe!r}"
                    f"{suggestion(recipe, recipes)}"
                )
    return claims


def verdicts(claims: Sequence[Claim], found: Mapping[str, TrackResults]) -> list[ClaimVerdict]:
    """Judge the claims on tracks of a study.

    Args:
        claims: Claims; those on other tracks are left out.
        found: What is finished, by track.
    """
    return [
        _judge(claim, found[claim.track]) if claim.compared is None else _compared(claim, found)
        for claim in claims
        if claim.track in found
    ]


def _judge(claim: Claim, results: TrackResults) -> ClaimVerdict:
    if absent := [recipe for recipe in claim.recipes if recipe not in results.methods]:
        return ClaimVerdict(claim, "incomplete", f"the study does not run {', '.join(absent)} here")
    whole = claim.best is not None and not claim.among
    methods = [results.methods[name] for name in (results.methods if whole else claim.recipes)]
    if claim.learns is not None:
        if results.init is None:
            return ClaimVerdict(claim, "incomplete", "the init was not played")
        if (learned := _learned(claim, methods, results)) is not None:
            return learned
    if lacking := [method for method in methods if method.missing]:
        parts = [_finished(methods), *map(_missing, lacking), *_so_far(claim, methods, results)]
        return ClaimVerdict(claim, "incomplete", "; ".join(parts))
    return _if_seeds(
        _by_rule(claim, results), {method.recipe: len(method.runs) for method in methods}
    )


def _if_seeds(verdict: ClaimVerdict, seeds: Mapping[str, int]) -> ClaimVerdict:
    """The verdict, or that there are too few seeds for one."""
    least = verdict.claim.least_seeds
    few = ", ".join(f"{name} {count}" for name, count in seeds.items() if count < least)
    if not few:
        return verdict
    numbers = f"{verdict.numbers}; {least} seeds of each are needed, available: {few}"
    return replace(verdict, outcome="not decided", numbers=numbers)


def _compared(claim: Claim, found: Mapping[str, TrackResults]) -> ClaimVerdict:
    """Judge a method on one track by the same method on others."""
    recipe = claim.compared
    assert recipe is not None
    tracks = {name: found[name] for name in (claim.track, *claim.against) if name in found}
    runs = {name: each.methods[recipe] for name, each in tracks.items() if recipe in each.methods}
    absent = [name for name in (claim.track, *claim.against) if name not in runs]
    if absent:
        return ClaimVerdict(
            claim, "incomplete", f"the study has no {recipe} on {', '.join(absent)}"
        )
    lacking = {name: method for name, method in runs.items() if method.missing}
    if lacking:
        parts = [f"{name}: {_missing(method)}" for name, method in lacking.items()]
        numbers = "; ".join([_finished([*runs.values()]), *parts])
        return ClaimVerdict(claim, "incomplete", numbers)
    results, others = found[claim.track], [found[name] for name in claim.against]
    where = ""
    if claim.at == "seconds":
        equal = across_tracks_at_equal_seconds(recipe, results, others[0])
        where, margin = ("", None) if equal is None else (f" after {equal[0]:,} s", equal[1])
    else:
        margin = across_tracks(recipe, results, others, results.panels)
    if margin is None:
        lacking_what = "seconds in the logs" if claim.at == "seconds" else "runs on the same panels"
        numbers = f"{', '.join(claim.against)}: no {lacking_what} to compare with"
        return ClaimVerdict(claim, "not decided", numbers)
    numbers = f"{recipe}{where}: {points(margin)}"
    if claim.at == "end":
        numbers += _by_task(results, lambda panel: across_tracks(recipe, results, others, [panel]))
    verdict = ClaimVerdict(claim, _above(margin, claim.above), numbers)
    waited = [
        f"a run on {name} had {method.busy:.2f} cores, {method.busy_alone:g} are needed"
        for name, method in runs.items()
        if method.busy < method.busy_alone
    ]
    if claim.at == "seconds" and waited:
        numbers += f"; not judged, since the machine was shared: {', '.join(waited)}"
        verdict = replace(verdict, outcome="not decided", numbers=numbers)
    return _if_seeds(verdict, {name: len(method.runs) for name, method in runs.items()})


def _so_far(claim: Claim, methods: Sequence[RecipeRuns], results: TrackResults) -> list[str]:
    """The numbers of an undecided claim, where methods have seeds enough to say something."""
    enough = [method.recipe for method in methods if len(method.runs) >= LEAST_SEEDS]
    if claim.learns is not None and enough:
        return [f"so far: {_learns(claim, enough, results).numbers}"]
    if claim.learns is None and len(enough) == len(methods):
        return [f"so far: {_by_rule(claim, results).numbers}"]
    if claim.best in enough and len(enough) > 1:
        known = claim.model_copy(update={"among": tuple(enough)})
        others = counted(len(enough) - 1, "method")
        return [f"so far, of {others} with three seeds: {_by_rule(known, results).numbers}"]
    return []


def _by_rule(claim: Claim, results: TrackResults) -> ClaimVerdict:
    if claim.collapses is not None or claim.holds is not None:
        return _collapses(claim, results)
    if claim.best is not None:
        return _best(claim, claim.best, results)
    if claim.better is not None:
        first, second = claim.better
        margin = results.between(first, second, results.panels)
        assert margin is not None
        numbers = f"{first} minus {second}: {points(margin)}"
        numbers += _by_task(results, lambda panel: results.between(first, second, [panel]))
        numbers += _equal_text(first, second, results)
        methods = [results.methods[name] for name in claim.better]
        rates = [method.learning_rate for method in methods]
        if len({*rates}) > 1:
            numbers += f"; learning rates {' and '.join(f'{rate:g}' for rate in rates)}"
        if any(method.collapsed for method in methods):
            counts = [f"{each.recipe} {collapsed_text(each)}" for each in methods]
            numbers += f"; collapsed: {', '.join(counts)}"
        return ClaimVerdict(claim, _above(margin, 0.0), numbers)
    assert claim.learns is not None
    return _learns(claim, claim.learns, results)


def _learned(
    claim: Claim, methods: Sequence[RecipeRuns], results: TrackResults
) -> ClaimVerdict | None:
    """The verdict where a method with all its seeds learns: no missing run can take that back."""
    whole = [m.recipe for m in methods if not m.missing and len(m.runs) >= LEAST_SEEDS]
    verdict = _learns(claim, whole, results) if whole else None
    if verdict is None or verdict.outcome != "reproduced":
        return None
    if lacking := [method for method in methods if method.missing]:
        numbers = "; ".join([verdict.numbers, _finished(methods), *map(_missing, lacking)])
        verdict = replace(verdict, numbers=numbers)
    return verdict


def _learns(claim: Claim, methods: Sequence[str], results: TrackResults) -> ClaimVerdict:
    found = {each: results.gain(each, results.panels) for each in methods}
    gains = {each: gain for each, gain in found.items() if gain is not None}
    most = max(gains, key=lambda each: gains[each].value)
    outcome = _above(gains[most], claim.by)
    if outcome == "reproduced" and gains[most].value < claim.gain:
        outcome = "not decided"
    numbers = f"{most} minus its init: {points(gains[most])}"
    numbers += _by_task(results, lambda panel: results.gain(most, [panel]))
    return ClaimVerdict(claim, outcome, numbers)


def _best(claim: Claim, best: str, results: TrackResults) -> ClaimVerdict:
    others = [recipe for recipe in claim.among or results.methods if recipe != best]
    margins = {other: results.between(best, other, results.panels) for other in others}
    found = {other: margin for other, margin in margins.items() if margin is not None}
    if not found:
        return ClaimVerdict(claim, "incomplete", "there is no other method")
    outcomes = {_above(margin, 0.0) for margin in found.values()}
    if outcomes == {"reproduced"}:
        outcome: Outcome = "reproduced"
    else:
        outcome = "contradicted" if "contradicted" in outcomes else "not decided"
    nearest = sorted(found, key=lambda other: found[other].value)[:3]
    numbers = ", ".join(
        f"{other} {points(found[other])}{_equal_text(best, other, results)}" for other in nearest
    )
    of = counted(len(others), "method")
    return ClaimVerdict(claim, outcome, f"{best} minus the nearest of {of}: {numbers}")


def _by_task(results: TrackResults, margin_on: Callable[[PanelKey], Interval | None]) -> str:
    """The difference on each task; empty where the track has one."""
    if len(results.panels) < 2:
        return ""
    margins = ((panel[0], margin_on(panel)) for panel in results.panels)
    return "".join(f", {task} {points_text(one)}" for task, one in margins if one is not None)


def _equal_text(first: str, second: str, results: TrackResults) -> str:
    """The difference where both have played as much; empty where that is the end of both."""
    equal = results.between_at_equal_episodes(first, second, results.panels)
    return "" if equal is None else f" (at {equal[0]:,} episodes each: {points(equal[1])})"


def _collapses(claim: Claim, results: TrackResults) -> ClaimVerdict:
    named = [results.methods[name] for name in (claim.collapses, claim.holds) if name]
    if short := [method for method in named if method.unknown]:
        said = "; ".join(map(_collapses_text, named))
        lacking = ", ".join(f"{each.recipe} {each.unknown} of {len(each.runs)}" for each in short)
        numbers = f"{said}; validations too few to show a collapse: {lacking}"
        return ClaimVerdict(claim, "not decided", numbers)
    if claim.collapses and claim.holds:
        one, other = named
        more, fewer = (
            chance_of_more(len(x.collapsed), len(x.runs), len(y.collapsed), len(y.runs))
            for x, y in ((one, other), (other, one))
        )
        numbers = f"{_collapses_text(one)}; {_collapses_text(other)}; {chance_text(more, fewer)}"
        return ClaimVerdict(claim, _if_rare(more, fewer), numbers)
    (method,) = named
    runs, collapsed = len(method.runs), len(method.collapsed)
    many, few = chance_of_half(collapsed, runs), chance_of_half(runs - collapsed, runs)
    wanted = (many, few) if claim.collapses else (few, many)
    numbers = f"{_collapses_text(method)}, {chance_text(*wanted)}"
    return ClaimVerdict(claim, _if_rare(*wanted), numbers)


def _collapses_text(method: RecipeRuns) -> str:
    faded = f", {len(method.faded)} more at half of their best" if method.faded else ""
    return f"{method.recipe} {collapsed_text(method)}{faded}"


def _if_rare(claimed: Fraction, opposite: Fraction) -> Outcome:
    if claimed <= RARE:
        return "reproduced"
    return "contradicted" if opposite <= RARE else "not decided"


def _above(margin: Interval, least: float) -> Outcome:
    if margin.low > least:
        return "reproduced"
    return "contradicted" if margin.high < least else "not decided"


def _finished(methods: Sequence[RecipeRuns]) -> str:
    there = sum(len(method.runs) for method in methods)
    return f"{there} of {there + sum(len(method.missing) for method in methods)} runs"


def _missing(method: RecipeRuns) -> str:
    seeds = ", ".join(map(str, method.missing))
    return f"{method.recipe} lacks {plural(len(method.missing), 'seed')} {seeds}"


def points(margin: Interval) -> str:
    """A difference of success rates in points, with its interval."""
    return f"{points_text(margin)} points"


def collapsed_text(method: RecipeRuns) -> str:
    """How many seeds collapsed, where, and the interval of the share; a dash if none can say."""
    count, runs = len(method.collapsed), len(method.runs)
    when = f" after update {', '.join(map(str, method.collapsed))}" if count else ""
    if method.unknown:
        return f"{count}{when}, {method.unknown} unknown" if count else "-"
    share = collapse_share(method)
    return f"{count} of {runs}{when} ({range_text(share.low, share.high)})"
