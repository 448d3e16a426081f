"""The loss of each token under the clipping that a recipe has chosen."""

import torch

from baselines.algorithms import clipping
from baselines.config.schema import CISPO, GSPO, SAPO, PPOClip, TrainConfig


def policy_loss(
    config: TrainConfig,
    log_probs: torch.Tensor,
    old: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
) -> clipping.TokenLosses:
    """(B, T) losses; arguments as in `algorithms.clipping`."""
    chosen = config.clipping
    if isinstance(chosen, PPOClip):
        return clipping.ppo_clip(
            log_probs,
            old,
            advantages,
            mask,
            clip_low=chosen.clip_low,
            clip_high=chosen.clip_high,
            dual_clip=chosen.dual_clip,
        )
    if isinstance(chosen, SAPO):
        return clipping.sapo(
            log_probs,
            old,
            advantages,
            mask,
            tau_positive=chosen.tau_positive,
            tau_negative=chosen.tau_negative,
        )
    assert isinstance(chosen, GSPO | CISPO)
    loss = clipping.gspo if isinstance(chosen, GSPO) else clipping.cispo
    return loss(
        log_probs,
        old,
        advantages,
        mask,
        clip_low=chosen.clip_low,
        clip_high=chosen.clip_high,
    )
