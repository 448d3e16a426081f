"""Prompts with images: prefill, and placeholders that a policy sampled."""

from collections.abc import Sequence

import torch
from transformers import DynamicCache, PreTrainedModel

from benchmark.engines.core.vision import PromptImages
from benchmark.engines.transformers.slots import contents

TOGETHER = 8
"""Prompts of one pass, at most."""


def sampled_token(token: int) -> int:
    """How a placeholder that a policy sampled is written in `input_ids`: it shows no image.

    Models take every placeholder for a part of an image; see `embed_sampled_placeholders`.
    """
    return -1 - token


def token_ids(ids: torch.Tensor) -> torch.Tensor:
    """`input_ids` as a tokenizer knows them: a `sampled_token` is the placeholder."""
    return torch.where(ids < 0, -1 - ids, ids)


def embed_sampled_placeholders(model: torch.nn.Module) -> None:
    """Let a model read `sampled_token`: it gets the token's own embedding, as in decoding.

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
