"""Checks that a log begins where others say that its init is.

Collapse is judged from the highest success on, which is often the init's: a log whose first
validation is lower than it was hides one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmark.logs.lines import Validation
from benchmark.logs.training_log import TrainingLog
from benchmark.models import ModelIdentity, same_weights
from benchmark.stats.formatting import percent_text
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint
from benchmark.submissions.training_logs.counts import AS_WRITTEN
from benchmark.submissions.training_logs.panels import agrees, computes_alike, matched_panels


@dataclass(frozen=True, slots=True)
class KnownStart:
    """What weights solve that training can start from.

    Attributes:
        model: The weights.
        fingerprint: Of the panel's protocol.
        success: Their rate.
        engine: What played, as it describes itself.
        said_by: Where it stands.
    """

    model: ModelIdentity
    fingerprint: str
    success: float
    engine: Mapping[str, Any]
    said_by: str


def known_starts(entry: Entry) -> tuple[KnownStart, ...]:
    """What an entry says of inits: the first validations of its logs, or the entry of an init."""
    found = []
    folder = entry.folder.name
    for point in entry.checkpoints:
        if point.log is not None:
            found += [
                KnownStart(log.start.init, line.fingerprint, line.success, log.start.engine, place)
                for log, place in [(point.log, f"{folder}/{point.log.path}")]
                for line in _first(log)
            ]
        elif point.checkpoint.model.kind == "init":
            found += [
                KnownStart(
                    point.checkpoint.model,
                    panel.fingerprint,
                    panel.success.value,
                    run.manifest.engine,
                    f"{folder}/{run.path}",
                )
                for run in point.runs
                for panel in run.summary.panels
            ]
    # Seeds of one training begin alike: of equal ones the first is enough.
    return tuple({(start.fingerprint, start.success): start for start in found[::-1]}.values())


def check_begins(
    point: ReadCheckpoint, log: TrainingLog, known: Sequence[KnownStart]
) -> Iterator[Finding]:
    """Compare a log's first validations with what is known of its init.

    Args:
        point: What the training has led to.
        log: Its log.
        known: From other entries, or from other seeds.
    """
    panels = matched_panels(point, log)
    for line in _first(log):
        tie = panels.get(line.panel)
        greedy = tie is not None and tie.protocol.sampling.temperature == 0
        for start in known:
            if start.fingerprint != line.fingerprint:
                continue
            if not same_weights(start.model, log.start.init):
                continue
            alike = greedy and computes_alike(start.engine, log.start.engine)
            if not agrees(start.success, line, alike):
                problem = (
                    f"begins with success {percent_text(line.success)} on {line.panel}, but "
                    f"{log.start.init.name} has {percent_text(start.success)} in {start.said_by}"
                )
                yield Finding(str(log.path), "validation 1 (update 0)", problem, AS_WRITTEN)
                return


def _first(log: TrainingLog) -> list[Validation]:
    return [line for line in log.validations if line.update == 0]
