"""GiGPO: advantages of whole episodes plus advantages of single turns.

Trajectories of one group often visit the same observation. The turns that started from it form a
step group, and the discounted rewards that followed show which actions were better. Source: Feng et
al. (arXiv 2505.10978).
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import ClassVar, Literal

import torch
from torch import Tensor

from baselines.algorithms.advantage.base import Relative, RowBatch
from baselines.algorithms.advantage.groups import EPSILON, Over, Single, Variance, group_relative
from baselines.algorithms.part import NotNegative, Share

StepNorm = Literal["mean", "mean_std"]
"""Whether deviations from the mean are divided by the standard deviation."""


class GiGPO(Relative):
    """GRPO over episodes, plus GRPO over turns that begin at the same observation.

    `A = A_episode + step_weight * A_step`. As in the paper, both parts use the same normalization.

    Attributes:
        gamma: Discount per turn.
        step_weight: Weight of the second part (omega).
        step_norm: Normalization (F_norm).
        similarity: Minimum similarity of observations that count as the same; None for equal ones.
    """

    needs_turns: ClassVar[bool] = True
    name: Literal["gigpo"] = "gigpo"
    gamma: Share = 0.95
    step_weight: NotNegative = 1.0
    step_norm: StepNorm = "mean_std"
    similarity: Share | None = None

    def of(self, rows: RowBatch) -> Tensor:
        """(N,) advantages of rows."""
        returns = discounted_step_returns(
            rows.step_rewards, rows.trajectories, rows.turns, self.gamma
        )
        return gigpo(
            rows.scores,
            returns - rows.step_penalties,
            rows.groups,
            rows.trajectories,
            step_groups(rows.anchors, rows.groups, similarity=self.similarity),
            step_weight=self.step_weight,
            step_norm=self.step_norm,
            over=self.over,
            single=self.single,
            variance=self.variance,
        )


def discounted_step_returns(
    step_rewards: Tensor, trajectories: Tensor, turns: Tensor, gamma: float
) -> Tensor:
    """Discounted reward from each turn to the end of its trajectory.

    `R_k = sum over m >= k of gamma^(m - k) r_m`. Penalties that should not reach earlier
    turns are subtracted from the result.

    Args:
        step_rewards: (N,) floats: the environment's reward for the row's turn.
        trajectories: (N,) long, unique in the rollout.
        turns: (N,) long: number of the row's turn in its trajectory. Rows may be in any order.
        gamma: Discount per turn.

    Returns:
        (N,), in the type of `step_rewards`, without a gradient.

    Raises:
        ValueError: Shapes differ, or a trajectory has two rows of one turn.
    """
    if step_rewards.ndim != 1 or not (step_rewards.shape == trajectories.shape == turns.shape):
        shapes = [tuple(part.shape) for part in (step_rewards, trajectories, turns)]
        raise ValueError(f"rewards, trajectories and turns must be (N,), not {shapes}")
    rewards = step_rewards.detach().double().tolist()
    names, numbers = trajectories.tolist(), turns.tolist()
    later: dict[int, tuple[int, float]] = {}
    returns = [0.0] * len(rewards)
    for row in sorted(range(len(rewards)), key=lambda row: numbers[row], reverse=True):
        turn, following = later.get(names[row], (numbers[row] + 1, 0.0))
        if turn == numbers[row]:
            raise ValueError(f"trajectory {names[row]} has two rows of turn {turn}")
        returns[row] = rewards[row] + gamma ** (turn - numbers[row]) * following
        later[names[row]] = (numbers[row], returns[row])
    return torch.tensor(returns, dtype=step_rewards.dtype, device=step_rewards.device)


def step_groups(
    anchors: Sequence[str], groups: Tensor, *, similarity: float | None = None
) -> Tensor:
    """Number the sets of rows of one group that started from the same observation.

    With `similarity`, a row joins the first set of its group whose first member is at least that
    similar (`difflib.SequenceMatcher.ratio`, which is not symmetric: the row's text is its first
    argument). This costs one comparison per row and set; exact equality costs almost nothing.

    Args:
        anchors: N observations, without history and instructions.
        groups: (N,) long.
        similarity: Smallest ratio, in 0..1; None for exact equality.

    Returns:
        (N,) long on the device of `groups`: numbers from 0 in the order of first appearance. No set
        crosses groups.

    Raises:
        ValueError: There are not as many anchors as rows.
    """
    if groups.shape != (len(anchors),):
        raise ValueError(f"{len(anchors)} anchors do not fit groups {tuple(groups.shape)}")
    # A known text always joins the same set, because sets are only appended.
    placed: dict[tuple[int, str], int] = {}
    firsts: dict[int, list[tuple[int, SequenceMatcher[str]]]] = {}
    count = 0
    numbers = []
    for anchor, group in zip(anchors, groups.tolist(), strict=True):
        number = placed.get((group, anchor))
        if number is None and similarity is not None:
            number = _first_similar(anchor, firsts.setdefault(group, []), similarity)
        if number is None:
            number, count = count, count + 1
            if similarity is not None:
                # The matcher indexes its second text once, for all later comparisons.
                firsts[group].append((number, SequenceMatcher(b=anchor)))
        placed[group, anchor] = number
        numbers.append(number)
    return torch.tensor(numbers, dtype=torch.long, device=groups.device)


def gigpo(
    scores: Tensor,
    step_returns: Tensor,
    groups: Tensor,
    trajectories: Tensor,
    step_group_ids: Tensor,
    *,
    step_weight: float,
    step_norm: StepNorm,
    over: Over,
    single: Single,
    variance: Variance,
    epsilon: float = EPSILON,
) -> Tensor:
    """Advantage of the episode within its group, plus that of the turn within its step group.

    Args:
        scores: (N,) floats: return of the row's trajectory, minus the row's own penalty.
        step_returns: (N,) floats: `discounted_step_returns`, minus the row's own penalty.
        groups: (N,) long.
        trajectories: (N,) long, unique in the rollout.
        step_group_ids: (N,) long: `step_groups`.
        step_weight: See `GiGPO`.
        step_norm: See `GiGPO`.
        over: See `GiGPO`.
        single: See `GiGPO`.
        variance: See `GiGPO`.
        epsilon: Added to the standard deviations.

    Returns:
        (N,), in the type of `scores`, without a gradient.

    Raises:
        ValueError: As for `group_relative`.
    """
    episode = group_relative(
        scores,
        groups,
        trajectories,
        over=over,
        divide_by_std=step_norm == "mean_std",
        single=single,
        variance=variance,
        epsilon=epsilon,
    )
    step = step_relative(step_returns, step_group_ids, norm=step_norm, epsilon=epsilon)
    return episode + step_weight * step.to(episode.dtype)


def step_relative(
    step_returns: Tensor, step_group_ids: Tensor, *, norm: StepNorm, epsilon: float = EPSILON
) -> Tensor:
    """The second part alone: a turn's return relative to its step group.

    Args:
        step_returns: (N,) floats.
        step_group_ids: (N,) long.
        norm: Whether to divide by the standard deviation.
        epsilon: Added to it.

    Returns:
        (N,), in the type of `step_returns`: 0 for a turn that is alone in its step group.

    Raises:
        ValueError: Shapes differ.
    """
    return group_relative(
        step_returns,
        step_group_ids,
        step_group_ids,
        over="rows",
        divide_by_std=norm == "mean_std",
        single="zero",
        variance="total",
        epsilon=epsilon,
    )


def _first_similar(
    anchor: str, firsts: Sequence[tuple[int, SequenceMatcher[str]]], similarity: float
) -> int | None:
    for number, matcher in firsts:
        matcher.set_seq1(anchor)
        # Both quick ratios are upper bounds of the ratio.
        if (
            matcher.real_quick_ratio() >= similarity
            and matcher.quick_ratio() >= similarity
            and matcher.ratio() >= similarity
        ):
            return number
    return None
