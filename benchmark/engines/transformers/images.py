"""Prefill of prompts with images."""

from collections.abc import Sequence

import torch
from transformers import DynamicCache, PreTrainedModel

from benchmark.engines.core.vision import PromptImages
from benchmark.engines.transformers.slots import contents

TOGETHER = 8
"""Prompts of one pass, at most."""


def by_shape(
    prompts: Sequence[Sequence[int]], prompt_images: Sequence[PromptImages]
) -> list[list[int]]:
    """Numbers of prompts that can be fed together: of one length, with images in one place."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for number, (prompt, images) in enumerate(zip(prompts, prompt_images, strict=True)):
        places = (place for place, token in enumerate(prompt) if token == images.image_token)
        groups.setdefault((len(prompt), *places), []).append(number)
    return [
        group[start : start + TOGETHER]
        for group in groups.values()
        for start in range(0, len(group), TOGETHER)
    ]


def prefill_images(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]], prompt_images: Sequence[PromptImages]
) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], list[int]]:
    """Keys and values of all of the prompts but their last tokens, which are texts.

    Args:
        model: A vision-language model.
        prompts: As `by_shape` has them.
        prompt_images: Their images.

    Returns:
        (keys, values) of every layer, and for each prompt what is to be added to the column of a
        later token for its position.
    """
    ids = torch.tensor([list(prompt[:-1]) for prompt in prompts], device=model.device)
    cache = DynamicCache()
    seen = model(
        **image_inputs(model, ids, prompt_images),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return contents(cache), [int(shift) for shift in seen.rope_deltas.flatten()]


def image_inputs(
    model: PreTrainedModel, ids: torch.Tensor, prompt_images: Sequence[PromptImages]
) -> dict[str, torch.Tensor]:
    """What a model's `forward` takes for prompts with images.

    Args:
        model: For its device and type.
        ids: (prompts, tokens), placeholders written out.
        prompt_images: The images, of one prompt after the other.
    """
    joined = {
        name: torch.cat(
            [torch.from_numpy(prompt_images.inputs[name]) for prompt_images in prompt_images]
        ).to(ids.device)
        for name in ("pixel_values", "image_grid_thw")
    }
    joined["pixel_values"] = joined["pixel_values"].to(model.dtype)
    kinds = (ids == prompt_images[0].image_token).int()
    return {"input_ids": ids, "mm_token_type_ids": kinds, **joined}
