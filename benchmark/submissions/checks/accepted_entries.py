"""Summary of an accepted submission, without its records.

It takes a few hundred bytes per episode and suffices for comparisons and to recognize copies, so a
check of many submissions reads each of them only once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from benchmark.evaluation.records import EpisodeRecord
from benchmark.models import ModelIdentity
from benchmark.submissions.checks.results import Peer
from benchmark.submissions.plays.play_hash import EpisodeKey, PlayHash
from benchmark.submissions.reading.entry import Entry, ReadRun
from benchmark.submissions.training_logs.begins import KnownStart, known_starts
from benchmark.submissions.training_logs.changes import Changes
from benchmark.submissions.training_logs.likeness import (
    Hashes,
    Validations,
    all_hashes,
    first_digits,
    traced,
    traced_curves,
    validated,
)

Traces = Mapping[EpisodeKey, tuple[int, ...]]
"""By episode, hashes of the responses that are not almost certain, each with its turn and the
leading digits of its log-probability; valid in one process only."""
SURE = 1e-4
"""Negative log-probability in nats below which a response may be equally certain in any model."""


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    """A run of an accepted entry, without its records.

    Attributes:
        path: Its folder in the submission.
        model: The model that it names.
        traces: Hashes of responses by episode.
        plays: Hashes of all episodes; those that ended in an error are never compared.
        greedy: Task and panel of all greedily decoded panels.
    """

    path: str
    model: ModelIdentity
    traces: Traces
    plays: Mapping[EpisodeKey, PlayHash]
    greedy: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(cls, run: ReadRun) -> "AcceptedRun":
        """Summarize a run."""
        plays = {record.key: PlayHash.of(record) for record in run.records}
        greedy = frozenset(
            (panel.task, panel.panel)
            for panel in run.manifest.panels
            if panel.sampling.temperature == 0
        )
        return cls(str(run.path), run.manifest.model, _traces(run.records), plays, greedy)

    @property
    def parts(self) -> "tuple[AcceptedRun, ...]":
        """The run and, if it has several, each panel, so that no panel can hide a copied one."""
        panels = sorted(self.panels)
        return (self,) if len(panels) < 2 else (self, *map(self._on, panels))

    @property
    def panels(self) -> set[tuple[str, str]]:
        """Task and panel of all its episodes."""
        return {key[:2] for key in self.plays}

    def _on(self, panel: tuple[str, str]) -> "AcceptedRun":
        traces = {key: trace for key, trace in self.traces.items() if key[:2] == panel}
        plays = {key: play for key, play in self.plays.items() if key[:2] == panel}
        return replace(self, traces=traces, plays=plays)


class AcceptedLog(NamedTuple):
    """Summary of a training log.

    Attributes:
        hashes: Its `all_hashes`.
        updates: How many of its updates can be compared.
        validations: Its validations (`validated`); empty for another trainer's log.
        changes: How its numbers change from update to update.
    """

    hashes: Hashes
    updates: int
    validations: Validations = MappingProxyType({})
    changes: Changes = Changes.of([])


@dataclass(frozen=True, slots=True)
class AcceptedEntry:
    """An accepted submission that new ones are compared with.

    Attributes:
        folder: Its folder.
        peer: Its names and results.
        models: The weights of its checkpoints.
        runs: Its runs.
        logs: Its training logs by path.
        starts: Its results of inits.
    """

    folder: Path
    peer: Peer
    models: tuple[ModelIdentity, ...]
    runs: tuple[AcceptedRun, ...]
    logs: Mapping[str, AcceptedLog]
    starts: tuple[KnownStart, ...] = ()

    @classmethod
    def of(cls, entry: Entry) -> "AcceptedEntry":
        """Summarize an entry."""
        validations, changes = validations_of(entry), changes_of(entry)
        return cls(
            folder=entry.folder,
            peer=Peer.of(entry),
            models=tuple(point.checkpoint.model for point in entry.checkpoints),
            runs=tuple(map(AcceptedRun.of, entry.runs)),
            logs={
                name: AcceptedLog(
                    all_hashes(trace), len(trace), validations.get(name, {}), changes[name]
                )
                for name, trace in traces_of(entry).items()
            },
            starts=known_starts(entry),
        )


def traces_of(entry: Entry) -> dict[str, list[Hashes]]:
    """Hashes of the numbers in each of an entry's training logs, of any trainer, by path."""
    own = {str(p.log.path): traced(p.log) for p in entry.checkpoints if p.log is not None}
    foreign = [p.foreign.run for p in entry.checkpoints if p.foreign is not None]
    return own | {run.name: traced_curves(run) for run in foreign}


def changes_of(entry: Entry) -> dict[str, Changes]:
    """How the numbers in each of an entry's training logs change, of any trainer, by path."""
    logs = [point.log for point in entry.checkpoints if point.log is not None]
    foreign = [p.foreign.run for p in entry.checkpoints if p.foreign is not None]
    own = {str(log.path): Changes.of_log(log) for log in logs}
    return own | {run.name: Changes.of_curves(run) for run in foreign}


def validations_of(entry: Entry) -> dict[str, Validations]:
    """The validations in each of an entry's logs from this project's trainer, by path."""
    logs = [point.log for point in entry.checkpoints if point.log is not None]
    return {str(log.path): validated(log) for log in logs}


def trace_of(answers: Iterable[tuple[str, float | None]]) -> tuple[int, ...]:
    """Hashes of an episode's responses with log-probabilities that no other weights give."""
    return tuple(
        hash((number, answer, first_digits(log_prob)))
        for number, (answer, log_prob) in enumerate(answers)
        if log_prob is not None and log_prob < -SURE
    )


def _traces(records: Sequence[EpisodeRecord]) -> dict[EpisodeKey, tuple[int, ...]]:
    """Traces of all episodes that have any."""
    traces = {
        record.key: trace_of((turn.response, turn.log_prob) for turn in record.turns)
        for record in records
    }
    return {key: trace for key, trace in traces.items() if trace}


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """An existing submission that cannot be read, so nothing is compared with it.

    Attributes:
        folder: Name of its folder.
        reason: Why it cannot be read.
    """

    folder: str
    reason: str
