"""The content of a report on a submission, as rows of text."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmark.evaluation.summary import PanelKey
from benchmark.logs.lines import track_name
from benchmark.models import same_weights
from benchmark.stability.definitions import DEFINITIONS
from benchmark.stability.runs import run_stability
from benchmark.stability.table import shown
from benchmark.stats.formatting import (
    collapses_text,
    p_text,
    percent_digits,
    percent_text,
    points_digits,
    points_text,
)
from benchmark.stats.paired import PairedDifference
from benchmark.submissions.badges import Badges
from benchmark.submissions.checks.results import (
    Agreement,
    PanelResult,
    Peer,
    TrainingResult,
    foreign_stability_of,
    paired_difference,
    panel_results,
    stability_of,
)
from benchmark.submissions.checks.tracks import track_of
from benchmark.submissions.reading.entry import Entry
from tasks.texts import on_one_line

COLUMNS = ("collapse_rate", "worst_seed", "max_drawdown", "retention", "mismatch_p95")
"""Stability metrics in reports, by their names in `DEFINITIONS`."""
PANEL_HEAD: Final = ("panel", "success", "each seed", "valid format", "turns")
TRAINING_HEAD: Final = ("seed", "updates", "validations", "the checkpoint agrees with")
STABILITY_HEAD: Final = ("stability", "value", "what it is")
FOREIGN_HEAD: Final = ("stability (foreign logs)", "value", "what it is")
DIFFERENCE_HEAD: Final = ("panel", "compared with", "difference in points")
METHODS: Final = {
    "policy": "a policy without weights",
    "init": "an unchanged starting checkpoint",
    "trained": "trained checkpoints",
}
"""Descriptions of the values of `Method.kind`."""
MAX_UPDATES = 4
"""Maximum number of updates named if many validations are equal."""


@dataclass(frozen=True, slots=True)
class ComparedEntry:
    """An accepted entry that a submission is compared with.

    Attributes:
        what: Its relation to the submission, such as its init.
        peer: The entry.
        panels: Panels for which the relation holds.
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


def head_rows(entry: Entry) -> list[tuple[str, str]]:
    """What a submission declares, as (field, text); texts are untrusted and on one line."""
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
        rows += [("track", track_name(track_of(entry))), ("seeds", seeds)]
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
    """The numbers of every panel, with columns as in `PANEL_HEAD`."""
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
    """What is known about the training of every checkpoint, with columns as in `TRAINING_HEAD`."""
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
    """Text on the training validations that a checkpoint agrees with."""
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


def badges_text(badges: Badges) -> str:
    """The badges on one line."""
    parts = ["replayed"] if badges.replayed else []
    parts.append(f"stability: {badges.stability}")
    parts += [f"init: {badges.init}"] if badges.init else []
    parts += ["re-run"] if badges.rerun else []
    parts += ["rerun failed"] if badges.contradicted else []
    parts += ["first updates trained again"] if badges.retrained else []
    return ", ".join(parts)


def difference_rows(
    entry: Entry,
    results: Mapping[PanelKey, PanelResult],
    compared: Sequence[ComparedEntry],
) -> list[tuple[str, str, str, str]]:
    """Differences from other entries on the panels that both have played.

    Returns:
        Panel, the other entry's relation, its name (untrusted), and the difference with its
        interval.
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
        f"{points_text(found.difference)}, {found.method}; {found.test} between these checkpoints "
        f"{p_text(found.p_value)}, {found.episodes} episodes"
    )


def stability_head(entry: Entry) -> tuple[str, str, str]:
    """The header of `stability_rows`, which tells if numbers come from another trainer's logs."""
    return FOREIGN_HEAD if any(point.foreign for point in entry.checkpoints) else STABILITY_HEAD


def stability_rows(entry: Entry) -> list[tuple[str, str, str]]:
    """Stability of the training runs, with columns as in `stability_head`; empty without logs."""
    stability = stability_of(entry) or foreign_stability_of(entry)
    if stability is None:
        return []
    several = len(stability.runs) > 1
    rows = []
    for name in COLUMNS:
        label, what = DEFINITIONS[name].name, DEFINITIONS[name].text
        if name == "collapse_rate":
            event, halved = stability.events["collapse"], stability.halved
            others = len(stability.runs) - event.known
            value = collapses_text(event.happened, event.known, halved, "unknown", others, "seed")
            if halved:
                what += f"; halved: {DEFINITIONS['halved'].text}"
        else:
            value = _with_unit(name, stability.columns.get(name))
            label += " (median)" if several and name != "worst_seed" else ""
        rows.append((label, value, what))
    return rows


def _with_unit(name: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    if not math.isfinite(value):
        return "beyond all numbers"
    unit = DEFINITIONS[name].unit
    # A share is shown in percent, and a ratio has no unit.
    return shown(name, value) + ("" if unit in ("share", "ratio") else f" {unit}")
