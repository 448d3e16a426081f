"""Checks that a log begins at its init's success according to other sources.

Collapse is judged from the highest success on, which is often the init's, so a log can hide a
collapse by lowering its first validation.
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
    """The known success of weights that training can start from.

    Attributes:
        model: The weights.
        fingerprint: Fingerprint of the panel's protocol.
        success: Their success rate.
        episodes: Number of plays.
        engine: The engine's description of itself.
        said_by: The source.
    """

    model: ModelIdentity
    fingerprint: str
    success: float
    episodes: int
    engine: Mapping[str, Any]
    said_by: str

    @property
    def said(self) -> tuple[Any, ...]:
        """Key that is equal for starts with the same content."""
        engine = (self.engine.get(fact) for fact in ("kind", "dtype", "device"))
        return (self.model, self.fingerprint, self.success, *map(str, engine))


def known_starts(entry: Entry) -> tuple[KnownStart, ...]:
    """An entry's results of inits: the first validations of its logs, or an init's evaluation.

    Evaluations with errors are excluded, because errors count as failures but are the engine's.
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
    # Keep the first of equal starts, since seeds of one method begin alike.
    return tuple({start.said: start for start in reversed(found)}.values())


def check_begins(
    point: ReadCheckpoint, log: TrainingLog, known: Sequence[KnownStart]
) -> Iterator[Finding]:
    """Compare a log's first validations with known results of its init.

    With greedy decoding on engines that compute alike, they are equal. Otherwise each result is a
    sample, and all known results on a panel are pooled, so that no entry decides alone.

    Args:
        point: The checkpoint that the training led to.
        log: Its log.
        known: Known starts, from all other entries or from the entry's own seeds.
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
    """A success rate with its number of plays."""

    value: float
    plays: int


def _pooled(starts: Sequence[KnownStart]) -> _Rate:
    plays = sum(start.episodes for start in starts)
    return _Rate(math.fsum(start.success * start.episodes for start in starts) / plays, plays)


def _first(log: TrainingLog) -> list[Validation]:
    return [line for line in log.validations if line.update == 0]
