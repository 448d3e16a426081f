"""New vision-language models small enough for a CPU: a Qwen3-VL network and its image processor."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from baselines.cloning.tiny_models import TinyModelConfig, TinyVisionConfig, text_shape
from benchmark.engines.core.vision import Vision
from tasks.chat.images import Image

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerFast, Qwen3VLForConditionalGeneration

VISION_TOKENS: Final = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
IMAGE_TEMPLATE: Final = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% else %}{{ '<|vision_start|><|image_pad|><|vision_end|>' }}{% endif %}{% endfor %}"
    "{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""Qwen's chat format, with images in place."""
_MOST_PIXELS: Final = 1024 * 1024


def add_image_tokens(tokenizer: "PreTrainedTokenizerFast") -> None:
    """Add the tokens for images to a tokenizer, and a chat template that uses them."""
    tokenizer.add_special_tokens({"additional_special_tokens": list(VISION_TOKENS)})
    tokenizer.chat_template = IMAGE_TEMPLATE


def new_vision(eyes: TinyVisionConfig, tokenizer: "PreTrainedTokenizerFast") -> Vision:
    """Make the image processor of a new model, which does not resize images.

    Pixels are only scaled to between 0 and 1: the usual shift takes as long as everything else
    together, and the first layer can learn it.
    """
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    token = eyes.patch * eyes.merge
    processor = Qwen2VLImageProcessorPil(
        patch_size=eyes.patch,
        temporal_patch_size=1,
        merge_size=eyes.merge,
        do_normalize=False,
        size={"shortest_edge": token * token, "longest_edge": _MOST_PIXELS},
    )
    placeholder: int = tokenizer.convert_tokens_to_ids(VISION_TOKENS[2])  # type: ignore[assignment]
    return Vision(processor, placeholder, _MOST_PIXELS)


def _distinct_patches(vision: Vision, images: Iterable[Image]) -> "torch.Tensor":
    """Collect (patches, values) without duplicates, in order of first occurrence."""
    import torch

    found: dict[bytes, torch.Tensor] = {}
    for image in dict.fromkeys(images):
        for patch in vision.patches([image.picture()])["pixel_values"]:
            if (key := patch.tobytes()) not in found:
                found[key] = torch.from_numpy(patch.copy())
    return torch.stack(list(found.values()))


def _tell_apart(embedding: "torch.nn.Conv3d", patches: "torch.Tensor") -> None:
    """Initialize a patch embedding from data (Kraehenbuehl et al., arXiv 1511.06856).

    Patches are projected on their principal components, each scaled to a variance of one over the
    distinct patches, and rotated at random. With random weights, what patches have in common, their
    brightness, would be many times larger than what distinguishes a figure from the floor.
    """
    import torch

    mean = patches.mean(0)
    _, sizes, components = torch.linalg.svd(patches - mean, full_matrices=False)
    kept = min(int((sizes > 1e-3 * sizes[0]).sum()), embedding.out_channels)
    turn = torch.linalg.qr(torch.randn(embedding.out_channels, embedding.out_channels))[0]
    scaled = components[:kept] / sizes[:kept, None] * len(patches) ** 0.5
    weight = turn[:, :kept] @ scaled
    assert embedding.bias is not None
    with torch.no_grad():
        embedding.weight.copy_(weight.view_as(embedding.weight))
        embedding.bias.copy_(-(weight @ mean))


def _image_shape(eyes: TinyVisionConfig, out_hidden_size: int) -> dict[str, Any]:
    """Configuration of Qwen3-VL's vision encoder."""
    return {
        "depth": eyes.layers,
        "hidden_size": eyes.hidden_size,
        "intermediate_size": eyes.intermediate_size,
        "num_heads": eyes.heads,
        "patch_size": eyes.patch,
        "spatial_merge_size": eyes.merge,
        "temporal_patch_size": 1,
        "out_hidden_size": out_hidden_size,
        "num_position_embeddings": eyes.side**2,
        "deepstack_visual_indexes": [],
        "initializer_range": eyes.hidden_size**-0.5,
    }


def new_vision_model(
    config: TinyModelConfig,
    tokenizer: "PreTrainedTokenizerFast",
    seed: int,
    vision: Vision,
    images: Iterable[Image],
) -> "Qwen3VLForConditionalGeneration":
    """Make a Qwen3-VL model with random weights in float32 from a seed.

    Args:
        config: Its shape, with a vision encoder.
        tokenizer: Its tokenizer, after `add_image_tokens`.
        seed: Seed of its weights.
        vision: Its image processor.
        images: A sample of the images that it will see; see `_tell_apart`.
    """
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    from benchmark.engines.transformers.patches import embed_by_products

    eyes = config.vision
    assert eyes is not None
    names: Any = tokenizer.convert_tokens_to_ids(list(VISION_TOKENS))
    start, end, image, video = names
    # Split the frequencies between time, rows and columns in the proportions of full-size Qwen3-VL
    # models.
    half = config.head_dim // 2
    text = text_shape(config, tokenizer) | {
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000.0,
            "mrope_section": [half - 2 * (half // 4), half // 4, half // 4],
            "mrope_interleaved": True,
        },
    }
    torch.manual_seed(seed)
    model = Qwen3VLForConditionalGeneration(
        Qwen3VLConfig(
            text_config=text,
            vision_config=_image_shape(eyes, config.hidden_size),
            image_token_id=image,
            video_token_id=video,
            vision_start_token_id=start,
            vision_end_token_id=end,
            tie_word_embeddings=True,
        )
    )
    with torch.no_grad():
        model.model.visual.pos_embed.weight.normal_(0.0, 1.0)
    _tell_apart(model.model.visual.patch_embed.proj, _distinct_patches(vision, images))
    embed_by_products(model)
    if eyes.frozen:
        model.model.visual.requires_grad_(False)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    # Greedy by default, so that users of other programs get the model's best guess.
    model.generation_config.do_sample = False
    return model
