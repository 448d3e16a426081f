"""PPO's clip."""

from dataclasses import replace
from typing import Annotated, Literal

import torch
from pydantic import Field

from baselines.algorithms.clipping.base import Clipping, TokenBatch, TokenLosses, limited
from baselines.algorithms.part import NotNegative


class PPOClip(Clipping):
    """Token ratios, the more pessimistic of clipped and unclipped, with dual clip.

    `max(-A w, -A clip(w, 1 - clip_low, 1 + clip_high))`, and for A < 0 at most `-A dual_clip`.
    Source: Schulman et al. (arXiv 1707.06347), Eq. 7; asymmetric limits: DAPO (arXiv 2503.14476);
    dual clip: Ye et al. (arXiv 1912.09729).

    Attributes:
        clip_low: How far a ratio may fall below 1.
        clip_high: How far a ratio may rise above 1.
        dual_clip: Largest ratio where A < 0; None for no such limit (original PPO). At 1 or below
            it would block every update.
    """

    name: Literal["ppo"] = "ppo"
    clip_low: NotNegative = 0.2
    clip_high: NotNegative = 0.2
    dual_clip: Annotated[float, Field(gt=1, allow_inf_nan=False)] | None = 3.0

    def losses(self, batch: TokenBatch) -> TokenLosses:
        """The loss of every token, and where it was clipped."""
        ratios = batch.ratios()
        found = limited(batch, ratios, self.clip_low, self.clip_high)
        if self.dual_clip is None:
            return found
        dual = (batch.advantages < 0) & (ratios > self.dual_clip)
        losses = torch.where(dual, -batch.advantages * self.dual_clip, found.losses)
        return replace(found, losses=losses, clipped_dual=dual)
