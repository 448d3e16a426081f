"""KL divergence from another policy, estimated per token on the policy's own samples."""

from dataclasses import dataclass
from typing import Literal, assert_never

import torch
from torch import Tensor

from baselines.algorithms.masked import counted_tokens

Estimator = Literal["k1", "k2", "k3"]

LOG_RATIO_LIMIT = 20.0
"""Largest absolute log-ratio of a token, wherever it enters a ratio or an estimate."""


def kl(
    log_probs: Tensor,
    reference_log_probs: Tensor,
    estimator: Estimator,
    limit: float = 10.0,
    *,
    response_mask: Tensor | None = None,
) -> Tensor:
    """Estimate KL(policy || reference) at each token.

    With d = reference_log_prob - log_prob, clamped to -20..20, for tokens sampled from the policy:

    - k1 = -d: unbiased, high variance, may be negative. As a loss it does nothing: the expected
      gradient of a token's own log-probability is 0. It belongs in the reward.
    - k2 = d^2 / 2: biased, low variance; its expected gradient is that of the KL.
    - k3 = exp(d) - 1 - d: unbiased, never negative, low variance unless a token is far less
      probable under the policy than under the reference. Its gradient `1 - exp(d)` is bounded on
      one side only, which `limit` fixes.

    Source: Schulman, "Approximating KL divergence" (2020). ARLArena's "low_var_kl" is k3 with these
    limits. In the reward, use the result without its gradient (`.detach()`).

    Args:
        log_probs: (N, T), of the policy; the gradient flows through them.
        reference_log_probs: (N, T).
        estimator: The estimator.
        limit: Largest absolute estimate; there is no gradient beyond.
        response_mask: (N, T), 1 for counted tokens: the others give 0 and no gradient, whatever
            their values. None counts all.

    Returns:
        (N, T), in nats.

    Raises:
        ValueError: Shapes differ.
    """
    distances = reference_log_probs.detach() - log_probs
    if response_mask is not None:
        distances = distances.where(counted_tokens(response_mask, distances), 0.0)
    distances = distances.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    if estimator == "k1":
        estimates = -distances
    elif estimator == "k2":
        estimates = distances.square() / 2
    elif estimator == "k3":
        # expm1 keeps the precision that exp(d) - 1 loses in float32 when d is small.
        estimates = torch.expm1(distances) - distances
    else:
        assert_never(estimator)
    return estimates.clamp(-limit, limit)


@dataclass(frozen=True, slots=True)
class MaskedStatistics:
    """Statistics of the counted values; None if there are none.

    Attributes:
        mean: Plain mean.
        median: Robust to single rare tokens.
        clipped_mean: Mean after clamping each value to -`clip`..`clip`: sensitive to many tokens,
            not to a single one.
    """

    mean: float | None
    median: float | None
    clipped_mean: float | None


def masked_statistics(values: Tensor, mask: Tensor, clip: float = 1.0) -> MaskedStatistics:
    """Logged statistics of values that are mostly small and sometimes huge, such as KL estimates.

    Args:
        values: Any shape.
        mask: Same shape, 1 for counted values.
        clip: Limit of the clipped mean, in the unit of the values.

    Returns:
        The statistics, computed in float64.

    Raises:
        ValueError: Shapes differ.
    """
    chosen = values.detach()[counted_tokens(mask, values)].double().sort().values
    count = len(chosen)
    if not count:
        return MaskedStatistics(None, None, None)
    middle = chosen[(count - 1) // 2 : count // 2 + 1].mean()
    parts = torch.stack((chosen.mean(), middle, chosen.clamp(-clip, clip).mean()))
    return MaskedStatistics(*parts.tolist())
