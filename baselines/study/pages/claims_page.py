"""The page of all claims: verdict, numbers and interval of each, and the rules."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final, get_args

from baselines.study.chance import RARE
from baselines.study.claims import Claims
from baselines.study.pages.markdown import fill, markdown_table, wrapped, write_page
from baselines.study.pages.track_pages import PAGE
from baselines.study.verdicts import ClaimVerdict, Outcome
from baselines.tracks import registry
from tasks.errors import os_error_as
from tasks.texts import counted

TEMPLATE: Final = Path(__file__).with_name("claims.md.j2")
CLAIMS: Final = "claims.md"
OWN: Final = "Goals of the tracks"
"""Heading of claims without a source."""


def write_claims(
    judged: Sequence[ClaimVerdict],
    once: Sequence[ClaimVerdict],
    listed: Claims,
    source: Path,
    results: Path,
) -> Path:
    """Write all claims with their verdicts to a results folder; return the page.

    Args:
        judged: See `claims_page`.
        once: Likewise.
        listed: Likewise.
        source: Likewise.
        results: The folder.

    Raises:
        UserError: It cannot be written.
    """
    page = results / CLAIMS
    with os_error_as(f"{page} cannot be written"):
        write_page(page, claims_page(judged, once, listed, source, results), results)
    return page


def claims_page(
    judged: Sequence[ClaimVerdict],
    once: Sequence[ClaimVerdict],
    listed: Claims,
    source: Path,
    results: Path,
) -> str:
    """All claims with their verdicts, as Markdown.

    Args:
        judged: Verdicts, in the order of the claims.
        once: Verdicts on the same claims with the noise of single plays counted once.
        listed: The claims, with withdrawn ones and pilot runs.
        source: The claims file.
        results: Folder of the tracks' pages.
    """
    sections = []
    for of in sorted({v.claim.of for v in judged}, key=lambda of: (not of, of)):
        own = [verdict for verdict in judged if verdict.claim.of == of]
        rows = [
            [
                v.claim.claim,
                ", ".join(_linked(track, results) for track in v.claim.tracks),
                v.shown,
                v.numbers,
            ]
            for v in own
        ]
        table = markdown_table(("claim", "track", "verdict", "numbers"), rows)
        sections.append({"heading": of or OWN, "tally": _tally(own), "table": table})
    return fill(
        TEMPLATE,
        file=source.name,
        link=Path(os.path.relpath(source, registry.RESULTS)).as_posix(),
        count=len(judged),
        sections=sections,
        corrected=_corrected(judged),
        once=_changed(judged, once, results),
        withdrawn=markdown_table(
            ("claim", "track", "known by then", "why"),
            [[w.claim, _linked(w.track, results), w.known, w.why] for w in listed.withdrawn],
        )
        if listed.withdrawn
        else "",
        pilots=markdown_table(
            ("track", "run", "what it decided"),
            [
                [_linked(p.track, results), f"{p.recipe}, seed {p.seed}", p.why]
                for p in listed.pilots
            ],
        )
        if listed.pilots
        else "",
    )


def _changed(judged: Sequence[ClaimVerdict], once: Sequence[ClaimVerdict], results: Path) -> str:
    """Claims whose verdict depends on how often the noise of single plays is counted."""
    rows = [
        [
            new.claim.claim,
            ", ".join(_linked(track, results) for track in new.claim.tracks),
            old.outcome,
            new.outcome,
            new.numbers,
        ]
        for old, new in zip(judged, once, strict=True)
        if old.outcome != new.outcome
    ]
    head = ("claim", "track", "verdict", "with noise counted once", "numbers then")
    return markdown_table(head, rows) if rows else ""


def _corrected(judged: Sequence[ClaimVerdict]) -> str:
    """How many claims about collapses stay reproduced after correction for all claims."""
    found = [v for v in judged if v.outcome == "reproduced" and v.chance is not None]
    limit = RARE / len(judged)
    kept = [v for v in found if v.chance is not None and v.chance <= limit]
    hindsight = sum(verdict.claim.post_hoc for verdict in found)
    rest = [v for v in judged if v.outcome == "reproduced" and v.chance is None]
    fragile = sum(verdict.unsteady for verdict in rest)
    return wrapped(
        f"Nothing is corrected for the number of claims. Of the {counted(len(found), 'claim')} "
        f"about collapses that are reproduced, {len(kept)} would be if all {len(judged)} claims "
        f"were corrected for (Bonferroni: a chance of at most 1 in {limit.denominator:,}). "
        f"That corrects neither for the choice of a setting nor for hindsight: {hindsight} of "
        f"these {len(found)} are post hoc, so that their chances describe runs and test nothing. "
        f"{counted(len(rest), 'other')} {'is' if len(rest) == 1 else 'are'} reproduced by an "
        f"interval; in {fragile} of them, seeds of a method collapsed or lost half, and such an "
        "interval is too narrow (below)."
    )


def _tally(judged: Sequence[ClaimVerdict]) -> str:
    """Number of claims per outcome, such as `3 claims: 1 reproduced (1 post hoc), ...`."""
    counts = Counter(verdict.outcome for verdict in judged)
    after = Counter(verdict.outcome for verdict in judged if verdict.claim.post_hoc)
    parts = (
        f"{counts[each]} {each}" + (f" ({after[each]} post hoc)" if after[each] else "")
        for each in get_args(Outcome)
    )
    return f"{counted(len(judged), 'claim')}: {', '.join(parts)}."


def _linked(track: str, results: Path) -> str:
    """A track's name with a link to its page, if it has one."""
    return f"[{track}]({track}/{PAGE})" if (results / track / PAGE).exists() else track
