"""Third dimension: how token losses are aggregated to one number.

The number is a mean over a whole optimizer step: over all its micro-batches on all processes. Its
denominators are counted first (`Totals`); then each micro-batch contributes its share, and shares
and gradients sum to the whole. With a mean of per-micro-batch means, a token's weight would depend
on its micro-batch.
"""

from dataclasses import dataclass
from typing import Final, Literal, assert_never

from torch import Tensor

from baselines.algorithms.masked import counted_tokens

Aggregation = Literal[
    "token-mean",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
    "token-sum-norm",
]
"""In this order: every token has the same weight; every row has the same weight; a row's weight is
its length; the same, divided by a constant length; a sum divided by that length."""

SHRINKING: Final[frozenset[Aggregation]] = frozenset({"token-mean", "seq-mean-token-mean"})
"""Aggregations whose denominator shrinks when rows are masked."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Denominators of an optimizer step; `+` combines micro-batches and processes.

    Attributes:
        tokens: Counted tokens.
        rows: Rows, including empty ones but not filler rows.
        nonempty_rows: Rows with a counted token.
    """

    tokens: float = 0.0
    rows: float = 0.0
    nonempty_rows: float = 0.0

    @classmethod
    def of(cls, mask: Tensor) -> "Totals":
        """Totals of a mask (N, T)."""
        counts = mask.bool().sum(dim=1)
        return cls(float(counts.sum()), float(len(counts)), float((counts > 0).sum()))

    def __add__(self, other: "Totals") -> "Totals":
        return Totals(
            self.tokens + other.tokens,
            self.rows + other.rows,
            self.nonempty_rows + other.nonempty_rows,
        )


def aggregate(
    values: Tensor,
    mask: Tensor,
    mode: Aggregation,
    totals: Totals,
    max_length: int,
) -> Tensor:
    """This micro-batch's share of the mean over the optimizer step that `totals` counts.

    - token-mean: sum of counted tokens / counted tokens (DAPO, arXiv 2503.14476, Eq. 8);
    - seq-mean-token-mean: sum of rows' token means / rows that have tokens (GRPO, arXiv 2402.03300,
      Eq. 3; GSPO);
    - seq-mean-token-sum: sum of rows' token sums / all rows;
    - seq-mean-token-sum-norm: the same / `max_length` (Dr. GRPO, arXiv 2503.20783; ARLArena, arXiv
      2602.21534, Eq. S5);
    - token-sum-norm: sum of counted tokens / `max_length`, a loss that grows with the batch:
      ARLArena's released code calls this seq-mean-token-sum-norm, except for its Dr. GRPO.

    If no token of the step is counted, the share is 0 with a gradient of 0.

    Args:
        values: (N, T): losses or any other per-token quantity.
        mask: (N, T), 1 for counted tokens. Nothing depends on values where it is 0.
        mode: The mean.
        totals: Totals over all masks of the optimizer step.
        max_length: Longest response in tokens, a constant of the run.

    Returns:
        A scalar in the type of `values`.

    Raises:
        ValueError: Shapes differ.
    """
    counted = counted_tokens(mask, values)
    values = values.where(counted, 0.0)
    if mode == "token-mean":
        total, denominator = values.sum(), totals.tokens
    elif mode == "seq-mean-token-mean":
        means = values.sum(dim=1) / counted.sum(dim=1).clamp(min=1)
        total, denominator = means.sum(), totals.nonempty_rows
    elif mode == "seq-mean-token-sum":
        total, denominator = values.sum(), totals.rows
    elif mode == "seq-mean-token-sum-norm":
        total, denominator = values.sum(), max_length * totals.rows
    elif mode == "token-sum-norm":
        total, denominator = values.sum(), float(max_length)
    else:
        assert_never(mode)
    return total / (denominator or 1.0)
