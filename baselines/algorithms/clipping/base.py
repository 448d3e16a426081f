"""The interface of clipping rules, and the sequence mask that works with any of them."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Final, Literal, Self

import torch
from torch import Tensor

from baselines.algorithms.kl import LOG_RATIO_LIMIT
from baselines.algorithms.masked import counted_tokens
from baselines.algorithms.part import Choice, NotNegative, Part, own_code
from tasks.errors import UserError

UNMOVED: Final = 0.01
"""Largest absolute log-ratio of a policy that has not moved yet, up to rounding."""


@dataclass(frozen=True, slots=True)
class TokenLosses:
    """Losses and where they were clipped, (N, T) each; False where the mask is 0.

    Attributes:
        losses: The losses to minimize.
        clipped_low: The lower limit removes the gradient (A < 0, ratio below it). In CISPO, which
            keeps every gradient: the ratio is below the limit, whatever A. In SAPO, which has no
            limits: where PPO's limit would act.
        clipped_high: The same for the upper limit (A > 0, ratio above it).
        clipped_dual: PPO's dual clip removes the gradient (A < 0); None for rules without one.
    """

    losses: Tensor
    clipped_low: Tensor
    clipped_high: Tensor
    clipped_dual: Tensor | None = None

    @property
    def clipped(self) -> Tensor:
        """Clipped at either limit; the mean over counted tokens is the clip fraction."""
        return self.clipped_low | self.clipped_high


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Tokens of N rows, (N, T) each, 0 wherever the mask is 0; created with `of`.

    Attributes:
        log_probs: Log-probabilities under the current policy.
        old_log_probs: Under the policy at the start of the update, without a gradient.
        advantages: Without a gradient.
        counted: Bools, True for counted tokens.
    """

    log_probs: Tensor
    old_log_probs: Tensor
    advantages: Tensor
    counted: Tensor

    @classmethod
    def of(
        cls, log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, response_mask: Tensor
    ) -> Self:
        """Zero masked values before any arithmetic; otherwise a NaN there would reach the gradient.

        Args:
            log_probs: (N, T), under the current policy.
            old_log_probs: (N, T), under the policy at the start of the update.
            advantages: (N, T).
            response_mask: (N, T), 1 for counted tokens.

        Raises:
            ValueError: Shapes differ.
        """
        counted = counted_tokens(response_mask, log_probs)
        parts = (log_probs, old_log_probs.detach(), advantages.detach())
        clean = [part.where(counted_tokens(counted, part), 0.0) for part in parts]
        return cls(clean[0], clean[1], clean[2], counted)

    def ratios(self) -> Tensor:
        """(N, T): new over old probability, with the log-ratio clamped."""
        log_ratios = self.log_probs - self.old_log_probs
        return log_ratios.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()

    @property
    def unmoved(self) -> bool:
        """Whether everything is finite and the policy is still the old one."""
        moved = (self.log_probs.detach() - self.old_log_probs).abs()
        # NaN compares as False.
        return bool((moved <= UNMOVED).all() and self.advantages.isfinite().all())

    @property
    def has_both_signs(self) -> bool:
        """Whether advantages are both above and below 0, so that any rule has a gradient."""
        return bool((self.advantages > 0).any() and (self.advantages < 0).any())

    def beyond(self, ratios: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
        """Where the clipped loss is larger than the unclipped one, for each limit."""
        return (
            (self.advantages < 0) & (ratios < 1 - low),
            (self.advantages > 0) & (ratios > 1 + high),
        )

    def row_means(self, values: Tensor) -> Tensor:
        """(N,): mean over counted tokens, for values that are 0 elsewhere; 0 for an empty row."""
        return values.sum(dim=1) / self.counted.sum(dim=1).clamp(min=1)


class SequenceMask(Part):
    """Drop bad rows that the policy has already moved away from.

    A row is dropped if its mean advantage is below 0 and the mean of `old_log_prob - log_prob` (not
    clamped) over its counted tokens is above `delta`. Source: DeepSeek-V3.2 (arXiv 2512.02556), Eq.
    9; ARLArena (arXiv 2602.21534), Table 1.

    Attributes:
        delta: How far a row may have moved, in nats per token.
        denominator: `kept`: denominators that count tokens or non-empty rows (`token-mean`,
            `seq-mean-token-mean`) exclude dropped rows, as in the released code, which removes them
            from the mask first; `all`: they include them, as in the paper's formula.
    """

    delta: NotNegative = 3e-3
    denominator: Literal["kept", "all"] = "kept"

    def kept(self, batch: TokenBatch) -> Tensor:
        """(N,) bools, True for rows to keep. Rows without a counted token are kept."""
        moved = batch.row_means(batch.old_log_probs - batch.log_probs.detach())
        return ~((batch.row_means(batch.advantages) < 0) & (moved > self.delta))


class Clipping(Choice):
    """A clipping rule.

    Attributes:
        sequence_mask: Which rows are dropped beforehand; None for none.
    """

    sequence_mask: SequenceMask | None = None

    @abstractmethod
    def losses(self, batch: TokenBatch) -> TokenLosses:
        """The loss of every token, and where it was clipped."""

    def checked_losses(self, batch: TokenBatch) -> TokenLosses:
        """Call `losses` and check the result, because a plug-in may return anything.

        Losses that are not finite are an error as long as the policy has not moved. Later, a rule
        without limits may overflow: such steps are skipped until the run counts as diverged.

        Raises:
            UserError: The result is not what `losses` must return.
        """
        with own_code(self, f"the clipping {self.name}"):
            found: object = self.losses(batch)
        if not isinstance(found, TokenLosses):
            raise UserError(
                f"the clipping {self.name} gives {type(found).__name__} instead of TokenLosses: "
                "the losses, and where the lower and the upper limit acted"
            )
        shape = tuple(batch.log_probs.shape)
        for name in ("losses", "clipped_low", "clipped_high"):
            part: object = getattr(found, name)
            given = tuple(part.shape) if isinstance(part, Tensor) else type(part).__name__
            if given != shape:
                raise UserError(
                    f"the clipping {self.name} gives {name} of {given} instead of a tensor of "
                    f"shape {shape}: one number for each token"
                )
            assert isinstance(part, Tensor)
            if name != "losses" and part.dtype != torch.bool:
                raise UserError(
                    f"the clipping {self.name} gives {name} of {part.dtype} instead of bools"
                )
        if not found.losses.is_floating_point():
            raise UserError(
                f"the clipping {self.name} gives losses of {found.losses.dtype} instead of "
                "floating-point numbers"
            )
        learns = torch.is_grad_enabled() and batch.log_probs.requires_grad
        if learns and not found.losses.requires_grad and batch.has_both_signs:
            raise UserError(
                f"the clipping {self.name} ({type(self).__qualname__}) gives losses without a "
                "gradient, although there are advantages of both signs: let them depend on "
                "batch.log_probs, without detach() on the way"
            )
        wrong = ~found.losses.isfinite() & batch.counted
        if wrong.any() and batch.unmoved:
            raise UserError(
                f"the clipping {self.name} ({type(self).__qualname__}) gives losses that are not "
                f"finite for {int(wrong.sum())} of {int(batch.counted.sum())} tokens, whose "
                "advantages are finite and whose ratios are 1"
            )
        return found


def limited(batch: TokenBatch, ratios: Tensor, low: float, high: float) -> TokenLosses:
    """`max(-A w, -A clip(w, 1 - low, 1 + high))` for (N, T) ratios w: PPO's pessimistic loss."""
    below, above = batch.beyond(ratios, low, high)
    kept = torch.where(below | above, ratios.clamp(1 - low, 1 + high), ratios)
    return TokenLosses(-batch.advantages * kept, below, above)
