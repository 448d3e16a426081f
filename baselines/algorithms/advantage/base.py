"""The interface of advantages."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import torch
from torch import Tensor

from baselines.algorithms.advantage.groups import Over, Single, Variance, group_relative
from baselines.algorithms.part import Choice, Positive

CRITIC_PACE: Final = 10.0
"""The critic's learning rate over the policy's: 1e-5 and 1e-6 in ARLArena's scripts."""


@dataclass(frozen=True)
class RowBatch:
    """All rows of a rollout, of all processes: N rows of at most T tokens.

    Attributes:
        scores: (N,) float64: return of the row's trajectory, minus the row's own penalty where
            penalties are part of scores.
        groups: (N,) long: which rows started from the same prompt or episode.
        trajectories: (N,) long, unique in the rollout: which rows belong together.
        turns: (N,) long: number of the row's turn in its trajectory.
        step_rewards: (N,) float64: the environment's reward for the row's turn.
        step_penalties: (N,) float64: the row's own penalty, 0 where it is not part of scores.
        anchors: N observations at which turns began, without history and instructions.
        mask: (N, T) floats, 1 for counted tokens; a masked row has none.
        token_costs: (N, T): cost of each token, for KL in the reward; otherwise 0.
        entropies: (T,) per row, of the old policy; only with `needs_entropies`.
        values: (T,) per row, from the critic; only for a `WithCritic`.
    """

    scores: Tensor
    groups: Tensor
    trajectories: Tensor
    turns: Tensor
    step_rewards: Tensor
    step_penalties: Tensor
    anchors: Sequence[str]
    mask: Tensor
    token_costs: Tensor
    entropies: Sequence[Tensor | None]
    values: Sequence[Tensor | None]

    @cached_property
    def token_rewards(self) -> Tensor:
        """(N, T): the row's score on its last counted token, minus the cost of each token.

        All are 0 in a row without counted tokens.
        """
        rewards = -self.token_costs * self.mask
        for place, score in enumerate(self.scores.tolist()):
            if len(counted := self.mask[place].nonzero()):
                rewards[place, int(counted[-1])] += score
        return rewards


class Advantage(Choice):
    """How much better a row, or a token, is than expected.

    Attributes:
        needs_groups: Compares the episodes of a group.
        needs_turns: Compares turns of episodes, so a row must be a turn.
        needs_entropies: Uses entropies of the old policy.
        of_tokens: Returns one advantage per token instead of one per row.
        task_normalized: Finally standardize token-level advantages within each task (AgentRL, arXiv
            2510.04206, Eq. 1).
    """

    needs_groups: ClassVar[bool] = True
    needs_turns: ClassVar[bool] = False
    needs_entropies: ClassVar[bool] = False
    of_tokens: ClassVar[bool] = False
    task_normalized: bool = False

    @abstractmethod
    def of(self, rows: RowBatch) -> Tensor:
        """(N,) advantages of rows, or (N, T) of tokens where `of_tokens`.

        It must be a pure function of its rows: an update can call it again, for the same rollout
        without penalties (`policy/penalty_share`).
        """

    def with_targets(self, rows: RowBatch) -> tuple[Tensor, Tensor | None]:
        """The result of `of`, and (N, T) targets of the critic; None without a critic."""
        return self.of(rows), None


class WithCritic(Advantage):
    """An advantage that uses a critic's values (`RowBatch.values`); choosing it trains a critic.

    Attributes:
        clip_range: How far a value may move in an update (`value_loss`).
        learning_rate: The critic's learning rate; None for `CRITIC_PACE` times the policy's.
    """

    needs_groups: ClassVar[bool] = False
    of_tokens: ClassVar[bool] = True
    clip_range: Positive = 0.5
    learning_rate: Positive | None = None

    def critic_rate(self, policy_rate: float) -> float:
        """The critic's learning rate, given the policy's."""
        return CRITIC_PACE * policy_rate if self.learning_rate is None else self.learning_rate

    def of(self, rows: RowBatch) -> Tensor:
        """(N, T) advantages of tokens."""
        return self.with_targets(rows)[0]

    @abstractmethod
    def with_targets(self, rows: RowBatch) -> tuple[Tensor, Tensor]:
        """(N, T) advantages of tokens, and (N, T) targets of the critic."""


class Relative(Advantage):
    """An advantage that compares a row with the others of its group.

    Attributes:
        over: What the statistics of a group count.
        variance: Variance over trajectories: `total`, or `between` their means, as in the released
            code, which gives huge advantages if the means are nearly equal but single turns differ.
        single: Advantage in a group of one sample: 0, or its score, as in the released code.
    """

    over: Over = "trajectories"
    variance: Variance = "total"
    single: Single = "zero"

    def relative(self, rows: RowBatch, divide_by_std: bool) -> Tensor:
        """(N,): a row's score relative to its group (`groups.group_relative`)."""
        return group_relative(
            rows.scores,
            rows.groups,
            rows.trajectories,
            over=self.over,
            divide_by_std=divide_by_std,
            single=self.single,
            variance=self.variance,
        )


def padded(values: Sequence[Tensor | None]) -> Tensor:
    """(N, T) values of rows, zero-padded on the right; a row without values is all 0."""
    rows = [value if value is not None else torch.zeros(0) for value in values]
    whole: Tensor = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return whole
