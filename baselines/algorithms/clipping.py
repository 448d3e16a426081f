"""Second dimension: importance ratios between new and old policy, and what limits them.

Every loss takes (N, T) matrices and gives the loss of each token, to be minimized; the third
dimension (`aggregation`) makes one number of them. The gradient flows through `log_probs` alone.
With l = log_prob - old_log_prob limited to -20..20 (no gradient beyond), the ratio is w = exp(l),
and A is the token's advantage. Tokens whose mask is 0 get loss 0 and no gradient, whatever stands
there.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from baselines.algorithms.advantages import counted_tokens

LOG_RATIO_LIMIT = 20.0
"""Largest absolute log-ratio of a token."""
SEQUENCE_LOG_RATIO_LIMIT = 10.0
"""Largest log-ratio of a row in GSPO."""


@dataclass(frozen=True, slots=True)
class TokenLosses:
    """Losses and what was limited, (N, T) each; False where the mask is 0.

    Attributes:
        losses: To be minimized.
        clipped_low: The lower limit takes the gradient away (A < 0, ratio below it). In CISPO,
            which keeps every gradient: the ratio is below the limit, whatever A. In SAPO, which has
            none: where PPO's would act.
        clipped_high: The same of the upper limit (A > 0, ratio above it).
        clipped_dual: The second upper limit of PPO's clip takes the gradient away (A < 0).
    """

    losses: Tensor
    clipped_low: Tensor
    clipped_high: Tensor
    clipped_dual: Tensor

    @property
    def clipped(self) -> Tensor:
        """At the lower or the upper limit; its mean over counted tokens is the clip fraction."""
        return self.clipped_low | self.clipped_high


def ppo_clip(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = 3.0,
) -> TokenLosses:
    """PPO's clipped loss, with dual clip.

    `max(-A w, -A clip(w, 1 - clip_low, 1 + clip_high))`, and for A < 0 at most `-A dual_clip`.
    Source: Schulman et al. (arXiv 1707.06347), Eq. 7; unlike limits: DAPO (arXiv 2503.14476); dual
    clip: Ye et al. (arXiv 1912.09729).

    Args:
        log_probs: (N, T), of the policy now.
        old_log_probs: (N, T), of the policy that made the rollout.
        advantages: (N, T).
        response_mask: (N, T), 1 for counted tokens.
        clip_low: How far a ratio may fall below 1.
        clip_high: How far a ratio may rise above 1.
        dual_clip: Largest ratio where A < 0, above 1; None for no such limit (PPO as it was).

    Returns:
        Losses and flags.

    Raises:
        ValueError: Shapes differ, or `dual_clip` is not above 1.
    """
    if dual_clip is not None and dual_clip <= 1:
        raise ValueError(f"dual_clip must be above 1, not {dual_clip}: it would stop every update")
    batch = _counted(log_probs, old_log_probs, advantages, response_mask)
    ratios = batch.ratios()
    low, high = batch.beyond(ratios, clip_low, clip_high)
    dual = torch.zeros_like(low)
    limited = torch.where(low | high, ratios.clamp(1 - clip_low, 1 + clip_high), ratios)
    if dual_clip is not None:
        dual = (batch.advantages < 0) & (ratios > dual_clip)
        limited = torch.where(dual, dual_clip, limited)
    return TokenLosses(-batch.advantages * limited, low, high, dual)


def gspo(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    *,
    clip_low: float,
    clip_high: float,
) -> TokenLosses:
    """One ratio for the whole row.

    `s = exp(mean of l over the row's counted tokens)`, l without limit, the mean at most 10;
    `max(-A s, -A clip(s, 1 - clip_low, 1 + clip_high))` for every token. In the token form used
    here a token's gradient is `-A s` (0 where clipped or at the limit), which aggregated over a row
    with one A is the gradient of the row's loss. Source: Zheng et al. (arXiv 2507.18071), Eq. 5, 7
    and 13. The paper aggregates by seq-mean-token-mean.

    Args:
        log_probs: (N, T), of the policy now.
        old_log_probs: (N, T), of the policy that made the rollout.
        advantages: (N, T).
        response_mask: (N, T), 1 for counted tokens.
        clip_low: How far a row's ratio may fall below 1; some 1e-3, as it is a geometric mean.
        clip_high: How far it may rise above 1.

    Returns:
        Losses and flags.

    Raises:
        ValueError: Shapes differ.
    """
    batch = _counted(log_probs, old_log_probs, advantages, response_mask)
    means = batch.row_means(batch.log_probs - batch.old_log_probs).detach()[:, None]
    # The difference is 0; it is added last so that it cannot cost the mean any digits.
    log_ratios = means + (batch.log_probs - batch.log_probs.detach())
    ratios = log_ratios.clamp(max=SEQUENCE_LOG_RATIO_LIMIT).exp()
    low, high = batch.beyond(ratios, clip_low, clip_high)
    limited = torch.where(low | high, ratios.clamp(1 - clip_low, 1 + clip_high), ratios)
    return TokenLosses(-batch.advantages * limited, low, high, torch.zeros_like(low))


def cispo(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    *,
    clip_low: float = 1.0,
    clip_high: float = 0.2,
) -> TokenLosses:
    """The clipped ratio is a constant weight, so that no token loses its gradient.

    `-constant(clip(w, 1 - clip_low, 1 + clip_high)) A log_prob`. With `clip_low=1` there is no
    lower limit. Source: MiniMax-M1 (arXiv 2506.13585), Eq. 4 and 5.

    Args:
        log_probs: (N, T), of the policy now.
        old_log_probs: (N, T), of the policy that made the rollout.
        advantages: (N, T).
        response_mask: (N, T), 1 for counted tokens.
        clip_low: How far a weight may fall below 1.
        clip_high: How far a weight may rise above 1.

    Returns:
        Losses and flags.

    Raises:
        ValueError: Shapes differ.
    """
    batch = _counted(log_probs, old_log_probs, advantages, response_mask)
    ratios = batch.ratios().detach()
    weights = ratios.clamp(1 - clip_low, 1 + clip_high)
    return TokenLosses(
        losses=-weights * batch.advantages * batch.log_probs,
        clipped_low=ratios < 1 - clip_low,
        clipped_high=ratios > 1 + clip_high,
        clipped_dual=torch.zeros_like(batch.counted),
    )


def sapo(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    *,
    tau_positive: float = 1.0,
    tau_negative: float = 1.05,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> TokenLosses:
    """A smooth gate in the place of limits.

    `-A (4 / tau) sigmoid(tau (w - 1))`. A token's gradient has the weight `4 p (1 - p)`, p the
    sigmoid: 1 at w = 1, falling on both sides, the faster the larger tau is. Source: SAPO (arXiv
    2511.20347).

    Args:
        log_probs: (N, T), of the policy now.
        old_log_probs: (N, T), of the policy that made the rollout.
        advantages: (N, T).
        response_mask: (N, T), 1 for counted tokens.
        tau_positive: Steepness in rows whose mean advantage is above 0.
        tau_negative: Steepness in the other rows.
        clip_low: For the flags alone: where PPO's lower limit would act.
        clip_high: For the flags alone: where PPO's upper limit would act.

    Returns:
        Losses and flags.

    Raises:
        ValueError: Shapes differ.
    """
    batch = _counted(log_probs, old_log_probs, advantages, response_mask)
    ratios = batch.ratios()
    good = batch.row_means(batch.advantages)[:, None] > 0
    tau = torch.where(good, ratios.new_tensor(tau_positive), ratios.new_tensor(tau_negative))
    gates = 4 / tau * torch.sigmoid(tau * (ratios - 1))
    low, high = batch.beyond(ratios, clip_low, clip_high)
    return TokenLosses(-batch.advantages * gates, low, high, torch.zeros_like(low))


def sequence_mask(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    delta: float,
) -> Tensor:
    """Which rows to keep: all but bad ones that the policy has already moved away from.

    A row is dropped if its mean advantage is below 0 and the mean of `old_log_prob - log_prob` (no
    limit) over its counted tokens is above `delta`. Source: DeepSeek-V3.2 (arXiv 2512.02556), Eq.
    9; ARLArena (arXiv 2602.21534), Table 1.

    The released code takes dropped rows out of the mask before everything else, so also out of the
    denominators; the paper keeps `1 / sum T_i`. Both are one call away: pass the reduced mask to
    the loss and to `aggregate`, and the totals of the reduced or of the full mask.

    Args:
        log_probs: (N, T), of the policy now.
        old_log_probs: (N, T), of the policy that made the rollout.
        advantages: (N, T).
        response_mask: (N, T), 1 for counted tokens.
        delta: How far a row may have moved, in nats per token.

    Returns:
        (N,) bools, True for rows to keep. Rows without a counted token are kept.

    Raises:
        ValueError: Shapes differ.
    """
    batch = _counted(log_probs.detach(), old_log_probs, advantages, response_mask)
    moved = batch.row_means(batch.old_log_probs - batch.log_probs)
    return ~((batch.row_means(batch.advantages) < 0) & (moved > delta))


@dataclass(frozen=True, slots=True)
class _Batch:
    """Inputs with 0 wherever the mask is 0."""

    log_probs: Tensor
    old_log_probs: Tensor
    advantages: Tensor
    counted: Tensor

    def ratios(self) -> Tensor:
        log_ratios = self.log_probs - self.old_log_probs
        return log_ratios.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()

    def beyond(self, ratios: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
        """Where the larger one of free and clipped loss is the clipped one, at either limit."""
        return (
            (self.advantages < 0) & (ratios < 1 - low),
            (self.advantages > 0) & (ratios > 1 + high),
        )

    def row_means(self, values: Tensor) -> Tensor:
        """(N,): mean over counted tokens of values that are 0 elsewhere; 0 for an empty row."""
        return values.sum(dim=1) / self.counted.sum(dim=1).clamp(min=1)


def _counted(
    log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, response_mask: Tensor
) -> _Batch:
    """Put 0 under the mask before any arithmetic: NaN there would reach the gradient otherwise."""
    counted = counted_tokens(response_mask, log_probs)
    parts = (log_probs, old_log_probs.detach(), advantages.detach())
    clean = [part.where(counted_tokens(counted, part), 0.0) for part in parts]
    return _Batch(clean[0], clean[1], clean[2], counted)
