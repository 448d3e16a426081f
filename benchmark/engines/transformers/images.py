"""Prompts with images: prefill, and placeholders that a policy sampled."""

from collections.abc import Sequence

import torch
from transformers import DynamicCache, PreTrainedModel

from benchmark.engines.core.vision import PromptImages
from benchmark.engines.transformers.slots import contents

TOGETHER = 8
"""Maximum prompts per pass."""


def sampled_token(token: int) -> int:
    """The `input_ids` value of a placeholder that a policy sampled, which shows no image.

    Models treat every placeholder as a part of an image; see `embed_sampled_placeholders`.
    """
    return -1 - token


def token_ids(ids: torch.Tensor) -> torch.Tensor:
    """Convert `input_ids` to tokenizer ids: a `sampled_token` becomes the placeholder."""
    return torch.where(ids < 0, -1 - ids, ids)


def embed_sampled_placeholders(model: torch.nn.Module) -> None:
    """Make a model read `sampled_token` with the token's own embedding, as in decoding.

    Args:
        model: A vision-language model of transformers, or its body.
    """

    def restore(module: torch.nn.Module, inputs: tuple[torch.Tensor]) -> torch.Tensor:
        del module
        return token_ids(*inputs)

    model.get_input_embeddings().register_forward_pre_hook(restore)  # type: ignore[operator]


def by_shape(
    prompts: Sequence[Sequence[int]], prompt_images: Sequence[PromptImages]
) -> list[list[int]]:
    """Numbers of prompts that can be fed together: of equal length, with images in equal places."""
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
    """Keys and values of the prompts without their last tokens, which are text.

    Args:
        model: A vision-language model.
        prompts: Prompts that `by_shape` groups together.
        prompt_images: Their images.

    Returns:
        (keys, values) of every layer, and for each prompt the offset from a later token's column to
        its position.
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
    """Arguments of a model's `forward` for prompts with images.

    Args:
        model: The model, for its device and type.
        ids: (prompts, tokens), with expanded placeholders.
        prompt_images: The images, prompt by prompt.
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
