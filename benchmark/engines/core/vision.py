"""Image input for a model in this process: images to patches, placeholders to tokens.

The folder's image processor runs with Pillow, identically on every machine. Qwen's full processors
also need a video processor, which needs torchvision, and no build of that fits the torch of vLLM's
CPU build; so placeholders are expanded here, as those processors do it.

Nothing here imports torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmark.model_files import read_json
from tasks.chat.images import Image
from tasks.errors import UserError
from tasks.texts import first_line

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

FAMILIES: Final = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe")
"""`model_type` of the supported vision-language models."""
PROCESSOR: Final = "preprocessor_config.json"
INPUTS: Final = ("pixel_values", "image_grid_thw")
"""Image arguments of a model's `forward`: see `PromptImages.inputs`."""
_KEPT: Final = 32
"""Number of images whose patches are cached: those of a Sokoban board take 2 MB, those of a large
image for a full-size model 25 MB."""
_OTHERWISE: Final = "serve it and give --endpoint, or choose the task's text view"


@dataclass(frozen=True, slots=True, eq=False)
class PromptImages:
    """The images of one prompt.

    Attributes:
        bare_ids: Token ids of the prompt with one placeholder per image, which vLLM expands.
        images: The images in order.
        inputs: Arguments of the model's `forward` besides the ids, as arrays: `pixel_values`
            (patches, values per patch) and `image_grid_thw` (images, 3).
        image_token: The placeholder.
    """

    bare_ids: list[int]
    images: tuple[Image, ...]
    inputs: Mapping[str, Any]
    image_token: int


def reads_images(folder: Path) -> bool:
    """Whether a folder contains a vision-language model of the `FAMILIES`."""
    config = read_json(folder / "config.json")
    return "vision_config" in config and config.get("model_type") in FAMILIES


@dataclass(frozen=True, slots=True, eq=False)
class Vision:
    """The image processor of a model folder.

    Attributes:
        processor: The processor as loaded by transformers.
        image_token: The placeholder's token id.
        most_pixels: Maximum pixels; larger images would be shrunk. None for no limit.
    """

    processor: Any
    image_token: int
    most_pixels: int | None

    def look(
        self, bare_ids: Sequence[int], images: Sequence[Image]
    ) -> tuple[list[int], PromptImages]:
        """Expand the placeholders of a prompt and read its images.

        Args:
            bare_ids: The prompt, with one placeholder per image.
            images: The images in order.

        Returns:
            Token ids as the model gets them, and the images.

        Raises:
            UserError: See `write_out`.
        """
        ids = self.write_out(bare_ids, images)
        seen = [patches_of(self, image) for image in images]
        inputs = {name: np.concatenate([each[name] for each in seen]) for name in INPUTS}
        return ids, PromptImages(list(bare_ids), tuple(images), inputs, self.image_token)

    def write_out(self, bare_ids: Sequence[int], images: Sequence[Image]) -> list[int]:
        """Token ids as the model gets them, with a placeholder for each token of an image.

        Args:
            bare_ids: The prompt, with one placeholder per image.
            images: The images in order.

        Raises:
            UserError: The template does not show exactly the prompt's images, or the processor
                would shrink one.
        """
        shown = sum(token == self.image_token for token in bare_ids)
        if shown != len(images):
            raise UserError(
                f"the model's chat template shows {shown} of the {len(images)} images of a prompt; "
                "use the template of a vision-language model"
            )
        # Sides are rounded to whole tokens first, and the limit applies to the rounded size.
        side = self.processor.patch_size * self.processor.merge_size
        for image in images:
            height, width = (round(length / side) * side for length in (image.height, image.width))
            if self.most_pixels is not None and height * width > self.most_pixels:
                rounded = (height, width) != (image.height, image.width)
                grown = f" ({width} x {height} in whole tokens)" if rounded else ""
                raise UserError(
                    f"an image of {image.width} x {image.height} pixels{grown} is larger than the "
                    f"model's limit of {self.most_pixels:,} pixels and would be shrunk; raise "
                    f"longest_edge in its {PROCESSOR}"
                )
        merged = self.processor.merge_size**2
        counts = iter(
            self.processor.get_number_of_image_patches(image.height, image.width) // merged
            for image in images
        )
        ids: list[int] = []
        for token in bare_ids:
            ids += [token] * (next(counts) if token == self.image_token else 1)
        return ids

    def patches(self, pictures: "Sequence[Picture]") -> Mapping[str, Any]:
        """The image arguments of a model's `forward`, in the format of `PromptImages.inputs`."""
        return dict(self.processor(images=list(pictures), return_tensors="np"))


@lru_cache(_KEPT)
def patches_of(vision: Vision, image: Image) -> Mapping[str, Any]:
    """`Vision.patches` of one image, cached for the last images.

    The episodes of a group start alike, and many prompts of a rollout show the same image.
    """
    return vision.patches([image.picture()])


@lru_cache(8)
def vision_of(folder: Path) -> Vision:
    """The image processor of the model in a folder.

    Raises:
        UserError: The model reads only text, belongs to an unsupported family, or its image
            processor is missing or broken.
    """
    config = read_json(folder / "config.json")
    if "vision_config" not in config:
        raise UserError(
            f"the prompt has an image, and the model in {folder} reads only text; use a "
            "vision-language model, or choose the task's text view"
        )
    family = config.get("model_type")
    if family not in FAMILIES:
        raise UserError(
            f"images for {family} models are not supported in this process, only for "
            f"{', '.join(FAMILIES)}; {_OTHERWISE}"
        )
    if not (folder / PROCESSOR).is_file():
        raise UserError(
            f"{folder} has no {PROCESSOR}, so images cannot be prepared; copy the base model's "
            "file into it"
        )
    try:
        from PIL.Image import new as new_picture
        from transformers import AutoImageProcessor

        processor = AutoImageProcessor.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, backend="pil"
        )
        token, longest = int(config["image_token_id"]), processor.size["longest_edge"]
        # Some invalid settings only fail on the first image.
        processor(images=[new_picture("RGB", (64, 64))], return_tensors="np")
    except Exception as error:  # the library raises a dozen types for broken files
        raise UserError(
            f"the image processor in {folder} cannot be loaded: {first_line(error)}"
        ) from error
    return Vision(processor, token, longest)
