"""Micro-batches: rows as tensors, with shared prefixes computed once.

All prompts of a task start with the same instructions, the episodes of a group with the same task,
and many prompts are identical. On a CPU rows are packed as a prefix tree: every shared token is
computed once, without padding (`pack_rows`). Elsewhere rows of similar length are padded, and only
the prefix that all of them share is computed once (`split`). Gradients flow through shared
prefixes, so only the time changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from baselines.learning.images import ImageReader
from baselines.rollouts.rows import Row
from benchmark.engines.transformers.prefix_tree import IMAGES, PrefixTree, by_prefix, pack, take

LEAST_PREFIX = 32
"""Minimum shared tokens for which a separate forward pass pays off."""
LEAST_ROWS = 4
"""Minimum rows for which it pays off."""


@dataclass(frozen=True, slots=True)
class RowValues:
    """Values of a rollout's rows, in the order of the rows.

    Attributes:
        advantages: (T,) per row, one number per response token.
        old_log_probs: (T,) per row; None where the old policy is the current one, until the step
            fills them in.
        reference_log_probs: (T,) per row; None where not needed.
        weights: (T,) per row: truncated importance weights against the engine; None for 1.
    """

    advantages: list[torch.Tensor]
    old_log_probs: list[torch.Tensor | None]
    reference_log_probs: list[torch.Tensor | None]
    weights: list[torch.Tensor | None]


@dataclass(frozen=True, slots=True)
class ForwardBatch:
    """Rows of one forward pass.

    Attributes:
        rows: Row numbers within the rollout; -1 for a filler row.
        response_mask: (rows, T) 1 for tokens that the model sampled.
        pixel_values: Patches of all images, in the order of their placeholders; None without any.
        image_grid_thw: (images, 3) image sizes in patches; None without any.
    """

    rows: tuple[int, ...]
    response_mask: torch.Tensor
    pixel_values: torch.Tensor | None = field(default=None, kw_only=True)
    image_grid_thw: torch.Tensor | None = field(default=None, kw_only=True)

    @property
    def seen(self) -> dict[str, torch.Tensor]:
        """The image arguments of a model's `forward`; empty without images."""
        if self.pixel_values is None or self.image_grid_thw is None:
            return {}
        return {"pixel_values": self.pixel_values, "image_grid_thw": self.image_grid_thw}

    @property
    def max_response(self) -> int:
        """Longest response, in tokens."""
        return int(self.response_mask.shape[1])

    def to(self, device: torch.device) -> Self:
        """Copy to another device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors: dict[str, Any] = {
            name: value.to(device)
            for name, value in values.items()
            if isinstance(value, torch.Tensor)
        }
        return replace(self, **tensors)

    def stack(self, values: Sequence[torch.Tensor | None]) -> torch.Tensor:
        """Stack per-row values to (rows, T), 0 in the padding."""
        like = next((value for value in values if value is not None), torch.zeros(0))
        stacked = torch.zeros(self.response_mask.shape, dtype=like.dtype)
        for place, row in enumerate(self.rows):
            value = values[row] if row >= 0 else None
            if value is not None:
                stacked[place, : len(value)] = value
        return stacked.to(self.response_mask.device)


@dataclass(frozen=True, slots=True)
class PaddedBatch(ForwardBatch):
    """Rows padded on the right, after their shared prefix.

    Attributes:
        prefix_ids: (P,) tokens that all rows start with; P may be 0.
        input_ids: (rows, W) the remaining tokens, padded on the right.
        starts: (rows,) column of `input_ids` where the response begins; at least 1.
        positions: (3, rows, W) for rows with images; None for text, whose positions are counted.
    """

    prefix_ids: torch.Tensor
    input_ids: torch.Tensor
    starts: torch.Tensor
    positions: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class PackedBatch(ForwardBatch):
    """Rows packed as a prefix tree; see `PrefixTree`.

    Attributes:
        ids: (N,) tokens.
        positions: (N,) token positions within the rows; (3, N) if rows have images.
        nodes: (nodes, 3) nodes of the tree.
        before: (M,) index of the token before each sampled token, in the order of `response_mask`.
        drawn: (M,) the sampled tokens.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    nodes: torch.Tensor
    before: torch.Tensor
    drawn: torch.Tensor


MicroBatch = PaddedBatch | PackedBatch


def pack_rows(
    rows: Sequence[Row], chosen: Sequence[int], tokens: int, reader: ImageReader | None = None
) -> list[PackedBatch]:
    """Split rows into micro-batches, each packed as a prefix tree.

    Args:
        rows: All rows of a rollout.
        chosen: Numbers of the rows to use.
        tokens: Maximum packed tokens per micro-batch; a longer row gets its own.
        reader: Reads images; None if there are none.
    """
    sequences = _sequences([rows[row] for row in chosen], reader, {})
    ordered = by_prefix(sequences)
    batches = []
    while ordered:
        count = take(sequences, ordered, tokens)
        numbers = tuple(chosen[place] for place in ordered[:count])
        batches.append(_packed([rows[number] for number in numbers], numbers, reader))
        ordered = ordered[count:]
    return batches


def _sequences(
    picked: Sequence[Row], reader: ImageReader | None, numbers: dict[str, int]
) -> list[npt.NDArray[np.integer]]:
    """Token ids of rows for a prefix tree; see `ImageReader.tree_ids`."""
    if reader is None:
        return [_ids(row, None) for row in picked]
    return [reader.tree_ids(row, numbers) for row in picked]


def _ids(row: Row, reader: ImageReader | None) -> npt.NDArray[np.integer]:
    """Token ids of a row as the model reads them."""
    if reader is not None:
        return reader.input_ids(row)
    return np.concatenate([row.prompt_ids, row.response_ids])


def _packed(
    picked: Sequence[Row], numbers: tuple[int, ...], reader: ImageReader | None = None
) -> PackedBatch:
    images: dict[str, int] = {}
    tree = pack(_sequences(picked, reader, images))
    before = [
        places[len(row.prompt_ids) - 1 : -1][row.response_mask > 0]
        for row, places in zip(picked, tree.places, strict=True)
    ]
    drawn = [row.response_ids[row.response_mask > 0] for row in picked]
    packed = PackedBatch(
        rows=numbers,
        response_mask=_masks(picked),
        ids=tree.ids,
        positions=tree.positions,
        nodes=tree.nodes,
        before=torch.from_numpy(np.concatenate(before)),
        drawn=torch.from_numpy(np.concatenate(drawn).astype(np.int64)),
    )
    return (
        packed
        if reader is None or not images
        else _with_images(packed, tree, picked, reader, images)
    )


def _with_images(
    packed: PackedBatch,
    tree: PrefixTree,
    picked: Sequence[Row],
    reader: ImageReader,
    numbers: dict[str, int],
) -> PackedBatch:
    """Add a tree's images in its order, and put placeholders back into its ids."""
    ids = tree.ids.numpy()
    starts = np.flatnonzero((ids >= IMAGES) & (ids != np.concatenate([[0], ids[:-1]])))
    known = {numbers[image.sha256]: image for row in picked for image in row.images}
    seen = reader.see(picked, [known[int(ids[start])] for start in starts])
    positions = np.zeros((3, len(ids)), np.int64)
    for places, own in zip(tree.places, seen.positions, strict=True):
        positions[:, places] = own
    return replace(
        packed,
        ids=torch.where(tree.ids >= IMAGES, reader.vision.image_token, tree.ids),
        positions=torch.from_numpy(positions),
        pixel_values=seen.pixel_values,
        image_grid_thw=seen.image_grid_thw,
    )


def _masks(picked: Sequence[Row]) -> torch.Tensor:
    """(rows, T), zero-padded on the right."""
    masks = [torch.from_numpy(row.response_mask).long() for row in picked]
    padded: torch.Tensor = torch.nn.utils.rnn.pad_sequence(masks, batch_first=True)
    return padded


def split(
    rows: Sequence[Row],
    chosen: Sequence[int],
    tokens: int,
    share_prefix: bool,
    reader: ImageReader | None = None,
) -> list[PaddedBatch]:
    """Split rows into micro-batches of similar length.

    Args:
        rows: All rows of a rollout.
        chosen: Numbers of the rows to use.
        tokens: Maximum tokens per micro-batch, padding included; a longer row gets its own.
        share_prefix: Separate shared prefixes; rows with images stay whole.
        reader: Reads images; None if there are none.
    """
    ordered = sorted(chosen, key=lambda row: (rows[row].task, rows[row].length, row))
    batches: list[list[int]] = []
    for row in ordered:
        open_ = batches[-1] if batches else []
        full = (len(open_) + 1) * rows[row].length > tokens
        if not open_ or full or rows[open_[0]].task != rows[row].task:
            batches.append([])
        batches[-1].append(row)
    return [collate(rows, batch, share_prefix, reader) for batch in batches]


def filler(rows: Sequence[Row], reader: ImageReader | None = None) -> PaddedBatch:
    """A micro-batch without effect, for a process that has fewer of them than the others."""
    batch = collate(rows, [0], share_prefix=False, reader=reader)
    return replace(batch, rows=(-1,), response_mask=torch.zeros_like(batch.response_mask))


def collate(
    rows: Sequence[Row],
    chosen: Sequence[int],
    share_prefix: bool,
    reader: ImageReader | None = None,
) -> PaddedBatch:
    """Pad rows on the right and align their responses; see `split`."""
    picked = [rows[row] for row in chosen]
    shown = [image for row in picked for image in row.images]
    prefix = _shared([row.prompt_ids for row in picked]) if share_prefix and not shown else 0
    if prefix < LEAST_PREFIX or len(picked) < LEAST_ROWS:
        prefix = 0
    width = max(row.length for row in picked) - prefix
    ids = torch.zeros((len(picked), width), dtype=torch.long)
    for place, row in enumerate(picked):
        tokens = _ids(row, reader)[prefix:]
        ids[place, : len(tokens)] = torch.from_numpy(tokens)
    batch = PaddedBatch(
        rows=tuple(chosen),
        response_mask=_masks(picked),
        prefix_ids=torch.from_numpy(picked[0].prompt_ids[:prefix].astype(np.int64)),
        input_ids=ids,
        starts=torch.tensor([len(row.prompt_ids) - prefix for row in picked]),
    )
    if reader is None or not shown:
        return batch
    seen = reader.see(picked, shown)
    positions = torch.zeros((3, len(picked), width), dtype=torch.long)
    for place, own in enumerate(seen.positions):
        positions[:, place, : own.shape[1]] = torch.from_numpy(own)
    return replace(
        batch,
        positions=positions,
        pixel_values=seen.pixel_values,
        image_grid_thw=seen.image_grid_thw,
    )


def _shared(prompts: Sequence[np.ndarray]) -> int:
    """Number of leading tokens that all prompts share, but never all tokens of one."""
    first = prompts[0]
    length = min(len(prompt) for prompt in prompts) - 1
    for prompt in prompts[1:]:
        differ = np.flatnonzero(first[:length] != prompt[:length])
        length = int(differ[0]) if len(differ) else length
    return max(length, 0)
