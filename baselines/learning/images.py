"""Rows with images: what a model's `forward` takes besides token ids."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from baselines.rollouts.rows import Row
from benchmark.engines.core.vision import INPUTS, Vision, patches_of, vision_of
from benchmark.engines.transformers.images import sampled_token
from benchmark.engines.transformers.prefix_tree import IMAGES
from tasks.chat.images import Image
from tasks.errors import UserError

Ids = npt.NDArray[np.integer]
NO_IMAGE_SIDE: Final = (
    "optimization.freeze_vision: the model reads only text; leave the setting out"
)


@dataclass(frozen=True, slots=True, eq=False)
class RowImages:
    """The images of some rows.

    Attributes:
        pixel_values: (patches, values per patch), in the order of the images.
        image_grid_thw: (images, 3) image sizes in patches.
        positions: (3, tokens) per row: temporal, height and width positions.
    """

    pixel_values: torch.Tensor
    image_grid_thw: torch.Tensor
    positions: list[npt.NDArray[np.int64]]


def freeze_vision(model: torch.nn.Module) -> None:
    """Freeze the vision part of a model.

    Args:
        model: The model; it may be wrapped for several processes.

    Raises:
        UserError: It has no vision part.
    """
    sides = [getattr(part, "visual", None) for part in model.modules()]
    side = next((each for each in sides if isinstance(each, torch.nn.Module)), None)
    if side is None:
        raise UserError(NO_IMAGE_SIDE)
    for weight in side.parameters():
        weight.requires_grad_(False)


class ImageReader:
    """Reads the images of rows for a model.

    Args:
        folder: The init's folder, for its image processor.
        model: The policy, for its position rule; it may be wrapped for several processes.
    """

    def __init__(self, folder: Path, model: Any) -> None:
        self._folder = folder
        # It may be inside adapters and wrappers.
        self._rule = next(
            (part.get_rope_index for part in model.modules() if hasattr(part, "get_rope_index")),
            None,
        )

    @property
    def vision(self) -> Vision:
        """The image processor.

        Raises:
            UserError: See `vision_of`.
        """
        return vision_of(self._folder)

    def input_ids(self, row: Row) -> Ids:
        """A row's token ids as the model reads them; a sampled placeholder is `sampled_token`."""
        token = self.vision.image_token
        sampled = np.where(row.response_ids == token, sampled_token(token), row.response_ids)
        return np.concatenate([row.prompt_ids, sampled])

    def tree_ids(self, row: Row, numbers: dict[str, int]) -> Ids:
        """A row's token ids for a prefix tree: each image's number replaces its placeholders.

        Args:
            row: The row.
            numbers: Number of each image by its hash, starting at `IMAGES`; new ones are added.
        """
        ids = self.input_ids(row)
        for (begin, end), image in zip(self._runs(row), row.images, strict=True):
            ids[begin:end] = numbers.setdefault(image.sha256, IMAGES + len(numbers))
        return ids

    def see(self, rows: Sequence[Row], shown: Sequence[Image]) -> RowImages:
        """Process images and compute positions.

        Args:
            rows: The rows to compute positions for.
            shown: All images of the rows, in the order of their placeholders.
        """
        looked: dict[str, dict[str, torch.Tensor]] = {}
        for image in shown:
            if image.sha256 not in looked:
                patches = patches_of(self.vision, image)
                looked[image.sha256] = {name: torch.from_numpy(patches[name]) for name in INPUTS}
        pixels, grids = (
            torch.cat([looked[image.sha256][name] for image in shown]) for name in INPUTS
        )
        return RowImages(pixels, grids, [self._positions(row, looked) for row in rows])

    def _positions(
        self, row: Row, looked: dict[str, dict[str, torch.Tensor]]
    ) -> npt.NDArray[np.int64]:
        """(3, tokens) positions of a row."""
        if not row.images:
            return np.tile(np.arange(row.length), (3, 1))
        ids = torch.from_numpy(np.concatenate([row.prompt_ids, row.response_ids]))[None].long()
        kinds = torch.zeros_like(ids, dtype=torch.int)
        for begin, end in self._runs(row):
            kinds[0, begin:end] = 1
        grids = torch.cat([looked[image.sha256][INPUTS[1]] for image in row.images])
        if self._rule is None:
            raise UserError(f"{self._folder} is of a family whose images are not trained on")
        positions, _ = self._rule(ids, kinds, image_grid_thw=grids)
        found: npt.NDArray[np.int64] = positions[:, 0].numpy()
        return found

    def _runs(self, row: Row) -> list[tuple[int, int]]:
        """Start and end of each image's placeholders in a row."""
        if not row.images:
            return []
        places = np.flatnonzero(row.prompt_ids == self.vision.image_token)
        begins = places[np.diff(places, prepend=-2) > 1]
        ends = places[np.diff(places, append=row.length + 2) > 1] + 1
        return [(int(begin), int(end)) for begin, end in zip(begins, ends, strict=True)]
