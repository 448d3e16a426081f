"""SAPO: a smooth gate."""

from typing import Literal

import torch

from baselines.algorithms.clipping.base import Clipping, TokenBatch, TokenLosses
from baselines.algorithms.part import Positive

FLAGGED = 0.2
"""Distance of a ratio from 1 that counts as clipped: where PPO's usual limits would act."""


class SAPO(Clipping):
    """A smooth gate instead of limits.

    `-A (4 / tau) sigmoid(tau (w - 1))`. A token's gradient has the weight `4 p (1 - p)`, p the
    sigmoid: 1 at w = 1, falling on both sides, faster for larger tau. Source: SAPO (arXiv
    2511.20347), which averages over tokens within rows and then over rows. As in ARLArena, the
    recipe averages over all tokens, and the sign of a row's mean advantage selects tau.

    Attributes:
        tau_positive: Steepness in rows whose mean advantage is above 0.
        tau_negative: Steepness in the other rows.
    """

    name: Literal["sapo"] = "sapo"
    tau_positive: Positive = 1.0
    tau_negative: Positive = 1.05

    def losses(self, batch: TokenBatch) -> TokenLosses:
        """The loss of every token, and which tokens PPO would have clipped."""
        ratios = batch.ratios()
        good = batch.row_means(batch.advantages)[:, None] > 0
        positive, negative = map(ratios.new_tensor, (self.tau_positive, self.tau_negative))
        tau = torch.where(good, positive, negative)
        gates = 4 / tau * torch.sigmoid(tau * (ratios - 1))
        return TokenLosses(-batch.advantages * gates, *batch.beyond(ratios, FLAGGED, FLAGGED))
