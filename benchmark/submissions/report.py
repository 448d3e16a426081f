"""What a check says: to programs, and as the comment on a pull request."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmark.metrics import PanelKey
from benchmark.stability.definitions import DEFINITIONS
from benchmark.submissions.badges import Badges
from benchmark.submissions.check import Verdict
from benchmark.submissions.entry import Entry
from benchmark.submissions.results import (
    PairedDifference,
    PanelResult,
    paired_difference,
    panel_results,
    stability_of,
)

REPORT_VERSION = 1
COLUMNS = ("collapse_rate", "worst_seed", "max_drawdown", "retention", "mismatch_p95")
"""What is shown of stability, by the names in `DEFINITIONS`."""
_MAX_COMMENT = 60_000
"""Characters; GitHub takes 65,536."""


def verdict_json(verdict: Verdict, badges: Badges | None) -> str:
    """The verdict for programs: sorted keys, one final line break."""
    content: dict[str, Any] = {
        "report_version": REPORT_VERSION,
        "submission": verdict.folder.name,
        "accepted": verdict.accepted,
        "findings": [asdict(finding) for finding in verdict.findings],
        "replayed_episodes": verdict.replayed,
        "turns_in_doubt": verdict.doubts,
        "badges": asdict(badges) if badges else None,
        "panels": None,
        "stability": None,
        "stability_infinite": [],
    }
    if verdict.accepted and verdict.entry is not None:
        content["panels"] = {
            "/".join(key): _panel_json(result)
            for key, result in panel_results(verdict.entry).items()
        }
        stability = stability_of(verdict.entry)
        columns = stability.columns if stability else {}
        # JSON has no infinity, which is what stands for an overflow.
        infinite = [n for n, value in columns.items() if value is not None and math.isinf(value)]
        content["stability_infinite"] = infinite
        if stability:
            content["stability"] = {n: None if n in infinite else columns[n] for n in columns}
    return json.dumps(content, sort_keys=True, indent=2, allow_nan=False) + "\n"


def _panel_json(result: PanelResult) -> dict[str, Any]:
    return {**asdict(result), "seeds": {str(seed): v for seed, v in result.seeds.items()}}


def comment(
    verdict: Verdict, badges: Badges | None, compared: Sequence[tuple[str, Entry]] = ()
) -> str:
    """The verdict as Markdown, with nothing of the submission but escaped text.

    Args:
        verdict: Of the check.
        badges: Of an accepted submission.
        compared: What it is compared with: (what it is, the entry), such as its init.
    """
    lines = [f"## Submission `{code(verdict.folder.name)}`", ""]
    if not verdict.accepted:
        lines += [f"Not accepted: {len(verdict.findings)} finding(s).", ""]
        lines += ["| where | what is wrong | what to do |", "| --- | --- | --- |"]
        lines += [
            f"| {escaped(', '.join(filter(None, (f.file, f.field))) or 'the folder')} "
            f"| {escaped(f.problem)} | {escaped(f.fix)} |"
            for f in verdict.findings
        ]
        return _limited(lines)
    assert verdict.entry is not None and badges is not None
    lines += [f"Accepted. {verdict.replayed:,} episodes were executed again and all hold."]
    if verdict.doubts:
        lines += [f"{verdict.doubts:,} turns could be neither confirmed nor refuted."]
    lines += ["", f"Badges: {_badges_text(badges)}", ""]
    lines += ["| panel | success | each seed | valid format | turns |", "| --- " * 5 + "|"]
    results = panel_results(verdict.entry)
    for (task, panel), result in results.items():
        seeds = ", ".join(f"{100 * value:.1f}" for value in result.seeds.values())
        lines.append(
            f"| {task}/{panel} | {result.success.percent} | {seeds} | {result.format_valid:.1%} "
            f"| {result.turns:.1f} |"
        )
    if errors := sum(result.errors for result in results.values()):
        lines += ["", f"{errors:,} episodes ended in an error; they count as failures."]
    lines += _differences(verdict.entry, results, compared)
    lines += _stability(verdict.entry)
    lines += [
        "",
        "A replay proves that the actions earn the rewards, not which model chose them. "
        "Brackets are 95 % intervals over the panel's episodes.",
    ]
    return _limited(lines)


def _badges_text(badges: Badges) -> str:
    parts = ["replayed"] if badges.replayed else []
    parts.append(f"stability: {badges.stability}")
    parts += [f"init: {badges.init}"] if badges.init else []
    parts += ["re-run"] if badges.rerun else []
    return ", ".join(parts)


def _differences(
    entry: Entry,
    results: Mapping[PanelKey, PanelResult],
    compared: Sequence[tuple[str, Entry]],
) -> list[str]:
    rows = []
    for what, other in compared:
        for key in results:
            found = paired_difference(entry, other, key)
            if found is not None:
                rows.append(
                    f"| {'/'.join(key)} | {escaped(what)} "
                    f"({escaped(other.submission.name)}) | {_difference(found)} |"
                )
    if not rows:
        return []
    return ["", "| panel | compared with | difference in points |", "| --- " * 3 + "|", *rows]


def _difference(found: PairedDifference) -> str:
    value, low, high = (100 * end for end in (*_ends(found),))
    p_value = f"p = {found.p_value:.3f}" if found.p_value >= 0.001 else "p < 0.001"
    return f"{value:+.1f} [{low:+.1f}, {high:+.1f}], {p_value}, {found.episodes} episodes"


def _ends(found: PairedDifference) -> tuple[float, float, float]:
    return found.difference.value, found.difference.low, found.difference.high


def _stability(entry: Entry) -> list[str]:
    stability = stability_of(entry)
    if stability is None:
        return ["", "No training logs: nothing can be said of stability."]
    lines = ["", "| stability | value | what it is |", "| --- " * 3 + "|"]
    for name in COLUMNS:
        value = stability.columns.get(name)
        shown = "unknown" if value is None else f"{value:.3g}"
        lines.append(f"| {name} | {shown} | {DEFINITIONS[name].text} |")
    return lines


def escaped(text: str) -> str:
    """Foreign text in a cell of a Markdown table: seen as it is, whatever it holds.

    Entities keep it from being Markdown or HTML, and the element from being a mention of a person,
    an issue or a commit, which are looked for in the text that comes out.
    """
    visible = "".join(c if c.isprintable() else f"U+{ord(c):04X}" for c in text)
    safe = "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in visible)
    return f"<code>{safe}</code>" if safe else ""


def code(text: str) -> str:
    """Foreign text between backticks."""
    return "".join(c if c.isprintable() and c != "`" else f"U+{ord(c):04X}" for c in text)


def _limited(lines: Sequence[str]) -> str:
    text = "\n".join(lines) + "\n"
    if len(text) <= _MAX_COMMENT:
        return text
    return text[:_MAX_COMMENT].rpartition("\n")[0] + "\n\n(the rest is left out)\n"
