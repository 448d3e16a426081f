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
    """How many methods are above the baseline, and how many below, on each kind of tracks."""
    said, at_end = [], []
    for kind, tracks in kinds.items():
        there = [found[track] for track in tracks if track in found]
        if not (margins := _margins(there, equal_episodes=True)):
            continue
        said.append(f"on `{kind}` tracks, {_counts(margins)}")
        whole = _margins(there, equal_episodes=False)
        same = _beyond(whole) == _beyond(margins)
        at_end.append(f"on `{kind}` tracks, {'the same' if same else _counts(whole)}")
    if not said:
        return ""
    return (
        f"Methods with three seeds, compared with `{BASELINE}` after equal training episodes: "
        f"{'; '.join(said)}. "
        "After equal updates, as claims are judged, with more episodes for dynamic sampling: "
        f"{'; '.join(at_end)}. Higher: the interval of the difference is above 0; nothing is "
        f"corrected for the number of comparisons, and all on a track share the seeds of "
        f"`{BASELINE}`. Where runs collapse, intervals of a few seeds are [too narrow]({page})."
    )


def _margins(
    found: Sequence[TrackResults], *, equal_episodes: bool
) -> dict[tuple[str, str], Interval]:
    """Methods minus the baseline, by track and recipe; those with too few seeds are left out.

    Args:
        found: Tracks.
        equal_episodes: After equal training episodes instead of equal updates.
    """
    margins = {}
    for results in found:
        enough = [name for name, each in results.methods.items() if len(each.runs) >= LEAST_SEEDS]
        for recipe in enough if BASELINE in enough else ():
            margin = results.between(recipe, BASELINE, results.panels)
            equal = results.between_at_equal_episodes(recipe, BASELINE, results.panels)
            if equal_episodes and equal is not None:
                margin = equal[1]
            if recipe != BASELINE and margin is not None:
                margins[results.track, recipe] = margin
    return margins


def _beyond(margins: Mapping[tuple[str, str], Interval]) -> tuple[list[tuple[str, str]], ...]:
    """Those whose interval is above 0, and those whose is below."""
    above = [key for key, margin in margins.items() if margin.low > 0]
    return above, [key for key, margin in margins.items() if margin.high < 0]


def _counts(margins: Mapping[tuple[str, str], Interval]) -> str:
    above, below = _beyond(margins)
    return (
        f"{len(above)} of {len(margins)} {'is' if len(above) == 1 else 'are'} higher"
        f"{_listed(above)} and "
        f"{len(below)} lower{_listed(below)}"
    )


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    """Methods by track, such as ` (sokoban-stress: gspo, sampo)`."""
    by_track: dict[str, list[str]] = defaultdict(list)
    for track, recipe in pairs:
        by_track[track].append(f"`{recipe}`")
    parts = [f"{track}: {', '.join(recipes)}" for track, recipes in by_track.items()]
    return f" ({'; '.join(parts)})" if parts else ""


def _collapses(found: Mapping[str, TrackResults]) -> str:
    """Collapsed and halved runs of each method, over the tracks on which any method's collapsed.

    Tracks whose runs cannot show that they have not collapsed are named apart: there, only
    collapses would count.
    """
    runs: Counter[str] = Counter()
    collapsed: Counter[str] = Counter()
    halved: Counter[str] = Counter()
    apart = []
    for track, results in found.items():
        methods = results.methods.values()
        fallen = sum(len(method.collapsed) for method in methods)
        if fallen and not results.shows_collapses:
            apart.append(f"{fallen} of {sum(len(method.runs) for method in methods)} on {track}")
        elif fallen:
            for method in methods:
                runs[method.recipe] += len(method.runs)
                collapsed[method.recipe] += len(method.collapsed)
                halved[method.recipe] += len(method.halved)
    order = sorted(+runs, key=lambda name: (-collapsed[name] / runs[name], -runs[name]))
    late = {name: f" (and {halved[name]} halved)" if halved[name] else "" for name in order}
    counts = [f"`{name}` {collapsed[name]} of {runs[name]}{late[name]}" for name in order]
    said = []
    if counts:
        said.append(
            "Collapsed runs, over all tracks with at least one collapse, sweeps aside (not every "
            f"method ran on each): {', '.join(counts)}."
        )
    if apart:
        said.append(
            f"{'Not counted' if counts else 'Collapsed runs'}: {', '.join(apart)}, where runs have "
            "too few validations to show that they have not collapsed."
        )
    return " ".join(said)


def _claims(judged: Sequence[ClaimVerdict], page: str) -> str:
    if not judged:
        return ""
    counts = Counter(verdict.outcome for verdict in judged)
    reproduced = [verdict.claim for verdict in judged if verdict.outcome == "reproduced"]
    after = sum(claim.post_hoc for claim in reproduced)
    goals = sum(claim.learns is not None and not claim.post_hoc for claim in reproduced)
    breaking = [claim for claim in reproduced if claim.collapses and claim.holds]
    pooled = sum(bool(claim.also) for claim in breaking)
    made = f", {goals} a goal that its track was made for" if goals else ""
    if breaking:
        made += f"; {len(breaking)} compare collapses on tracks designed to break a method"
        made += f", and {pooled} of these pool the runs of the others" if pooled else ""
    return (
        f"Of [{counted(len(judged), 'claim')}]({page}), {counts['reproduced']} are reproduced "
        f"({after} of them written down when their numbers were known{made}), "
        f"{counts['contradicted']} contradicted, {counts['not decided']} not decided, "
        f"{counts['incomplete']} incomplete. Where no seed collapses, intervals of differences are "
        f"[wider than necessary]({page}#how-good-the-intervals-are), which leaves some undecided."
    )
