"""Micro-batches: rows as tensors, with shared prefixes computed once.

All prompts of a task begin with the same instructions, the plays of a group with the same task,
and many prompts are the same altogether. On a CPU rows are packed as a prefix tree: every shared
token is computed once, and nothing is padded (`pack_rows`). Elsewhere rows of about one length are
padded, and only the beginning that all of them share is taken out (`split`). Gradients flow through
what is shared, so that nothing but the time changes.
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
"""Shared tokens from which on a pass of their own is worth its while."""
LEAST_ROWS = 4
"""Likewise, rows."""


@dataclass(frozen=True, slots=True)
class RowValues:
    """What is known of the rows of a rollout, in the order of the rows.

    Attributes:
        advantages: (T,) per row, one number per token of the response.
        old_log_probs: (T,) per row; None where the current ones are the old ones, which the step
            then fills in.
        reference_log_probs: (T,) per row; None where they are not needed.
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
        rows: Their numbers within the rollout; -1 for a row that only fills.
        response_mask: (rows, T) 1 for tokens that the model drew.
        pixel_values: Patches of all images, in the order of their placeholders; None without any.
        image_grid_thw: (images, 3) their sizes in patches; likewise.
    """

    rows: tuple[int, ...]
    response_mask: torch.Tensor
    pixel_values: torch.Tensor | None = field(default=None, kw_only=True)
    image_grid_thw: torch.Tensor | None = field(default=None, kw_only=True)

    @property
    def seen(self) -> dict[str, torch.Tensor]:
        """What a model's `forward` takes for the images; empty without any."""
        if self.pixel_values is None or self.image_grid_thw is None:
            return {}
        return {"pixel_values": self.pixel_values, "image_grid_thw": self.image_grid_thw}

    @property
    def max_response(self) -> int:
        """Longest response, in tokens."""
        return int(self.response_mask.shape[1])

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        tensors: dict[str, Any] = {
            name: value.to(device)
            for name, value in values.items()
            if isinstance(value, torch.Tensor)
        }
        return replace(self, **tensors)

    def stack(self, values: Sequence[torch.Tensor | None]) -> torch.Tensor:
        """(rows, T) of values that are kept per row, 0 in the padding."""
        like = next((value for value in values if value is not None), torch.zeros(0))
        stacked = torch.zeros(self.response_mask.shape, dtype=like.dtype)
        for place, row in enumerate(self.rows):
            value = values[row] if row >= 0 else None
            if value is not None:
                stacked[place, : len(value)] = value
        return stacked.to(self.response_mask.device)


@dataclass(frozen=True, slots=True)
class PaddedBatch(ForwardBatch):
    """Rows that are padded on the right, behind what all of them begin with.

    Attributes:
        prefix_ids: (P,) tokens that all rows begin with; P may be 0.
        input_ids: (rows, W) what follows, padded on the right.
        starts: (rows,) column of `input_ids` where the response begins; at least 1.
        positions: (3, rows, W) where rows have images; None for texts, which are counted.
    """

    prefix_ids: torch.Tensor
    input_ids: torch.Tensor
    starts: torch.Tensor
    positions: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class PackedBatch(ForwardBatch):
    """Rows that are packed as a prefix tree; see `PrefixTree`.

    Attributes:
        ids: (N,) tokens.
        positions: (N,) their places within the rows; (3, N) where rows have images.
        nodes: (nodes, 3) of the tree.
        before: (M,) where the token stands that precedes each drawn token, in the order of
            `response_mask`.
        drawn: (M,) the drawn tokens.
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
    """Deal rows into micro-batches, each packed as a prefix tree.

    Args:
        rows: All rows of a rollout.
        chosen: Numbers of those that are wanted.
        tokens: Limit of the packed tokens of one micro-batch; a longer row is alone.
        reader: Reads images; None where there are none.
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
    """Token ids of rows, for a tree; see `ImageReader.tree_ids`."""
    if reader is None:
        return [_ids(row, None) for row in picked]
    return [reader.tree_ids(row, numbers) for row in picked]


def _ids(row: Row, reader: ImageReader | None) -> npt.NDArray[np.integer]:
    """Token ids of a row, as a model reads them."""
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
    """Put the images of a tree in the order in which it has them, and placeholders in its ids."""
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
    """(rows, T) with zeros behind."""
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
    """Deal rows of about one length into micro-batches.

    Args:
        rows: All rows of a rollout.
        chosen: Numbers of those that are wanted.
        tokens: Limit of the tokens of one micro-batch, padding included; a longer row is alone.
        share_prefix: Take shared beginnings out; rows with images are left whole.
        reader: Reads images; None where there are none.
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
    """A micro-batch that counts nothing, for a process that has fewer of them than the others."""
    batch = collate(rows, [0], share_prefix=False, reader=reader)
    return replace(batch, rows=(-1,), response_mask=torch.zeros_like(batch.response_mask))


def collate(
    rows: Sequence[Row],
    chosen: Sequence[int],
    share_prefix: bool,
    reader: ImageReader | None = None,
) -> PaddedBatch:
    """Pad rows on the right and line their responses up; see `split`."""
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
    """Leading tokens that all prompts have in common, but never all of one."""
    first = prompts[0]
    length = min(len(prompt) for prompt in prompts) - 1
    for prompt in prompts[1:]:
        differ = np.flatnonzero(first[:length] != prompt[:length])
        length = int(differ[0]) if len(differ) else length
    return max(length, 0)
