"""GSPO: one ratio for the whole row."""

from typing import Literal

from baselines.algorithms.clipping.base import Clipping, TokenBatch, TokenLosses, limited
from baselines.algorithms.part import NotNegative

SEQUENCE_LOG_RATIO_LIMIT = 10.0
"""Largest log-ratio of a row."""


class GSPO(Clipping):
    """One ratio for a row: the geometric mean of its tokens' ratios.

    `s = exp(mean of l over the row's counted tokens)`, l not clamped, the mean at most 10;
    `max(-A s, -A clip(s, 1 - clip_low, 1 + clip_high))` for every token. In the token form used
    here a token's gradient is `-A s` (0 where clipped or at the limit); aggregated over a row with
    one A, this is the gradient of the row's loss. Source: Zheng et al. (arXiv 2507.18071), Eq. 5, 7
    and 13. The paper aggregates by seq-mean-token-mean.

    Attributes:
        clip_low: How far a row's ratio may fall below 1; about 1e-3, as it is a geometric mean.
        clip_high: How far a row's ratio may rise above 1.
    """

    name: Literal["gspo"] = "gspo"
    clip_low: NotNegative = 3e-3
    clip_high: NotNegative = 4e-3

    def losses(self, batch: TokenBatch) -> TokenLosses:
        """The loss of every token, and where it was clipped."""
        means = batch.row_means(batch.log_probs - batch.old_log_probs).detach()[:, None]
        # The difference is 0; adding it last preserves the precision of the mean.
        log_ratios = means + (batch.log_probs - batch.log_probs.detach())
        ratios = log_ratios.clamp(max=SEQUENCE_LOG_RATIO_LIMIT).exp()
        return limited(batch, ratios, self.clip_low, self.clip_high)
