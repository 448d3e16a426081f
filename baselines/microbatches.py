"""Micro-batches: rows of about one length, as tensors, with the instructions they share taken out.

All prompts of a task begin with the same instructions. Their keys and values are computed once for
a micro-batch instead of once for a row; gradients flow through them all the same, so that nothing
but the time changes (tiny-sokoban: half of it).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from baselines.rollouts import Row

LEAST_PREFIX = 32
"""Shared tokens from which on a pass of their own is worth its while."""
LEAST_ROWS = 4
"""Likewise, rows."""


@dataclass(frozen=True, slots=True)
class RowValues:
    """What is known of the rows of a rollout, in the order of the rows.

    Attributes:
        advantages: (T,) per row, one number per token of the response.
        old_log_probs: (T,) per row; None where the current ones are the old ones.
        reference_log_probs: (T,) per row; None where they are not needed.
        weights: (T,) per row: truncated importance weights against the engine; None for 1.
    """

    advantages: list[torch.Tensor]
    old_log_probs: list[torch.Tensor | None]
    reference_log_probs: list[torch.Tensor | None]
    weights: list[torch.Tensor | None]


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Rows of one forward pass.

    Attributes:
        rows: Their numbers within the rollout; -1 for a row that only fills.
        prefix_ids: (P,) tokens that all rows begin with; P may be 0.
        input_ids: (rows, W) what follows, padded on the right.
        starts: (rows,) column of `input_ids` where the response begins; at least 1.
        response_mask: (rows, T) 1 for tokens that the model drew.
        max_response: T, the longest response.
    """

    rows: tuple[int, ...]
    prefix_ids: torch.Tensor
    input_ids: torch.Tensor
    starts: torch.Tensor
    response_mask: torch.Tensor

    @property
    def max_response(self) -> int:
        """Longest response, in tokens."""
        return int(self.response_mask.shape[1])

    def to(self, device: torch.device) -> "MicroBatch":
        """The same on another device."""
        return MicroBatch(
            self.rows,
            self.prefix_ids.to(device),
            self.input_ids.to(device),
            self.starts.to(device),
            self.response_mask.to(device),
        )

    def stack(self, values: Sequence[torch.Tensor | None]) -> torch.Tensor:
        """(rows, T) of values that are kept per row, 0 in the padding."""
        like = next((value for value in values if value is not None), torch.zeros(0))
        stacked = torch.zeros(self.response_mask.shape, dtype=like.dtype)
        for place, row in enumerate(self.rows):
            value = values[row] if row >= 0 else None
            if value is not None:
                stacked[place, : len(value)] = value
        return stacked.to(self.response_mask.device)


def split(
    rows: Sequence[Row], chosen: Sequence[int], tokens: int, share_prefix: bool
) -> list[MicroBatch]:
    """Deal rows into micro-batches.

    Args:
        rows: All rows of a rollout.
        chosen: Numbers of those that are wanted.
        tokens: Limit of the tokens of one micro-batch, padding included; a longer row is alone.
        share_prefix: Take shared beginnings out.
    """
    ordered = sorted(chosen, key=lambda row: (rows[row].task, rows[row].length, row))
    batches: list[list[int]] = []
    for row in ordered:
        open_ = batches[-1] if batches else []
        full = (len(open_) + 1) * rows[row].length > tokens
        if not open_ or full or rows[open_[0]].task != rows[row].task:
            batches.append([])
        batches[-1].append(row)
    return [collate(rows, batch, share_prefix) for batch in batches]


def filler(rows: Sequence[Row]) -> MicroBatch:
    """A micro-batch that counts nothing, for a process that has fewer of them than the others."""
    batch = collate(rows, [0], share_prefix=False)
    return replace(batch, rows=(-1,), response_mask=torch.zeros_like(batch.response_mask))


def collate(rows: Sequence[Row], chosen: Sequence[int], share_prefix: bool) -> MicroBatch:
    """Pad rows on the right and line their responses up."""
    picked = [rows[row] for row in chosen]
    prefix = _shared([row.prompt_ids for row in picked]) if share_prefix else 0
    if prefix < LEAST_PREFIX or len(picked) < LEAST_ROWS:
        prefix = 0
    width = max(row.length for row in picked) - prefix
    longest = max(len(row.response_ids) for row in picked)
    ids = torch.zeros((len(picked), width), dtype=torch.long)
    mask = torch.zeros((len(picked), longest), dtype=torch.long)
    for place, row in enumerate(picked):
        tokens = np.concatenate([row.prompt_ids[prefix:], row.response_ids])
        ids[place, : len(tokens)] = torch.from_numpy(tokens)
        mask[place, : len(row.response_mask)] = torch.from_numpy(row.response_mask)
    return MicroBatch(
        rows=tuple(chosen),
        prefix_ids=torch.from_numpy(picked[0].prompt_ids[:prefix].astype(np.int64)),
        input_ids=ids,
        starts=torch.tensor([len(row.prompt_ids) - prefix for row in picked]),
        response_mask=mask,
    )


def _shared(prompts: Sequence[np.ndarray]) -> int:
    """Leading tokens that all prompts have in common, but never all of one."""
    first = prompts[0]
    length = min(len(prompt) for prompt in prompts) - 1
    for prompt in prompts[1:]:
        differ = np.flatnonzero(first[:length] != prompt[:length])
        length = int(differ[0]) if len(differ) else length
    return max(length, 0)
