"""Verdicts on claims, from finished cells.

A verdict consists only of a rule and numbers. A claim with a missing planned run is incomplete: the
finished runs do not decide it, although numbers are shown if every method has three seeds. One or
two seeds do not decide anything either.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from baselines.study.chance import (
    RARE,
    Counts,
    chance_of_half,
    chance_of_more,
    chance_text,
)
from baselines.study.claims import LEAST_SEEDS, Claim, Pilot
from baselines.study.methods import (
    PanelKey,
    RecipeRuns,
    TrackResults,
    across_tracks,
    across_tracks_at_equal_seconds,
)
from benchmark.stats.formatting import points_text, range_text
from benchmark.stats.intervals import Interval, exact
from tasks.texts import counted, plural

Outcome = Literal["reproduced", "contradicted", "not decided", "incomplete"]


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """The verdict on a claim.

    Attributes:
        claim: The claim.
        outcome: Whether it is reproduced.
        numbers: The deciding numbers, as text; empty if there are none.
        chance: Probability of such numbers by chance, for judged claims about collapses.
        unsteady: Whether a run of one of its methods collapsed, or ended at half of its best.
    """

    claim: Claim
    outcome: Outcome
    numbers: str
    chance: Fraction | None = None
    unsteady: bool = False

    @property
    def shown(self) -> str:
        """The outcome as Markdown, always marked if the claim is post hoc."""
        return f"**{self.outcome}**" + (" (post hoc)" if self.claim.post_hoc else "")


def verdicts(
    claims: Sequence[Claim], found: Mapping[str, TrackResults], pilots: Sequence[Pilot] = ()
) -> list[ClaimVerdict]:
    """Judge the claims on tracks of a study.

    Args:
        claims: Claims; those on other tracks are left out.
        found: Finished results by track.
        pilots: Runs to exclude from claims about collapses.
    """
    return [_verdict_without(claim, found, pilots) for claim in claims if claim.track in found]


def verdicts_with_noise_once(
    claims: Sequence[Claim], found: Mapping[str, TrackResults], pilots: Sequence[Pilot] = ()
) -> list[ClaimVerdict]:
    """Like `verdicts`, with the noise of single plays counted once (`benchmark.stats.crossed`)."""
    crossed = {name: replace(each, crossed=True) for name, each in found.items()}
    return verdicts(claims, crossed, pilots)


def _verdict_without(
    claim: Claim, found: Mapping[str, TrackResults], pilots: Sequence[Pilot]
) -> ClaimVerdict:
    held = claim.recipes if claim.collapses or claim.holds else ()
    tested, left_out = dict(found), []
    for pilot in pilots:
        results = found.get(pilot.track)
        if results is None or pilot.track not in claim.tracks or pilot.recipe not in held:
            continue
        tested[pilot.track] = tested[pilot.track].without(pilot.recipe, pilot.seed)
        method = results.methods.get(pilot.recipe)
        if method is not None and any(run.cell.seed == pilot.seed for run in method.runs):
            name = f"{pilot.recipe} seed {pilot.seed} on {pilot.track}"
            left_out.append(f"left out: {name}, a pilot run")
    verdict = _verdict(claim, tested)
    methods = tested[claim.track].methods
    named = (methods[recipe] for recipe in claim.recipes if recipe in methods)
    unsteady = any(method.collapsed or method.halved for method in named)
    return replace(verdict, numbers="; ".join([verdict.numbers, *left_out]), unsteady=unsteady)


def _verdict(claim: Claim, found: Mapping[str, TrackResults]) -> ClaimVerdict:
    if claim.compared is not None:
        return _compared(claim, found)
    if claim.also:
        return _on_all_tracks(claim, found)
    return _judge(claim, found[claim.track])


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
    """The verdict, or a note that there are too few seeds."""
    least = verdict.claim.least_seeds
    few = ", ".join(f"{name} {count}" for name, count in seeds.items() if count < least)
    if not few:
        return verdict
    numbers = f"{verdict.numbers}; {least} seeds of each are needed, available: {few}"
    return replace(verdict, outcome="not decided", numbers=numbers)


def _compared(claim: Claim, found: Mapping[str, TrackResults]) -> ClaimVerdict:
    """Judge a method on one track against the same method on others."""
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
    if claim.above < margin.high < 0:
        numbers += "; a loss, of which it is open whether it is smaller than claimed"
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
    """The numbers of an undecided claim, if methods have enough seeds."""
    if claim.collapses or claim.holds:
        there = [method for method in methods if method.runs]
        return [f"so far: {', '.join(map(_collapses_text, there))}"] if there else []
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
            numbers += f"; collapsed: {'; '.join(map(_collapses_text, methods))}"
        elif halved := [method for method in methods if method.halved]:
            counts = (f"{each.recipe} {len(each.halved)} of {len(each.runs)}" for each in halved)
            numbers += f"; at half of their best in the end: {', '.join(counts)}"
        return ClaimVerdict(claim, _above(margin, 0.0), numbers)
    assert claim.learns is not None
    return _learns(claim, claim.learns, results)


def _learned(
    claim: Claim, methods: Sequence[RecipeRuns], results: TrackResults
) -> ClaimVerdict | None:
    """The verdict if a method with all its seeds learns, which no missing run can change."""
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
    gain = gains[most]
    outcome: Outcome = "not decided"
    if gain.low > claim.by and gain.value >= claim.gain:
        outcome = "reproduced"
    elif gain.high < max(claim.gain, claim.by):
        outcome = "contradicted"
    numbers = f"{most} minus its init: {points(gain)}"
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
    """The difference on each task; empty if the track has only one."""
    if len(results.panels) < 2:
        return ""
    margins = ((panel[0], margin_on(panel)) for panel in results.panels)
    return "".join(f", {task} {points_text(one)}" for task, one in margins if one is not None)


def _equal_text(first: str, second: str, results: TrackResults) -> str:
    """The difference after equally many episodes; empty if that is the end of both."""
    equal = results.between_at_equal_episodes(first, second, results.panels)
    return "" if equal is None else f" (at {equal[0]:,} episodes each: {points(equal[1])})"


def _collapses(claim: Claim, results: TrackResults) -> ClaimVerdict:
    named = [results.methods[name] for name in (claim.collapses, claim.holds) if name]
    said = "; ".join(map(_collapses_text, named))
    gains = {each.recipe: results.gain(each.recipe, results.panels) for each in named}
    texts = [f"{name} {points_text(gain)}" for name, gain in gains.items() if gain is not None]
    over_init = f"; gain over the init: {', '.join(texts)}" if texts else ""
    if short := [method for method in named if method.unknown]:
        lacking = ", ".join(f"{each.recipe} {each.unknown} of {len(each.runs)}" for each in short)
        numbers = f"{said}; validations too few to show a collapse: {lacking}{over_init}"
        return ClaimVerdict(claim, "not decided", numbers)
    if claim.collapses and claim.holds:
        counts = _counts(*named)
        wanted = chance_of_more(counts), chance_of_more(counts.swapped())
    else:
        (method,) = named
        runs, collapsed = len(method.runs), len(method.collapsed)
        many, few = chance_of_half(collapsed, runs), chance_of_half(runs - collapsed, runs)
        wanted = (many, few) if claim.collapses else (few, many)
    numbers = f"{said}; {chance_text(*wanted)}{over_init}"
    return ClaimVerdict(claim, _if_rare(*wanted), numbers, min(wanted))


def _on_all_tracks(claim: Claim, found: Mapping[str, TrackResults]) -> ClaimVerdict:
    """Judge two methods' collapses on several tracks together."""
    pairs: dict[str, tuple[RecipeRuns, RecipeRuns]] = {}
    for name in claim.tracks:
        methods = found[name].methods if name in found else {}
        if absent := [recipe for recipe in claim.recipes if recipe not in methods]:
            numbers = f"the study does not run {', '.join(absent)} on {name}"
            return ClaimVerdict(claim, "incomplete", numbers)
        first, second = (methods[recipe] for recipe in claim.recipes)
        pairs[name] = first, second
    lacking = [
        f"{name}: {_missing(method)}"
        for name, pair in pairs.items()
        for method in pair
        if method.missing
    ]
    if lacking:
        parts = [_finished([method for pair in pairs.values() for method in pair]), *lacking]
        return ClaimVerdict(claim, "incomplete", "; ".join(parts))
    said = "; ".join(
        f"{name}: {', '.join(f'{each.recipe} {_count_text(each)}' for each in pair)}"
        for name, pair in pairs.items()
    )
    if any(method.unknown for pair in pairs.values() for method in pair):
        numbers = f"{said}; validations too few to show a collapse"
        return ClaimVerdict(claim, "not decided", numbers)
    counts = [_counts(*pair) for pair in pairs.values()]
    wanted = chance_of_more(*counts), chance_of_more(*(each.swapped() for each in counts))
    numbers = f"{said}; {chance_text(*wanted)}"
    return ClaimVerdict(claim, _if_rare(*wanted), numbers, min(wanted))


def _counts(one: RecipeRuns, other: RecipeRuns) -> Counts:
    return Counts(len(one.collapsed), len(one.runs), len(other.collapsed), len(other.runs))


def _count_text(method: RecipeRuns) -> str:
    return f"{len(method.collapsed)} of {len(method.runs)}"


def _collapses_text(method: RecipeRuns) -> str:
    halved = f", {len(method.halved)} more at half of their best" if method.halved else ""
    return f"{method.recipe} {collapsed_text(method)}{halved}"


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
    """A difference of success rates in percentage points, with its interval."""
    return f"{points_text(margin)} points"


def collapsed_text(method: RecipeRuns) -> str:
    """How many seeds collapsed, where, and the share's interval; a dash if no log shows it."""
    count, runs = len(method.collapsed), len(method.runs)
    when = f" after update {', '.join(map(str, method.collapsed))}" if count else ""
    if method.unknown:
        return f"{count}{when}, {method.unknown} unknown" if count else "-"
    share = exact(count, runs)
    return f"{count} of {runs}{when} ({range_text(share.low, share.high)})"
