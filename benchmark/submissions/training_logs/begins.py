"""Checks that a log begins where others say that its init is.

Collapse is judged from the highest success on, which is often the init's: a log whose first
validation is lower than it was hides one.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmark.logs.lines import Validation
from benchmark.logs.training_log import TrainingLog
from benchmark.models import ModelIdentity, same_weights
from benchmark.stats.formatting import percent_text
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.reading.entry import Entry, ReadCheckpoint
from benchmark.submissions.training_logs.counts import AS_WRITTEN
from benchmark.submissions.training_logs.panels import (
    agrees,
    can_be_one,
    computes_alike,
    matched_panels,
)


@dataclass(frozen=True, slots=True)
class KnownStart:
    """What weights solve that training can start from.

    Attributes:
        model: The weights.
        fingerprint: Of the panel's protocol.
        success: Their rate.
        episodes: Of how many plays.
        engine: What played, as it describes itself.
        said_by: Where it stands.
    """

    model: ModelIdentity
    fingerprint: str
    success: float
    episodes: int
    engine: Mapping[str, Any]
    said_by: str

    @property
    def said(self) -> tuple[Any, ...]:
        """What two starts have in common that say the same."""
        engine = (self.engine.get(fact) for fact in ("kind", "dtype", "device"))
        return (self.model, self.fingerprint, self.success, *map(str, engine))


def known_starts(entry: Entry) -> tuple[KnownStart, ...]:
    """What an entry says of inits: the first validations of its logs, or the entry of an init.

    A run in which episodes ended in errors does not count: they are failures of the engine.
    """
    found = []
    folder = entry.folder.name
    for point in entry.checkpoints:
        if (log := point.log) is not None:
            found += [
                KnownStart(
                    model=log.start.init,
                    fingerprint=line.fingerprint,
                    success=line.success,
                    episodes=line.episodes,
                    engine=log.start.engine,
                    said_by=f"{folder}/{log.path}",
                )
                for line in _first(log)
            ]
        elif point.checkpoint.model.kind == "init":
            found += [
                KnownStart(
                    model=point.checkpoint.model,
                    fingerprint=panel.fingerprint,
                    success=panel.success.value,
                    episodes=panel.records,
                    engine=run.manifest.engine,
                    said_by=f"{folder}/{run.path}",
                )
                for run in point.runs
                for panel in run.summary.panels
                if not panel.errors
            ]
    # Seeds of one training begin alike: of equal ones the first is enough.
    return tuple({start.said: start for start in reversed(found)}.values())


def check_begins(
    point: ReadCheckpoint, log: TrainingLog, known: Sequence[KnownStart]
) -> Iterator[Finding]:
    """Compare a log's first validations with what is known of its init.

    Played greedily by engines that compute alike, they are equal. Otherwise each is a draw, and all
    that is known of one panel is taken together: the more entries there are, the less one of them
    decides.

    Args:
        point: What the training has led to.
        log: Its log.
        known: From all other entries, or from the seeds of its own.
    """
    panels = matched_panels(point, log)
    for line in _first(log):
        tie = panels.get(line.panel)
        greedy = tie is not None and tie.protocol.sampling.temperature == 0
        others = [
            start
            for start in known
            if start.fingerprint == line.fingerprint and same_weights(start.model, log.start.init)
        ]
        same = [start for start in others if computes_alike(start.engine, log.start.engine)]
        where = "validation 1 (update 0)"
        begins = f"begins with success {percent_text(line.success)} on {line.panel}, but"
        if greedy and same:
            for start in same:
                if not agrees(start.success, line, repeatable=True):
                    said = f"{log.start.init.name} has {percent_text(start.success)}"
                    problem = f"{begins} {said} in {start.said_by}"
                    yield Finding(str(log.path), where, problem, AS_WRITTEN)
                    return
        elif others and not can_be_one((line.success, line.episodes), rate := _pooled(others)):
            problem = f"{begins} {log.start.init.name} has {percent_text(rate.value)} elsewhere"
            yield Finding(str(log.path), where, problem, AS_WRITTEN)
            return


class _Rate(NamedTuple):
    """A success rate, and of how many plays."""

    value: float
    plays: int


def _pooled(starts: Sequence[KnownStart]) -> _Rate:
    plays = sum(start.episodes for start in starts)
    return _Rate(math.fsum(start.success * start.episodes for start in starts) / plays, plays)


def _first(log: TrainingLog) -> list[Validation]:
    return [line for line in log.validations if line.update == 0]
