"""A policy computes the same in training mode as in evaluation mode."""

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from baselines.learning.dropout import without_dropout


def gpt2() -> PreTrainedModel:
    """A model with dropout in its default configuration."""
    return GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=2))


def qwen3(attention: str) -> PreTrainedModel:
    """A model with dropout as a number in its attention, not as a module."""
    config = Qwen3Config(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, head_dim=8,
        num_attention_heads=2, num_key_value_heads=2, attention_dropout=0.5,
    )  # fmt: skip
    config._attn_implementation = attention
    return Qwen3ForCausalLM(config)


@pytest.mark.parametrize("kind", ["gpt2", "eager", "sdpa"])
def test_nothing_drops_out(kind: str) -> None:
    torch.manual_seed(0)
    model = gpt2() if kind == "gpt2" else qwen3(kind)
    ids = torch.arange(24).reshape(2, 12)
    known = model.eval()(ids).logits
    assert not torch.allclose(model.train()(ids).logits, known), "the test drops nothing out"
    assert without_dropout(model) is model and model.training
    assert torch.equal(model(ids).logits, known)
