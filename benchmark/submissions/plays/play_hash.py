"""What is kept of an episode to know it again."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from benchmark.evaluation.records import EpisodeRecord
from tasks.seeding import canonical_json

EpisodeKey = tuple[str, str, str, int]
"""Task, panel, episode and repeat."""
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
            record.solved,
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
