"""What the results say in a few lines, above the table on a first page."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from baselines.study.claims import LEAST_SEEDS
from baselines.study.methods import TrackResults
from baselines.study.pages.markdown import bullets
from baselines.study.verdicts import ClaimVerdict
from benchmark.stats.intervals import Interval
from tasks.texts import counted

BASELINE: Final = "grpo"
"""What other methods are compared with."""


def headlines(
    found: Mapping[str, TrackResults],
    kinds: Mapping[str, Sequence[str]],
    judged: Sequence[ClaimVerdict],
    claims_page: str,
) -> str:
    """Three points, as Markdown: differences from a baseline, collapses, claims.

    Args:
        found: What is finished, by track.
        kinds: Names of the tracks of each kind that is compared with the baseline.
        judged: All claims; without any they are left out.
        claims_page: Link to the page of the claims.
    """
    return bullets(
        [
            _against_baseline(found, kinds, claims_page),
            _collapses(found),
            _claims(judged, claims_page),
        ]
    )


def _against_baseline(
    found: Mapping[str, TrackResults], kinds: Mapping[str, Sequence[str]], page: str
) -> str:
    """How many methods end higher than the baseline, and how many lower, on each kind of tracks."""
    said = []
    for kind, tracks in kinds.items():
        margins = {
            (track, recipe): margin
            for track in tracks
            if track in found
            for recipe in found[track].methods
            if (margin := _margin(found[track], recipe)) is not None
        }
        if not margins:
            continue
        above = [key for key, margin in margins.items() if margin.low > 0]
        below = [key for key, margin in margins.items() if margin.high < 0]
        said.append(
            f"on `{kind}` tracks, {len(above)} of {len(margins)} end higher{_listed(above)} and "
            f"{len(below)} lower{_listed(below)}"
        )
    if not said:
        return ""
    return (
        f"Methods with three seeds, compared with `{BASELINE}` after equal training episodes: "
        f"{'; '.join(said)}. Higher: the interval of the difference is above 0; nothing is "
        f"corrected for the number of comparisons, and all on a track share the seeds of "
        f"`{BASELINE}`. Where runs collapse, intervals of a few seeds are [too narrow]({page})."
    )


def _margin(results: TrackResults, recipe: str) -> Interval | None:
    """A method minus the baseline after equal training episodes; None with too few seeds."""
    pair = [results.methods.get(name) for name in (recipe, BASELINE)]
    if recipe == BASELINE or any(each is None or len(each.runs) < LEAST_SEEDS for each in pair):
        return None
    equal = results.between_at_equal_episodes(recipe, BASELINE, results.panels)
    return results.between(recipe, BASELINE, results.panels) if equal is None else equal[1]


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    """Methods by track, such as ` (sokoban-stress: gspo, sampo)`."""
    by_track: dict[str, list[str]] = defaultdict(list)
    for track, recipe in pairs:
        by_track[track].append(f"`{recipe}`")
    parts = [f"{track}: {', '.join(recipes)}" for track, recipes in by_track.items()]
    return f" ({'; '.join(parts)})" if parts else ""


def _collapses(found: Mapping[str, TrackResults]) -> str:
    """Collapsed runs of each method, over the tracks on which any method's collapsed.

    Runs of which nobody can say whether they have are counted apart.
    """
    runs: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    collapsed: Counter[str] = Counter()
    for results in found.values():
        methods = results.methods.values()
        if any(method.collapsed for method in methods):
            for method in methods:
                runs[method.recipe] += len(method.runs) - method.unknown
                unknown[method.recipe] += method.unknown
                collapsed[method.recipe] += len(method.collapsed)
    if not collapsed.total():
        return ""
    order = sorted(+runs, key=lambda name: (-collapsed[name] / runs[name], -runs[name]))
    counts = [
        f"`{name}` {collapsed[name]} of {runs[name]}"
        + (f" and {unknown[name]} unknown" if unknown[name] else "")
        for name in order
    ]
    return f"Collapsed runs, over all tracks with at least one collapse: {', '.join(counts)}."


def _claims(judged: Sequence[ClaimVerdict], page: str) -> str:
    if not judged:
        return ""
    counts = Counter(verdict.outcome for verdict in judged)
    reproduced = [verdict.claim for verdict in judged if verdict.outcome == "reproduced"]
    after = sum(claim.post_hoc for claim in reproduced)
    goals = sum(claim.learns is not None and not claim.post_hoc for claim in reproduced)
    made = f", {goals} a goal that its track was made for" if goals else ""
    return (
        f"Of [{counted(len(judged), 'claim')}]({page}), {counts['reproduced']} are reproduced "
        f"({after} of them written down when their numbers were known{made}), "
        f"{counts['contradicted']} contradicted, {counts['not decided']} not decided, "
        f"{counts['incomplete']} incomplete."
    )
