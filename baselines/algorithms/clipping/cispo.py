"""CISPO: clipped weights, full gradients."""

from typing import Literal

from baselines.algorithms.clipping.base import Clipping, TokenBatch, TokenLosses
from baselines.algorithms.part import NotNegative


class CISPO(Clipping):
    """The clipped ratio is a constant weight, so that no token loses its gradient.

    `-constant(clip(w, 1 - clip_low, 1 + clip_high)) A log_prob`. With `clip_low=1` there is no
    lower limit. Source: MiniMax-M1 (arXiv 2506.13585), Eq. 4 and 5.
    """

    name: Literal["cispo"] = "cispo"
    clip_low: NotNegative = 1.0
    clip_high: NotNegative = 0.2

    def losses(self, batch: TokenBatch) -> TokenLosses:
        """The loss of every token, and where its weight was clipped."""
        ratios = batch.ratios().detach()
        low, high = 1 - self.clip_low, 1 + self.clip_high
        losses = -ratios.clamp(low, high) * batch.advantages * batch.log_probs
        return TokenLosses(losses, ratios < low, ratios > high)
