"""A short summary of the results, above the table on a first page."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from baselines.study.claims import LEAST_SEEDS
from baselines.study.methods import TrackResults
from baselines.study.pages.collapse_counts import collapse_counts, collapse_text
from baselines.study.pages.markdown import bullets
from baselines.study.verdicts import ClaimVerdict
from benchmark.stats.intervals import Interval
from tasks.texts import counted

BASELINE: Final = "grpo"
"""The baseline of other methods."""


def headlines(
    found: Mapping[str, TrackResults],
    kinds: Mapping[str, Sequence[str]],
    judged: Sequence[ClaimVerdict],
    withdrawn: int,
    claims_page: str,
    collapses_page: str,
) -> str:
    """A few points, as Markdown: differences from a baseline, collapses, claims.

    Args:
        found: Finished results by track.
        kinds: Names of the tracks of each kind to compare with the baseline.
        judged: All judged claims; if empty, they are left out.
        withdrawn: Number of withdrawn claims.
        claims_page: Link to the page of the claims.
        collapses_page: Link to the collapses of all methods.
    """
    return bullets(
        [
            *_against_baseline(found, kinds, claims_page),
            collapse_text(collapse_counts(found), collapses_page),
            _claims(judged, withdrawn, claims_page),
        ]
    )


def _against_baseline(
    found: Mapping[str, TrackResults], kinds: Mapping[str, Sequence[str]], page: str
) -> list[str]:
    """Numbers of methods above and below the baseline, for each kind of tracks."""
    points = []
    for kind, tracks in kinds.items():
        there = [found[track] for track in tracks if track in found]
        if not (margins := _margins(there, equal_episodes=True)):
            continue
        widths = sorted(50 * (margin.high - margin.low) for margin in margins.values())
        whole = _margins(there, equal_episodes=False)
        same = _beyond(whole) == _beyond(margins)
        ends = [f"{width:.0f}" for width in (widths[0], widths[-1])]
        points.append(
            f"On `{kind}` tracks, of {counted(len(margins), 'comparison')} with `{BASELINE}` after "
            f"equal training episodes, {_counts(margins)}. Half-widths of the intervals: "
            f"{' to '.join(dict.fromkeys(ends))} points. After equal updates, with more episodes "
            f"for dynamic sampling, {'the same' if same else _counts(whole)}."
        )
    if points:
        points[-1] += (
            f" A comparison is a method on a track, with at least {LEAST_SEEDS} seeds; all on a "
            f"track share its runs of `{BASELINE}`. Nothing is corrected for their number, and "
            "where runs collapse, intervals of a few seeds are "
            f"[too narrow]({page}#how-good-the-intervals-are)."
        )
    return points


def _margins(
    found: Sequence[TrackResults], *, equal_episodes: bool
) -> dict[tuple[str, str], Interval]:
    """Methods minus the baseline, by track and recipe, without those with too few seeds.

    Args:
        found: Results of the tracks.
        equal_episodes: Compare after equal training episodes instead of equal updates.
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
    """Pairs with an interval above 0, and pairs with one below."""
    above = [key for key, margin in margins.items() if margin.low > 0]
    return above, [key for key, margin in margins.items() if margin.high < 0]


def _counts(margins: Mapping[tuple[str, str], Interval]) -> str:
    above, below = _beyond(margins)
    if not above and not below:
        return "none shows a difference"
    verb = "is" if len(above) == 1 else "are"
    return f"{len(above)} {verb} higher{_listed(above)} and {len(below)} lower{_listed(below)}"


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    """Methods by track, such as ` (sokoban-stress: gspo, sampo)`."""
    by_track: dict[str, list[str]] = defaultdict(list)
    for track, recipe in pairs:
        by_track[track].append(f"`{recipe}`")
    parts = [f"{track}: {', '.join(recipes)}" for track, recipes in by_track.items()]
    return f" ({'; '.join(parts)})" if parts else ""


def _claims(judged: Sequence[ClaimVerdict], withdrawn: int, page: str) -> str:
    """Outcomes of the claims made before their numbers, and the number of post hoc claims."""
    if not judged:
        return ""
    before = [verdict for verdict in judged if not verdict.claim.post_hoc]
    after = [verdict for verdict in judged if verdict.claim.post_hoc]
    counts = Counter(verdict.outcome for verdict in before)
    goals = sum(v.claim.learns is not None and v.outcome == "reproduced" for v in before)
    said = (
        f"Of [{counted(len(judged), 'claim')}]({page}), {_were(len(before))} written before the "
        f"numbers were known: {counts['reproduced']} reproduced"
        f"{_goals(goals, counts['reproduced'])}, "
        f"{counts['contradicted']} contradicted, {counts['not decided']} not decided, "
        f"{counts['incomplete']} incomplete."
    )
    if after:
        held = sum(verdict.outcome == "reproduced" for verdict in after)
        said += (
            f" {_were(len(after))} written or changed afterward, which describes runs and tests "
            f"nothing: {held} reproduced."
        )
    if withdrawn:
        said += f" {_were(withdrawn, 'more ')} [withdrawn]({page}#withdrawn)."
    return said


def _goals(goals: int, reproduced: int) -> str:
    """How many of the reproduced claims only state that a track works as designed."""
    if not goals:
        return ""
    which = "" if goals == reproduced == 1 else f"{goals} of them "
    return f" ({which}a goal that its track was made for)"


def _were(count: int, of: str = "") -> str:
    return f"{count} {of}{'was' if count == 1 else 'were'}"
