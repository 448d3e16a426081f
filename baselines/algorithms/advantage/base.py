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
        step_rewards: (N,) float64: what the world paid for the row's turn.
        step_penalties: (N,) float64: the row's own penalty, 0 where it is not part of scores.
        anchors: N observations that turns began at, without history and instructions.
        mask: (N, T) floats, 1 for counted tokens; a masked row has none.
        token_costs: (N, T): what each token costs, KL in the reward; 0 where there is none.
        entropies: (T,) a row, of the old policy; only where `needs_entropies`.
        values: (T,) a row, by the critic; only of a `WithCritic`.
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
        """(N, T): the row's score on its last counted token, minus what each token costs.

        Of a row without counted tokens, all are 0.
        """
        rewards = -self.token_costs * self.mask
        for place, score in enumerate(self.scores.tolist()):
            if len(counted := self.mask[place].nonzero()):
                rewards[place, int(counted[-1])] += score
        return rewards


class Advantage(Choice):
    """How much better a row, or a token, is than expected.

    Attributes:
        needs_groups: It compares the episodes of a group.
        needs_turns: It compares turns of episodes, so that a row must be one.
        needs_entropies: It looks at entropies of the old policy.
        of_tokens: It gives one advantage a token instead of one a row.
        task_normalized: Token-level advantages of each task are standardized in the end (AgentRL,
            arXiv 2510.04206, Eq. 1).
    """

    needs_groups: ClassVar[bool] = True
    needs_turns: ClassVar[bool] = False
    needs_entropies: ClassVar[bool] = False
    of_tokens: ClassVar[bool] = False
    task_normalized: bool = False

    @abstractmethod
    def of(self, rows: RowBatch) -> Tensor:
        """(N,) advantages of rows, or (N, T) of tokens where `of_tokens`.

        A function of its rows alone: an update can ask for it again, for the same rollout without
        penalties (`policy/penalty_share`).
        """

    def with_targets(self, rows: RowBatch) -> tuple[Tensor, Tensor | None]:
        """What `of` gives, and (N, T) targets of the critic; None where there is none."""
        return self.of(rows), None


class WithCritic(Advantage):
    """What looks at a critic's values (`RowBatch.values`): where it is chosen, one is trained.

    Attributes:
        clip_range: How far a value may move in an update (`value_loss`).
        learning_rate: The critic's; None for `CRITIC_PACE` times the policy's.
    """

    needs_groups: ClassVar[bool] = False
    of_tokens: ClassVar[bool] = True
    clip_range: Positive = 0.5
    learning_rate: Positive | None = None

    def critic_rate(self, policy_rate: float) -> float:
        """The critic's learning rate, beside that of the policy."""
        return CRITIC_PACE * policy_rate if self.learning_rate is None else self.learning_rate

    def of(self, rows: RowBatch) -> Tensor:
        """(N, T) advantages of tokens."""
        return self.with_targets(rows)[0]

    @abstractmethod
    def with_targets(self, rows: RowBatch) -> tuple[Tensor, Tensor]:
        """(N, T) advantages of tokens, and (N, T) targets of the critic."""


class Relative(Advantage):
    """What compares a row with the others of its group.

    Attributes:
        over: What the statistics of a group count.
        variance: Of trajectories: `total`, or `between` their means, as in the released code, which
            gives huge advantages where the means are nearly equal and single turns are not.
        single: What a group of one sample gets: nothing, or its score, as in the released code.
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
    """(N, T): what rows have, 0 behind it and where a row has nothing."""
    rows = [value if value is not None else torch.zeros(0) for value in values]
    whole: Tensor = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return whole
