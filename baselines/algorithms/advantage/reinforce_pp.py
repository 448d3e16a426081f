"""REINFORCE++: token returns, whitened."""

from typing import ClassVar, Literal

import torch
from torch import Tensor

from baselines.algorithms.advantage.base import Advantage, RowBatch
from baselines.algorithms.masked import counted_tokens, masked_whiten
from baselines.algorithms.part import Share


class ReinforcePP(Advantage):
    """Discounted token returns, standardized over the whole batch; needs no groups.

    Attributes:
        gamma: Discount per token.
    """

    needs_groups: ClassVar[bool] = False
    of_tokens: ClassVar[bool] = True
    name: Literal["reinforce_pp"] = "reinforce_pp"
    gamma: Share = 1.0

    def of(self, rows: RowBatch) -> Tensor:
        """(N, T) advantages of tokens."""
        return reinforce_plus_plus(rows.token_rewards, rows.mask, gamma=self.gamma)


def reinforce_plus_plus(
    token_rewards: Tensor, response_mask: Tensor, *, gamma: float, epsilon: float = 1e-8
) -> Tensor:
    """REINFORCE++: discounted token returns, whitened over the whole batch; no groups, no critic.

    `G_t = r_t + gamma G_{t+1}` over the counted tokens of a row, then `masked_whiten`. Uncounted
    tokens (tool output inside a trajectory) are not discounted. Source: Hu et al. (arXiv
    2501.03262).

    Args:
        token_rewards: (N, T): the score on the row's last counted token, a KL penalty on any.
        response_mask: (N, T), 1 for counted tokens.
        gamma: Discount per token.
        epsilon: Added to the variance.

    Returns:
        (N, T), in the type of `token_rewards`, 0 where the mask is 0, without a gradient.

    Raises:
        ValueError: Shapes differ.
    """
    counted = counted_tokens(response_mask, token_rewards)
    rewards = token_rewards.detach().double()
    following = rewards.new_zeros(len(rewards))
    returns = torch.zeros_like(rewards)
    for t in reversed(range(rewards.shape[1])):
        following = torch.where(counted[:, t], rewards[:, t] + gamma * following, following)
        returns[:, t] = following
    return masked_whiten(returns.to(token_rewards.dtype), response_mask, epsilon)
