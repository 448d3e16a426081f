"""Summary of an accepted submission, without its records.

Enough to compare with it and to know a copy of it, in a few hundred bytes an episode: a check of
many submissions reads each of them once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmark.evaluation.records import EpisodeRecord
from benchmark.models import ModelIdentity
from benchmark.submissions.checks.logs import (
    Hashes,
    all_hashes,
    first_digits,
    traced,
    traced_curves,
)
from benchmark.submissions.checks.results import Peer
from benchmark.submissions.plays.play_hash import EpisodeKey, PlayHash
from benchmark.submissions.reading.entry import Entry, ReadRun

Traces = Mapping[EpisodeKey, tuple[int, ...]]
"""Of each episode a hash of every answer that is not all but certain, with its place and the first
digits of its log-probability; the same in one process alone."""
SURE = 1e-4
"""Nats: what is more certain, any model may be as certain of."""


@dataclass(frozen=True, slots=True)
class AcceptedRun:
    """A run of an accepted entry, without its records.

    Attributes:
        path: Its folder in the submission.
        model: The model that it names.
        traces: By episode.
        plays: Of every episode; one that ended in an error is no other play, and hides none.
    """

    path: str
    model: ModelIdentity
    traces: Traces
    plays: Mapping[EpisodeKey, PlayHash]

    @classmethod
    def of(cls, run: ReadRun) -> "AcceptedRun":
        """Keep what is needed of a run."""
        plays = {record.key: PlayHash.of(record) for record in run.records}
        return cls(str(run.path), run.manifest.model, _traces(run.records), plays)


@dataclass(frozen=True, slots=True)
class AcceptedEntry:
    """An accepted submission that new ones are compared with.

    Attributes:
        peer: Its names and results.
        models: The weights of its checkpoints.
        runs: What was played.
        logs: `all_hashes` of its training logs, by the log's path.
    """

    peer: Peer
    models: tuple[ModelIdentity, ...]
    runs: tuple[AcceptedRun, ...]
    logs: Mapping[str, Hashes]

    @classmethod
    def of(cls, entry: Entry) -> "AcceptedEntry":
        """Keep what is needed of an entry."""
        return cls(
            peer=Peer.of(entry),
            models=tuple(point.checkpoint.model for point in entry.checkpoints),
            runs=tuple(map(AcceptedRun.of, entry.runs)),
            logs={name: all_hashes(trace) for name, trace in traces_of(entry).items()},
        )


def traces_of(entry: Entry) -> dict[str, list[Hashes]]:
    """What each training log of an entry says, of any trainer, by its path."""
    own = {str(p.log.path): traced(p.log) for p in entry.checkpoints if p.log is not None}
    foreign = [p.foreign.run for p in entry.checkpoints if p.foreign is not None]
    return own | {run.name: traced_curves(run) for run in foreign}


def _traces(records: Sequence[EpisodeRecord]) -> dict[EpisodeKey, tuple[int, ...]]:
    """Of episodes with answers that have log-probabilities."""
    found = {}
    for record in records:
        trace = tuple(
            hash((number, turn.response, first_digits(turn.log_prob)))
            for number, turn in enumerate(record.turns)
            if turn.log_prob is not None and turn.log_prob < -SURE
        )
        if trace:
            found[record.key] = trace
    return found


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """An existing submission that cannot be read, so nothing is compared with it.

    Attributes:
        folder: Name of its folder.
        reason: Why.
    """

    folder: str
    reason: str
