"""Hashes of an episode to recognize it."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from benchmark.evaluation.records import EpisodeRecord
from tasks.seeding import canonical_json

EpisodeKey = tuple[str, str, str, int]
"""Task, panel, episode and repeat."""
COMMON_STATES: Final = 0.8
"""Minimum share of common states (intersection over union) for episodes to be similar."""


class PlayHash(NamedTuple):
    """The content of an episode, regardless of its numbers; hashes are valid in one process only.

    Attributes:
        answers: Hash of all responses.
        actions: Hash of all actions; None if none was executed.
        solved: Whether it succeeded.
        end: Hash of the environment's facts on the last turn, if the task gives facts on every
            action, such as a program's output and an answer's verdict; None otherwise.
        states: Hashes of the observations, in tasks without such facts; None in others.
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
        """Hash an episode."""
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
        """Hash an episode in any schema.

        Args:
            turns: Response, action, whether the environment accepted it, and its facts on it.
            solved: Whether the episode succeeded.
            shown: Hashes of the first observation and of the one after each turn.
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
        """Whether another episode is similar to this one."""
        return self.acts_like(other) or (self.end is not None and self.end == other.end)

    def acts_like(self, other: "PlayHash") -> bool:
        """Whether another episode has the same responses or actions, or mostly the same states.

        Steps without effect, or back and forth, change the actions but hardly any states.
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
