"""Sampling of tokens, and the decode loop on several architectures compared with `generate`."""

import math
import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from benchmark.engines.core.base import Sampling
from benchmark.engines.transformers.decoding import MAX_PREFIXES, BatchRow, Decoder, draw, uniforms
from tasks.errors import UserError

# Probabilities .2, .5, .3 of the tokens 0, 1, 2.
LOGITS = torch.tensor([[math.log(0.2), math.log(0.5), math.log(0.3)]]) + 7.0


@pytest.mark.parametrize(
    ("sampling", "number", "token"),
    [
        (Sampling(temperature=0.0), 0.99, 1),
        # In vocabulary order: [0, .2) [.2, .7) [.7, 1).
        (Sampling(temperature=1.0), 0.0, 0),
        (Sampling(temperature=1.0), 0.19, 0),
        (Sampling(temperature=1.0), 0.21, 1),
        (Sampling(temperature=1.0), 0.69, 1),
        (Sampling(temperature=1.0), 0.71, 2),
        (Sampling(temperature=1.0), 1 - 2**-53, 2),
        # Square roots of the probabilities: .4472, .7071, .5477, so [0, .2627) [.2627, .6782).
        (Sampling(temperature=2.0), 0.26, 0),
        (Sampling(temperature=2.0), 0.27, 1),
        (Sampling(temperature=2.0), 0.67, 1),
        (Sampling(temperature=2.0), 0.69, 2),
        # In descending order from here on. The best two, renormalized: [0, .625) [.625, 1).
        (Sampling(temperature=1.0, top_k=2), 0.62, 1),
        (Sampling(temperature=1.0, top_k=2), 0.63, 2),
        (Sampling(temperature=1.0, top_k=2), 1 - 2**-53, 2),
        (Sampling(temperature=1.0, top_k=1), 0.99, 1),
        (Sampling(temperature=1.0, top_k=3), 0.19, 0),  # all tokens: the same as no top_k
        # .5 alone reaches .45; .5 + .3 reach .75; all are needed for .85.
        (Sampling(temperature=1.0, top_p=0.45), 0.99, 1),
        (Sampling(temperature=1.0, top_p=0.75), 0.62, 1),
        (Sampling(temperature=1.0, top_p=0.75), 0.63, 2),
        (Sampling(temperature=1.0, top_p=0.85), 0.79, 2),
        (Sampling(temperature=1.0, top_p=0.85), 0.81, 0),
        # The first of the best two has .625, which reaches .6.
        (Sampling(temperature=1.0, top_k=2, top_p=0.6), 0.99, 1),
        (Sampling(temperature=1e-6), 0.99, 1),
        (Sampling(temperature=1e-50), 0.99, 1),  # 0 in float32
    ],
)
def test_draw(sampling: Sampling, number: float, token: int) -> None:
    assert draw(LOGITS, sampling, [number]).tolist() == [token]


@given(
    logits=st.lists(st.floats(-50, 50, width=32), min_size=2, max_size=12),
    temperature=st.floats(0.05, 5),
    top_k=st.integers(0, 13),
    top_p=st.floats(0.01, 1),
    number=st.floats(0, 1, exclude_max=True),
)
def test_a_drawn_token_is_a_candidate(
    logits: list[float], temperature: float, top_k: int, top_p: float, number: float
) -> None:
    tensor = torch.tensor([logits])
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    token = int(draw(tensor, sampling, [number]))
    # Logits with the same float32 distance from the best one are ties.
    scaled = ((tensor - tensor.max()) / temperature)[0]
    better = scaled > scaled[token]
    assert better.sum() < (top_k or len(logits))
    # The better tokens alone did not reach top_p; top_k only increases their share.
    assert scaled.double().softmax(-1)[better].sum() <= top_p + 1e-6


def test_rows_are_drawn_independently() -> None:
    tokens = draw(LOGITS.repeat(3, 1), Sampling(temperature=1.0), [0.1, 0.5, 0.9])
    assert tokens.tolist() == [0, 1, 2]


def test_uniforms_depend_on_the_seed_alone() -> None:
    assert uniforms(2**63 - 1, 5) == uniforms(2**63 - 1, 9)[:5]
    assert uniforms(1, 5) != uniforms(2, 5)
    assert all(0 <= number < 1 for number in uniforms(3, 1000))


SIZES: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 12,
    "max_position_embeddings": 256,
    "initializer_range": 0.2,
}
ARCHITECTURES = {
    "llama": SIZES,
    "mistral": {**SIZES, "sliding_window": 16},
    "gemma3_text": {
        **SIZES,
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "query_pre_attn_scalar": 12,
    },
    "qwen3_moe": {**SIZES, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    "gpt2": {"vocab_size": 300, "n_embd": 48, "n_layer": 2, "n_head": 4, "initializer_range": 0.2},
}


def build(model_type: str, settings: dict[str, Any]) -> PreTrainedModel:
    torch.manual_seed(0)
    config = AutoConfig.for_model(model_type, **settings)
    model: PreTrainedModel = AutoModelForCausalLM.from_config(config).eval()
    return model


def greedy(model: PreTrainedModel, prompt: list[int], count: int) -> list[int]:
    """The output of transformers' `generate`, without any stop token."""
    generated: torch.Tensor = model.generate(  # type: ignore[operator]
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        do_sample=False,
        max_new_tokens=count,
        eos_token_id=[],
        pad_token_id=0,
    )
    return generated[0, len(prompt) :].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("model_type", list(ARCHITECTURES))
def test_decoding_equals_generate(model_type: str) -> None:
    model = build(model_type, ARCHITECTURES[model_type])
    rng = random.Random(1)
    shared = rng.choices(range(300), k=40)
    lengths = [1, 2, 31, 33, 50, 90]
    prompts = [rng.choices(range(300), k=length) for length in lengths]
    prompts += [shared + rng.choices(range(300), k=k) for k in (1, 5, 30)] + [shared]
    expected = [greedy(model, prompt, 12 + i) for i, prompt in enumerate(prompts)]

    decoder = Decoder(model, frozenset(), max_batch=4)
    waiting = [
        (BatchRow(i, prompt[-1], len(prompt) - 1, Sampling(), 12 + i, []), prompt)
        for i, prompt in enumerate(prompts)
    ]
    found: dict[int, list[int]] = {}
    while waiting or decoder.rows:
        admitted, waiting = waiting[: decoder.free], waiting[decoder.free :]
        decoder.admit([row for row, _ in admitted], [prompt for _, prompt in admitted])
        for row, completion in decoder.step():
            found[row.owner] = list(completion.response_ids)
    assert [found[i] for i in range(len(prompts))] == expected
    assert len({tuple(response) for response in expected}) > len(expected) // 2


def test_prefix_is_shared_and_shrinks() -> None:
    model = build("llama", SIZES)
    decoder = Decoder(model, frozenset(), max_batch=8)

    def admit(prompt: list[int]) -> int:
        decoder.admit([BatchRow(0, prompt[-1], len(prompt) - 1, Sampling(), 1, [])], [prompt])
        return sum(prefix.length for prefix in decoder._prefixes.values())

    base = list(range(100))
    assert admit([*base, 7]) == 100
    assert admit([*base[:60], 200, 201]) == 60
    assert admit([*base, 9]) == 60
    assert admit([250, *base]) == 160  # other instructions, with their own prefix
    assert admit([*base[:20], 7]) == 160  # too short for a prefix
    decoder.forget_prefixes()
    assert not decoder._prefixes
    # The oldest one is evicted when the cache is full, and only for a new one.
    firsts = [*range(200, 200 + MAX_PREFIXES)]
    for first in [*firsts, *firsts, 199]:
        decoder._shared_prefix((first,), [[first, *base]])
    assert [key[0] for key in decoder._prefixes] == [*firsts[1:], 199]


def test_other_layers_than_attention_are_refused() -> None:
    settings = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}
    with pytest.raises(UserError, match=r"MambaForCausalLM.*use --engine vllm"):
        Decoder(build("mamba", settings), frozenset(), max_batch=2)


@pytest.mark.slow
def test_slots_outgrow_their_columns() -> None:
    model = build("llama", {**SIZES, "max_position_embeddings": 1024})
    prompt = [5, 6, 7]
    decoder = Decoder(model, frozenset(), max_batch=2)
    decoder.admit([BatchRow(0, 7, 2, Sampling(), 300, [])], [prompt])
    ended = []
    while decoder.rows:
        ended += decoder.step()
    assert [list(completion.response_ids) for _, completion in ended] == [
        greedy(model, prompt, 300)
    ]
