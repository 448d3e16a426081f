"""Generalized advantage estimation and the critic's loss, for PPO."""

from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from baselines.algorithms.advantage.base import RowBatch, WithCritic, padded
from baselines.algorithms.masked import counted_tokens, masked_whiten
from baselines.algorithms.part import Share


class GAE(WithCritic):
    """Generalized advantage estimation with a critic (PPO).

    Attributes:
        gamma: Discount per token, or between turns.
        lam: 0 trusts the critic, 1 the returns.
        discount: What gamma applies to. Per token, 0.95 reduces a reward to almost nothing 200
            tokens earlier (4e-5); per turn, tokens of one turn share it, and a row of one turn has
            no discount.
    """

    name: Literal["gae"] = "gae"
    gamma: Share = 1.0
    lam: Share = 1.0
    # Left out unless chosen: tracks and checkpoints are older than this setting.
    discount: Annotated[
        Literal["tokens", "turns"], Field(exclude_if=lambda value: value == "tokens")
    ] = "tokens"

    def with_targets(self, rows: RowBatch) -> tuple[Tensor, Tensor]:
        """(N, T) advantages of tokens, and the critic's targets."""
        values = padded(rows.values)
        return gae(
            rows.token_rewards,
            values,
            rows.mask,
            gamma=self.gamma,
            lam=self.lam,
            by_turns=self.discount == "turns",
        )


def gae(
    token_rewards: Tensor,
    values: Tensor,
    response_mask: Tensor,
    *,
    gamma: float,
    lam: float,
    by_turns: bool = False,
    whiten: bool = True,
    epsilon: float = 1e-8,
) -> tuple[Tensor, Tensor]:
    """Exponentially weighted sums of temporal-difference errors, within each row.

    `delta_t = r_t + gamma V_{t+1} - V_t`, `A_t = delta_t + gamma lam A_{t+1}`, V and A after a
    row's last counted token are 0. Uncounted tokens are skipped. Source: Schulman et al. (arXiv
    1506.02438), Eq. 11 and 16.

    Args:
        token_rewards: (N, T).
        values: (N, T): the critic's value before each token.
        response_mask: (N, T), 1 for counted tokens.
        gamma: Discount per token.
        lam: 0 trusts the critic, 1 the returns.
        by_turns: Discount only from a turn's last token to the next turn's first; uncounted tokens
            separate turns.
        whiten: Whether to whiten advantages over the whole batch.
        epsilon: Added to the variance when whitening.

    Returns:
        Advantages, and returns = advantages before whitening + values: the critic's targets. Both
        (N, T), in the type of `values`, 0 where the mask is 0, without a gradient.

    Raises:
        ValueError: Shapes differ.
    """
    counted = counted_tokens(response_mask, values)
    counted_tokens(response_mask, token_rewards)
    rewards, known = token_rewards.detach().double(), values.detach().double()
    advantage = next_value = known.new_zeros(len(known))
    advantages = torch.zeros_like(known)
    discounts = known.new_full(known.shape, gamma)
    if by_turns:
        discounts[:, :-1].masked_fill_(counted[:, 1:], 1.0)
    for t in reversed(range(known.shape[1])):
        step = discounts[:, t]
        delta = rewards[:, t] + step * next_value - known[:, t]
        advantage = torch.where(counted[:, t], delta + step * lam * advantage, advantage)
        next_value = torch.where(counted[:, t], known[:, t], next_value)
        advantages[:, t] = advantage
    returns = (advantages + known).where(counted, 0.0).to(values.dtype)
    raw = advantages.where(counted, 0.0).to(values.dtype)
    return (masked_whiten(raw, response_mask, epsilon) if whiten else raw), returns


def value_loss(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    response_mask: Tensor,
    clip_range: float | None,
) -> Tensor:
    """Squared error of the critic, the larger of unclipped and clipped.

    `0.5 max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2)`: a value that has moved more than c
    toward the target gets no gradient. Source: Huang et al., "The 37 implementation details of
    proximal policy optimization" (2022), detail 9.

    Args:
        values: (N, T), current values of the critic; the gradient flows through them.
        old_values: (N, T), values at the time of the rollout.
        returns: (N, T): the targets.
        response_mask: (N, T), 1 for counted tokens.
        clip_range: c; None for the plain squared error.

    Returns:
        (N, T): token losses, 0 where the mask is 0.

    Raises:
        ValueError: Shapes differ.
    """
    counted = counted_tokens(response_mask, values)
    # Before any arithmetic, so that not even a masked NaN can reach a gradient.
    values, old_values, returns = (
        part.where(counted_tokens(counted, part), 0.0)
        for part in (values, old_values.detach(), returns.detach())
    )
    free = (values - returns).square()
    if clip_range is None:
        return 0.5 * free
    clipped = (old_values + (values - old_values).clamp(-clip_range, clip_range) - returns).square()
    return 0.5 * torch.maximum(free, clipped)
