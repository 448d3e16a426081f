"""The result of a check: as JSON, and as the comment on a pull request."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final

from benchmark.submissions.badges import Badges
from benchmark.submissions.check import CheckResult
from benchmark.submissions.checks.results import (
    PanelResult,
    early_stops,
    foreign_stability_of,
    panel_results,
    stability_of,
)
from benchmark.submissions.checks.tracks import track_of
from benchmark.submissions.reading.entry import Entry
from benchmark.submissions.report_rows import (
    DIFFERENCE_HEAD,
    PANEL_HEAD,
    TRAINING_HEAD,
    ComparedEntry,
    badges_text,
    difference_rows,
    head_rows,
    panel_rows,
    stability_head,
    stability_rows,
    training_rows,
)
from tasks.texts import counted, on_one_line, printable

REPORT_VERSION = 1
ALONE: Final = "Nothing to compare with yet."
NO_LOGS: Final = "No training logs, so no stability metrics."
_MAX_COMMENT = 60_000
"""Maximum number of characters; GitHub accepts 65,536."""


def verdict_json(verdict: CheckResult, badges: Badges | None) -> str:
    """The verdict as JSON, with sorted keys and one final line break."""
    content: dict[str, Any] = {
        "report_version": REPORT_VERSION,
        "submission": verdict.folder.name,
        "accepted": verdict.accepted,
        "findings": [asdict(finding) for finding in verdict.findings],
        "replayed_episodes": verdict.replayed,
        "turns_in_doubt": verdict.doubts,
        "notes": list(verdict.notes),
        "badges": asdict(badges) if badges else None,
        "track": None,
        "panels": None,
        "stability": None,
        "foreign_stability": None,
        "stability_infinite": [],
    }
    if verdict.accepted and verdict.entry is not None:
        claim = track_of(verdict.entry)
        content["track"] = claim.model_dump() if claim else None
        content["panels"] = {
            "/".join(key): _panel_json(result)
            for key, result in panel_results(verdict.entry).items()
        }
        own, foreign = stability_of(verdict.entry), foreign_stability_of(verdict.entry)
        stability = own or foreign
        columns = stability.columns if stability else {}
        # JSON has no infinity, which represents an overflow.
        infinite = [n for n, value in columns.items() if value is not None and math.isinf(value)]
        content["stability_infinite"] = infinite
        if stability:
            key = "stability" if own else "foreign_stability"
            content[key] = {n: None if n in infinite else columns[n] for n in columns}
    return json.dumps(content, sort_keys=True, indent=2, allow_nan=False) + "\n"


def _panel_json(result: PanelResult) -> dict[str, Any]:
    return {**asdict(result), "seeds": {str(seed): v for seed, v in result.seeds.items()}}


def comment(
    verdict: CheckResult, badges: Badges | None, compared: Sequence[ComparedEntry] = ()
) -> str:
    """The verdict as Markdown, with all text of the submission escaped.

    Args:
        verdict: Result of the check.
        badges: Badges of an accepted submission.
        compared: Entries that it is compared with.
    """
    lines = _title(verdict.folder.name)
    if not verdict.accepted:
        lines += [rejection(verdict), ""]
        where = [", ".join(filter(None, (f.file, f.field))) for f in verdict.findings]
        found = [
            (escaped(place or "the folder"), escaped(f.problem), escaped(f.fix))
            for place, f in zip(where, verdict.findings, strict=True)
        ]
        lines += _table(("where", "what is wrong", "what to do"), found)
        return _limited(lines + _notes(verdict))
    entry = verdict.entry
    assert entry is not None and badges is not None
    lines += [f"Accepted. {verdict.replayed:,} episodes were replayed; all match."]
    if verdict.doubts:
        lines += [f"{verdict.doubts:,} turns were inconclusive."]
    rows = [(name, escaped(value)) for name, value in head_rows(entry)]
    lines += ["", *_table(("", ""), [*rows, ("badges", badges_text(badges))]), ""]
    results = panel_results(entry)
    lines += _table(PANEL_HEAD, panel_rows(results))
    if errors := sum(result.errors for result in results.values()):
        lines += ["", f"{errors:,} episodes ended in an error; they count as failures."]
    differences = [
        (panel, f"{escaped(what)} ({escaped(name)})", found)
        for panel, what, name, found in difference_rows(entry, results, compared)
    ]
    lines += ["", *(_table(DIFFERENCE_HEAD, differences) if differences else [ALONE])]
    if entry.submission.method.kind == "trained":
        lines += ["", *_trainings(entry), "", *_stability(entry)]
    lines += _notes(verdict)
    lines += [
        "",
        "A replay proves that the actions earn the rewards, not which model chose "
        "them. Brackets are 95% intervals: for success over the panel's episodes and, with "
        "several seeds, the seeds; for a difference as stated in its row.",
    ]
    return _limited(lines)


def rejection(verdict: CheckResult) -> str:
    """The first sentence on a submission that is not accepted."""
    if verdict.waits:
        return (
            "Waiting for a rerun, the only thing that is missing: maintainers start the workflow "
            "`rerun` with the folder's name and the last commit of the pull request, merge its "
            "record into `reruns.yaml`, and run this check again."
        )
    return f"Rejected: {counted(len(verdict.findings), 'finding')}."


def no_verdict(name: str, reason: str) -> str:
    """The comment, as Markdown, if the check could not be run.

    Args:
        name: The folder's name; empty if it is unknown.
        reason: The reason.
    """
    lines = _title(name)
    lines += ["The check could not be completed, so there is no verdict:", "", escaped(reason)]
    return _limited(lines)


def _title(name: str) -> list[str]:
    return [f"## Submission `{code(name)}`" if name else "## Submission", ""]


def _notes(verdict: CheckResult) -> list[str]:
    """The check's omissions."""
    if not verdict.notes:
        return []
    return [
        "",
        "Not included in this check:",
        "",
        *(f"- {escaped(note)}" for note in verdict.notes),
    ]


def _trainings(entry: Entry) -> list[str]:
    models = [escaped(on_one_line(point.checkpoint.model.text)) for point in entry.checkpoints]
    told = [map(escaped, row) for row in training_rows(entry)]
    rows = [(*row, model) for row, model in zip(told, models, strict=True)]
    return _table((*TRAINING_HEAD, "weights"), rows)


def _stability(entry: Entry) -> list[str]:
    rows = stability_rows(entry)
    if not rows:
        return [NO_LOGS]
    lines = _table(stability_head(entry), rows)
    for seed, reason in early_stops(entry).items():
        lines += ["", f"Seed {seed} was stopped early, which counts as a collapse: {reason}."]
    return lines


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A Markdown table; untrusted text must already be escaped."""
    rule = "| --- " * len(head) + "|"
    return [f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]


def escaped(text: str) -> str:
    """Untrusted text for a cell of a Markdown table, shown verbatim.

    Entities prevent Markdown and HTML. The element prevents mentions of people, issues or commits,
    which GitHub looks for in the rendered text.
    """
    safe = "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in printable(text))
    return f"<code>{safe}</code>" if safe else ""


def code(text: str) -> str:
    """Untrusted text between backticks."""
    return printable(text).replace("`", "U+0060")


def _limited(lines: Sequence[str]) -> str:
    text = "\n".join(lines) + "\n"
    if len(text) <= _MAX_COMMENT:
        return text
    return text[:_MAX_COMMENT].rpartition("\n")[0] + "\n\n(truncated)\n"
