"""Vision-language models with random weights, small enough for tests."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from baselines.cloning.tiny_vision import VISION_TOKENS, add_image_tokens
from baselines.inits.registry import find_model
from benchmark.engines.core.chat import Chat

PATCH = 32
"""In pixels; two by two patches make a token, which is a cell of Sokoban."""


def tiny_vision_model(folder: Path, family: str = "qwen3_vl") -> Path:
    """Write a model with random weights, its tokenizer and its image processor.

    Args:
        folder: Folder to write.
        family: `qwen3_vl` or `qwen2_5_vl`.
    """
    init = find_model("tiny-sokoban").path
    assert init is not None
    tokenizer = Chat.load(init).tokenizer
    add_image_tokens(tokenizer)
    start, end, image, video = tokenizer.convert_tokens_to_ids(list(VISION_TOKENS))
    rope = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [8, 4, 4]}
    text: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "intermediate_size": 96,
        "max_position_embeddings": 1024,
        "initializer_range": 0.125,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "tie_word_embeddings": True,
    }
    eyes: dict[str, Any] = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "patch_size": PATCH,
        "spatial_merge_size": 2,
        "temporal_patch_size": 1,
        "out_hidden_size": 64,
        "initializer_range": 0.2,
    }
    tokens = {
        "image_token_id": image,
        "video_token_id": video,
        "vision_start_token_id": start,
        "vision_end_token_id": end,
        "tie_word_embeddings": True,
    }
    torch.manual_seed(0)
    model: Any
    if family == "qwen3_vl":
        eyes |= {"num_position_embeddings": 64, "deepstack_visual_indexes": [0]}
        text["rope_parameters"] = {**rope, "mrope_interleaved": True}
        model = Qwen3VLForConditionalGeneration(
            Qwen3VLConfig(text_config=text, vision_config=eyes, **tokens)
        )
    else:
        eyes |= {"window_size": 4 * PATCH, "fullatt_block_indexes": [1]}
        text["rope_parameters"] = rope
        model = Qwen2_5_VLForConditionalGeneration(
            Qwen2_5_VLConfig(text_config=text, vision_config=eyes, **tokens)
        )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(
        patch_size=PATCH,
        temporal_patch_size=1,
        merge_size=2,
        size={"shortest_edge": 64 * 64, "longest_edge": 1024 * 1024},
    ).save_pretrained(folder)
    return folder
