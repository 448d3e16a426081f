"""The result of a check: as JSON, and as the comment on a pull request."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from benchmark.evaluation.summary import PanelKey
from benchmark.models import same_weights
from benchmark.stability.definitions import DEFINITIONS
from benchmark.stability.runs import run_stability
from benchmark.stability.table import shown
from benchmark.stats.formatting import (
    p_text,
    percent_digits,
    percent_text,
    points_digits,
    points_text,
)
from benchmark.stats.paired import PairedDifference
from benchmark.submissions.badges import Badges
from benchmark.submissions.check import CheckResult
from benchmark.submissions.checks.results import (
    Agreement,
    PanelResult,
    Peer,
    TrainingResult,
    early_stops,
    foreign_stability_of,
    paired_difference,
    panel_results,
    stability_of,
)
from benchmark.submissions.checks.tracks import track_of
from benchmark.submissions.reading.entry import Entry
from benchmark.track_schema import OPEN
from tasks.texts import counted, on_one_line, plural, printable

REPORT_VERSION = 1
COLUMNS = ("collapse_rate", "worst_seed", "max_drawdown", "retention", "mismatch_p95")
"""What is shown of stability, by the names in `DEFINITIONS`."""
PANEL_HEAD: Final = ("panel", "success", "each seed", "valid format", "turns")
TRAINING_HEAD: Final = ("seed", "updates", "validations", "the checkpoint agrees with")
STABILITY_HEAD: Final = ("stability", "value", "what it is")
FOREIGN_HEAD: Final = ("stability (foreign logs)", "value", "what it is")
DIFFERENCE_HEAD: Final = ("panel", "compared with", "difference in points")
ALONE: Final = "Nothing to compare with yet."
NO_LOGS: Final = "No training logs, so no stability metrics."
METHODS: Final = {
    "policy": "a policy without weights",
    "init": "an unchanged starting checkpoint",
    "trained": "trained checkpoints",
}
"""What `Method.kind` means."""
MAX_UPDATES = 4
"""Updates that are named where many validations are equal."""
_MAX_COMMENT = 60_000
"""Characters; GitHub takes 65,536."""


def verdict_json(verdict: CheckResult, badges: Badges | None) -> str:
    """The verdict for programs: sorted keys, one final line break."""
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
        # JSON has no infinity, which is what stands for an overflow.
        infinite = [n for n, value in columns.items() if value is not None and math.isinf(value)]
        content["stability_infinite"] = infinite
        if stability:
            key = "stability" if own else "foreign_stability"
            content[key] = {n: None if n in infinite else columns[n] for n in columns}
    return json.dumps(content, sort_keys=True, indent=2, allow_nan=False) + "\n"


def _panel_json(result: PanelResult) -> dict[str, Any]:
    return {**asdict(result), "seeds": {str(seed): v for seed, v in result.seeds.items()}}


@dataclass(frozen=True, slots=True)
class ComparedEntry:
    """An accepted entry that a submission is compared with.

    Attributes:
        what: What it is to the submission, such as its init.
        peer: The entry.
        panels: On which it is that.
    """

    what: str
    peer: Peer
    panels: frozenset[PanelKey]


def compared_with(entry: Entry, others: Sequence[Peer]) -> list[ComparedEntry]:
    """A submission's init, and the best other entry of its track on each panel."""
    compared = []
    init = entry.submission.init
    for other in others:
        if init is not None and same_weights(other.model, init):
            compared.append(ComparedEntry("its init", other, frozenset(other.panels)))
    best: dict[PanelKey, tuple[float, Peer]] = {}
    mine, track = panel_results(entry), track_of(entry)
    for other in others:
        if not other.trained or other.track != track:
            continue
        for key, panel in other.panels.items():
            same = key in mine and mine[key].fingerprint == panel.fingerprint
            if same and panel.success > best.get(key, (-1.0, other))[0]:
                best[key] = panel.success, other
    for other in {other.folder: other for _, other in best.values()}.values():
        panels = frozenset(key for key, (_, peer) in best.items() if peer is other)
        compared.append(ComparedEntry("the best other", other, panels))
    return compared


def comment(
    verdict: CheckResult, badges: Badges | None, compared: Sequence[ComparedEntry] = ()
) -> str:
    """The verdict as Markdown, with nothing of the submission but escaped text.

    Args:
        verdict: Of the check.
        badges: Of an accepted submission.
        compared: What it is compared with.
    """
    lines = _title(verdict.folder.name)
    if not verdict.accepted:
        lines += [f"Rejected: {counted(len(verdict.findings), 'finding')}.", ""]
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
        "them. Brackets are 95% intervals: for success over the panel's episodes, "
        "for a difference as stated in its row.",
    ]
    return _limited(lines)


def head_rows(entry: Entry) -> list[tuple[str, str]]:
    """What a submission says of itself: (field, text); texts are foreign, on one line."""
    said = entry.submission
    recipes = sorted({point.log.start.recipe for point in entry.checkpoints if point.log})
    logged = f"; its training logs say {', '.join(recipes)}" if recipes else ""
    rows = [
        ("entry", said.name),
        ("authors", ", ".join(said.authors)),
        ("method", f"{METHODS[said.method.kind]}: {said.method.recipe}{logged}"),
    ]
    seeds = ", ".join(str(point.checkpoint.seed) for point in entry.checkpoints)
    if said.method.kind == "trained":
        claim = track_of(entry)
        rows += [("track", claim.name if claim else OPEN), ("seeds", seeds)]
    else:
        rows.append(("model", entry.checkpoints[0].checkpoint.model.text))
    if said.base_model is not None and said.parameters is not None:
        rows.append(("base model", f"{said.base_model}, {said.parameters:,} weights"))
    if said.weights is not None:
        rows.append(("weights at", said.weights))
    if said.init is not None:
        rows.append(("init", said.init.text))
    if (data := said.training_data) is not None:
        streams = ", ".join(data.training_streams) or "none"
        other = "with" if data.other else "without"
        told = f"streams: {streams}; {other} other data for these tasks; {data.statement}"
        rows.append(("training data, as declared", " ".join(told.split())))
    return [(name, on_one_line(text)) for name, text in rows]


def panel_rows(results: Mapping[PanelKey, PanelResult]) -> list[tuple[str, ...]]:
    """The numbers of every panel, as `PANEL_HEAD` says."""
    return [
        (
            "/".join(key),
            result.success.percent,
            ", ".join(percent_digits(value) for value in result.seeds.values()),
            percent_text(result.format_valid),
            f"{result.turns:.1f}",
        )
        for key, result in results.items()
    ]


def training_rows(entry: Entry) -> list[tuple[str, ...]]:
    """What is known of the making of every checkpoint, as `TRAINING_HEAD` says."""
    rows: list[tuple[str, ...]] = []
    for point in entry.checkpoints:
        seed = str(point.checkpoint.seed)
        if point.foreign is not None:
            found = run_stability(point.foreign.run)
            source = f"unknown: a log of {found.source} names no protocol"
            rows.append((seed, f"{found.last_step:,}", f"{found.evaluations:,}", source))
            continue
        if point.log is None:
            rows.append((seed, "no log", "no log", "no log"))
            continue
        made = TrainingResult.of(point, point.log)
        planned = " (planned: unknown)" if made.planned is None else f" of {made.planned:,}"
        updates = f"{made.updates:,}{planned}"
        rows.append((seed, updates, f"{made.validations:,}", agreement_text(made.agreement)))
    return rows


def agreement_text(found: Agreement | None) -> str:
    """With which validation of its training a checkpoint agrees."""
    if found is None:
        return "no validation to compare with"
    several = f"{' or '.join(f'{update:,}' for update in found.updates[:MAX_UPDATES])}"
    more = " or others" if len(found.updates) > MAX_UPDATES else ""
    place = f"update {several}{more} of {found.last:,}"
    if found.gap:
        return f"none; nearest is {place} ({points_digits(found.gap)} points here)"
    if found.last in found.updates:
        return f"update {found.last:,} of {found.last:,}, the last one"
    which = "this panel" if len(found.panels) == 1 else "these panels"
    return f"{place}; chosen on {which} ({', '.join(found.panels)})"


def no_verdict(name: str, reason: str) -> str:
    """What is said as Markdown where the check could not be made.

    Args:
        name: The folder's name; empty where it is not known.
        reason: Why.
    """
    lines = _title(name)
    lines += ["The check could not be completed, so there is no verdict:", "", escaped(reason)]
    return _limited(lines)


def _title(name: str) -> list[str]:
    return [f"## Submission `{code(name)}`" if name else "## Submission", ""]


def _notes(verdict: CheckResult) -> list[str]:
    """What was left out of the check."""
    if not verdict.notes:
        return []
    return [
        "",
        "Not included in this check:",
        "",
        *(f"- {escaped(note)}" for note in verdict.notes),
    ]


def badges_text(badges: Badges) -> str:
    """The badges in one line."""
    parts = ["replayed"] if badges.replayed else []
    parts.append(f"stability: {badges.stability}")
    parts += [f"init: {badges.init}"] if badges.init else []
    parts += ["re-run"] if badges.rerun else []
    parts += ["first updates trained again"] if badges.retrained else []
    return ", ".join(parts)


def difference_rows(
    entry: Entry,
    results: Mapping[PanelKey, PanelResult],
    compared: Sequence[ComparedEntry],
) -> list[tuple[str, str, str, str]]:
    """Differences to others on the panels that both have played.

    Returns:
        Panel, what the other is, its name (foreign), and the difference with its interval.
    """
    return [
        ("/".join(key), other.what, on_one_line(other.peer.name), _difference(found))
        for other in compared
        for key in results
        if key in other.panels
        if (found := paired_difference(entry, other.peer, key)) is not None
    ]


def _difference(found: PairedDifference) -> str:
    return (
        f"{points_text(found.difference)}, {found.method}; {found.test} {p_text(found.p_value)}, "
        f"{found.episodes} episodes"
    )


def stability_head(entry: Entry) -> tuple[str, str, str]:
    """The head of `stability_rows`: it says where numbers come from another trainer's logs."""
    return FOREIGN_HEAD if any(point.foreign for point in entry.checkpoints) else STABILITY_HEAD


def stability_rows(entry: Entry) -> list[tuple[str, str, str]]:
    """The stability of the trainings, as `stability_head` says; empty without logs."""
    stability = stability_of(entry) or foreign_stability_of(entry)
    if stability is None:
        return []
    several = len(stability.runs) > 1
    rows = []
    for name in COLUMNS:
        label = DEFINITIONS[name].name
        if name == "collapse_rate":
            event = stability.events["collapse"]
            seeds = plural(event.known, "seed")
            value = f"{event.happened} of {event.known} {seeds}" if event.known else "unknown"
        else:
            value = _with_unit(name, stability.columns.get(name))
            label += " (median)" if several and name != "worst_seed" else ""
        rows.append((label, value, DEFINITIONS[name].text))
    return rows


def _with_unit(name: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    if not math.isfinite(value):
        return "beyond all numbers"
    unit = DEFINITIONS[name].unit
    # A share is shown in percent, and a ratio has no unit.
    return shown(name, value) + ("" if unit in ("share", "ratio") else f" {unit}")


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
    """A table of Markdown; what is foreign in it has been escaped."""
    rule = "| --- " * len(head) + "|"
    return [f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)]


def escaped(text: str) -> str:
    """Foreign text in a cell of a Markdown table: seen as it is, whatever it holds.

    Entities keep it from being Markdown or HTML, and the element from being a mention of a person,
    an issue or a commit, which are looked for in the text that comes out.
    """
    safe = "".join(c if c.isalnum() or c == " " else f"&#{ord(c)};" for c in printable(text))
    return f"<code>{safe}</code>" if safe else ""


def code(text: str) -> str:
    """Foreign text between backticks."""
    return printable(text).replace("`", "U+0060")


def _limited(lines: Sequence[str]) -> str:
    text = "\n".join(lines) + "\n"
    if len(text) <= _MAX_COMMENT:
        return text
    return text[:_MAX_COMMENT].rpartition("\n")[0] + "\n\n(truncated)\n"
