"""Architectures that the transformers engine supports, and its errors for others."""

from typing import Any

import pytest
from transformers import (
    BloomConfig,
    DeepseekV3Config,
    FalconConfig,
    Gemma3TextConfig,
    GPT2Config,
    LlamaConfig,
    Phi3Config,
    PretrainedConfig,
    Qwen2Config,
    RwkvConfig,
)

from benchmark.engines.transformers.engine import context_of, decodable_context, try_decoding
from tasks.errors import UserError
from tests.support.engines.architectures import SIZES, random_model


@pytest.mark.parametrize("context", [2, 3, 5, 6, 40, 256])
@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**SIZES),
        Qwen2Config(**SIZES),
        Gemma3TextConfig(**SIZES, head_dim=8, sliding_window=16),
        GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=256, pad_token_id=0),
    ],
    ids=lambda config: config.model_type,
)
def test_most_models_run(config: PretrainedConfig, context: int) -> None:
    model = random_model(config)
    try_decoding(model, context)
    # An engine's decoder packs prompts only if this is present.
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize(
    "config",
    [
        DeepseekV3Config(
            **{**SIZES, "num_key_value_heads": 4},
            q_lora_rank=16,
            kv_lora_rank=16,
            qk_rope_head_dim=8,
            qk_nope_head_dim=8,
            v_head_dim=12,
            n_routed_experts=4,
            n_group=1,
            topk_group=1,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            first_k_dense_replace=1,
        ),
        RwkvConfig(vocab_size=64, hidden_size=32, num_hidden_layers=2, context_length=256),
        BloomConfig(vocab_size=64, hidden_size=32, n_layer=2, n_head=4, pad_token_id=0),
        FalconConfig(
            vocab_size=64,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            pad_token_id=0,
        ),
    ],
    ids=lambda config: config.model_type,
)
def test_others_are_refused_before_anything_is_played(config: PretrainedConfig) -> None:
    with pytest.raises(UserError, match=r"cannot run \w+ForCausalLM.*; use --engine vllm"):
        try_decoding(random_model(config), 256)


def test_longrope_ends_where_its_frequencies_change(caplog: pytest.LogCaptureFixture) -> None:
    rope = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    given: dict[str, Any] = {"original_max_position_embeddings": 100, "rope_scaling": rope}
    config = Phi3Config(**SIZES, **given)
    model = random_model(config)
    assert (context_of(model), decodable_context(model)) == (256, 100)
    assert "the context is limited to the original 100 tokens" in caplog.text
    assert decodable_context(random_model(Phi3Config(**SIZES))) == 256
