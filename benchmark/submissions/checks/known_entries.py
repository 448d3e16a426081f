"""Summary of an accepted submission, without its records.

Enough to compare with it and to know a copy of it, in a few hundred bytes an episode: a check of
many submissions reads each of them once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

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
from benchmark.submissions.reading.entry import Entry, ReadRun
from tasks.seeding import canonical_json

EpisodeKey = tuple[str, str, str, int]
Traces = Mapping[EpisodeKey, tuple[int, ...]]
"""Of each episode a hash of every answer that is not all but certain, with its place and the first
digits of its log-probability; the same in one process alone."""
SURE = 1e-4
"""Nats: what is more certain, any model may be as certain of."""

COMMON_STATES: Final = 0.8
"""Of the states of two episodes: from that share on they went the same way."""


class PlayHash(NamedTuple):
    """What an episode looked like, whatever its numbers say; hashes are of one process alone.

    Attributes:
        answers: Hash of all answers.
        actions: Hash of all actions; None where none was executed.
        solved: Whether it succeeded.
        end: Hash of what the world said of the last turn, where the task gives facts of every
            action, as of a program's output and an answer's verdict; None where it does not.
        states: Hashes of what the world showed, in tasks without such facts; None in others.
        ended: Whether it was played to its end, and not cut off by an error.
    """

    answers: int
    actions: int | None
    solved: bool
    end: int | None = None
    states: frozenset[int] | None = None
    ended: bool = True

    @classmethod
    def of(cls, record: EpisodeRecord) -> Self:
        """Keep what is needed of an episode."""
        turns = record.turns
        return cls.made(
            [(turn.response, turn.action, turn.action_ok, turn.info) for turn in turns],
            record.success and record.error is None,
            [record.observation_hash or "", *(turn.observation_hash for turn in turns)],
            bool(turns) and record.error is None,
        )

    @classmethod
    def made(
        cls,
        turns: Sequence[tuple[str, str | None, bool, Mapping[str, Any]]],
        solved: bool,
        shown: Sequence[str] = (),
        ended: bool = True,
    ) -> Self:
        """Keep what is needed of an episode of any schema.

        Args:
            turns: Response, action, whether the world admitted it, and what it said of it.
            solved: Whether the episode succeeded.
            shown: Hash of what the world showed first, and after each turn.
            ended: Whether it was played to its end.
        """
        actions = tuple(action for _, action, _, _ in turns)
        acted = any(action is not None for action in actions)
        told = acted and all(facts for _, _, admitted, facts in turns if admitted)
        last = turns[-1][3] if told else None
        return cls(
            hash(tuple(response for response, _, _, _ in turns)),
            hash(actions) if acted else None,
            solved,
            hash(canonical_json(dict(last))) if last else None,
            None if told else frozenset(map(hash, shown)),
            ended,
        )

    def is_like(self, other: "PlayHash") -> bool:
        """Whether another episode went as this one."""
        return self.acts_like(other) or (self.end is not None and self.end == other.end)

    def acts_like(self, other: "PlayHash") -> bool:
        """Whether it has the answers or the actions of this one, or most of its states.

        Steps that lead nowhere, or there and back, change all actions and hardly a state.
        """
        return (
            self.answers == other.answers
            or (self.actions is not None and self.actions == other.actions)
            or self._walks_like(other)
        )

    def _walks_like(self, other: "PlayHash") -> bool:
        if not self.states or not other.states:
            return False
        common = len(self.states & other.states)
        return common >= COMMON_STATES * len(self.states | other.states)


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run, and what its model said.

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
    def of(cls, run: ReadRun) -> "KnownRun":
        """Keep what is needed of a run."""
        plays = {record.key: PlayHash.of(record) for record in run.records}
        return cls(str(run.path), run.manifest.model, _traces(run.records), plays)


@dataclass(frozen=True, slots=True)
class Known:
    """A submission that others are compared with.

    Attributes:
        peer: Its names and results.
        models: The weights of its checkpoints.
        runs: What was played.
        logs: `all_hashes` of its training logs, by the log's path.
    """

    peer: Peer
    models: tuple[ModelIdentity, ...]
    runs: tuple[KnownRun, ...]
    logs: Mapping[str, Hashes]

    @classmethod
    def of(cls, entry: Entry) -> "Known":
        """Keep what is needed of an entry."""
        return cls(
            peer=Peer.of(entry),
            models=tuple(point.checkpoint.model for point in entry.checkpoints),
            runs=tuple(map(KnownRun.of, entry.runs)),
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
class Unread:
    """An existing submission that cannot be compared with.

    Attributes:
        folder: Name of its folder.
        reason: Why.
    """

    folder: str
    reason: str
