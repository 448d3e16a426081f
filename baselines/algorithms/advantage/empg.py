"""EMPG: advantages modulated by the policy's uncertainty.

Confident turns learn more, uncertain turns less, and a turn gains a little if the next turn of its
trajectory is confident. Source: Wang et al. (arXiv 2509.09265). There a step is a segment of one
long sample, and the authors' pseudocode has zeta = 0.1; ARLArena applies it to turn rows with
zeta = 0.05, which is the default here.
"""

from typing import ClassVar, Literal

import torch
from torch import Tensor

from baselines.algorithms.advantage.base import Relative, RowBatch, padded
from baselines.algorithms.masked import counted_tokens
from baselines.algorithms.part import NotNegative

_TINY = 1e-8


class EMPG(Relative):
    """GRPO weighted by the entropy of turns, plus a bonus for leading to a confident turn.

    Attributes:
        k: Strength of the scale.
        k_future: Strength of the bonus's dependence on the next turn's entropy.
        zeta: Weight of the bonus.
    """

    needs_turns: ClassVar[bool] = True
    needs_entropies: ClassVar[bool] = True
    name: Literal["empg"] = "empg"
    k: NotNegative = 1.0
    k_future: NotNegative = 1.0
    zeta: NotNegative = 0.05

    def of(self, rows: RowBatch) -> Tensor:
        """(N,) advantages of rows."""
        return empg(
            self.relative(rows, divide_by_std=True),
            padded(rows.entropies).double(),
            rows.mask.double(),
            rows.trajectories,
            rows.turns,
            k=self.k,
            k_future=self.k_future,
            zeta=self.zeta,
        )


def empg(
    base: Tensor,
    token_entropies: Tensor,
    response_mask: Tensor,
    trajectories: Tensor,
    turns: Tensor,
    *,
    k: float,
    k_future: float,
    zeta: float,
) -> Tensor:
    """Self-calibrating gradient scale plus future clarity, centered over the batch.

    With h = the row's mean token entropy, scaled to 0..1 over the batch:
    `g_i = exp(-k h_i) / mean_j exp(-k h_j)`,
    `A_i = g_i base_i + zeta exp(-k_future h_next)`, the last term only if the trajectory has a next
    turn, then minus the mean of A over the rows. Rows without a counted token have no entropy: they
    are excluded from all means and get 0.

    Args:
        base: (N,) floats: GRPO's advantages.
        token_entropies: (N, T): entropy of the old policy at each token, in nats.
        response_mask: (N, T), 1 for counted tokens.
        trajectories: (N,) long, unique in the rollout.
        turns: (N,) long: number of the row's turn in its trajectory.
        k: Strength of the scale.
        k_future: Strength of the bonus's dependence on the next turn's entropy.
        zeta: Weight of the bonus.

    Returns:
        (N,), in the type of `base`, without a gradient.

    Raises:
        ValueError: Shapes differ.
    """
    if not (base.shape == trajectories.shape == turns.shape == token_entropies.shape[:1]):
        raise ValueError(
            f"base {tuple(base.shape)}, trajectories {tuple(trajectories.shape)} and turns "
            f"{tuple(turns.shape)} do not fit {len(token_entropies)} rows"
        )
    entropies, present = _scaled_entropies(token_entropies, response_mask)
    clarity = torch.exp(-k_future * entropies)
    places = list(zip(trajectories.tolist(), turns.tolist(), strict=True))
    by_turn = {
        place: value
        for place, value, there in zip(places, clarity.tolist(), present.tolist(), strict=True)
        if there
    }
    bonus = [by_turn.get((trajectory, turn + 1), 0.0) for trajectory, turn in places]
    confidence = torch.exp(-k * entropies)
    scale = confidence / (_mean(confidence, present) + _TINY)
    advantages = scale * base.detach().double() + zeta * entropies.new_tensor(bonus)
    centered = advantages - _mean(advantages, present)
    return centered.where(present, 0.0).to(base.dtype)


def _scaled_entropies(token_entropies: Tensor, response_mask: Tensor) -> tuple[Tensor, Tensor]:
    """Mean entropies of rows scaled to 0..1 over the batch, in float64, and which rows have one."""
    counted = counted_tokens(response_mask, token_entropies)
    present = counted.any(dim=1)
    sums = token_entropies.detach().double().where(counted, 0.0).sum(dim=1)
    means = sums / counted.sum(dim=1).clamp(min=1)
    if not present.any():
        return means, present
    low, high = means[present].min(), means[present].max()
    return (means - low) / (high - low + _TINY), present


def _mean(values: Tensor, present: Tensor) -> Tensor:
    return values.where(present, 0.0).sum() / present.sum().clamp(min=1)
