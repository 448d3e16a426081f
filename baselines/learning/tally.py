"""Statistics of an update's optimizer steps."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch

from baselines.algorithms.clipping.base import TokenLosses


@dataclass(slots=True)
class UpdateStats:
    """Statistics of an update's optimizer steps on this process.

    Attributes:
        losses: This process's share of the loss of each completed step.
        grad_norms: Norm of each step before clipping; not finite if the step was skipped.
        skipped: Number of skipped steps.
        masked_rows: Rows that the sequence mask dropped.
        log_ratios: New minus old log-probability of every token of every pass.
        row_ratios: Mean log-ratio of each row.
        entropies: Entropy of every token of every pass.
        low: Tokens clipped at the lower limit.
        high: Tokens clipped at the upper limit.
        critic_losses: Loss of each completed critic step.
        critic_skipped: Number of skipped critic steps.
        first_log_probs: Log-probabilities at temperature 1, by row, of rows whose old policy was
            the current one.
    """

    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    skipped: int = 0
    masked_rows: int = 0
    log_ratios: list[npt.NDArray[np.float32]] = field(default_factory=list)
    row_ratios: list[npt.NDArray[np.float32]] = field(default_factory=list)
    entropies: list[npt.NDArray[np.float32]] = field(default_factory=list)
    low: int = 0
    high: int = 0
    critic_losses: list[float] = field(default_factory=list)
    critic_skipped: int = 0
    first_log_probs: dict[int, torch.Tensor] = field(default_factory=dict)

    def count(
        self,
        mask: torch.Tensor,
        log_ratios: torch.Tensor,
        entropies: torch.Tensor,
        limits: TokenLosses,
    ) -> None:
        """Add the tokens of one pass.

        Args:
            mask: (B, T) 1 where a token counts.
            log_ratios: (B, T) new minus old log-probability.
            entropies: (B, T).
            limits: Which tokens were clipped.
        """
        counted = mask > 0
        filled = counted.any(1)
        if not filled.any():
            return
        self.log_ratios.append(log_ratios[counted].float().cpu().numpy())
        means = (log_ratios * mask).sum(1)[filled] / mask.sum(1)[filled]
        self.row_ratios.append(means.float().cpu().numpy())
        self.entropies.append(entropies[counted].float().cpu().numpy())
        self.low += int((limits.clipped_low & counted).sum())
        self.high += int((limits.clipped_high & counted).sum())
