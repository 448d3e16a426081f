"""Memory estimates for a run: sums by hand, and a micro-batch measured on fake tensors."""

import copy
from dataclasses import replace

import pytest
from transformers import AutoConfig, Qwen3Config

from baselines.config.layers import resolve
from baselines.config.layout import EngineModels, Layout
from baselines.inits.registry import find_model
from baselines.training.memory import GIB, OVERHEAD, _cut, _measured, _micro_batch, estimate_memory

LONGEST = 512


def qwen3(hidden: int, wide: int, layers: int, heads: int) -> Qwen3Config:
    """A Qwen3 with the published vocabulary."""
    return Qwen3Config(
        vocab_size=151_936,
        tie_word_embeddings=True,
        hidden_size=hidden,
        intermediate_size=wide,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=8,
        head_dim=128,
    )


SMALL = qwen3(256, 512, 6, 8)
LARGE = qwen3(2560, 9728, 36, 32)
"""Qwen3-4B: 4.02 billion parameters, 3.63 billion of them in the matrices of its layers."""


@pytest.mark.slow
def test_a_deep_model_needs_what_two_shallow_ones_say() -> None:
    config, sizes = resolve("sampo", "paper", ["alfworld"]), (2, 1536, LONGEST)
    for sharded in (False, True):
        whole = _measured(SMALL, config, sizes, sharded)
        assert _micro_batch(SMALL, config, sizes, sharded) == pytest.approx(whole, rel=1e-3)
        assert _measured(_cut(SMALL, 2), config, sizes, sharded) < whole


@pytest.mark.slow
def test_chunks_of_the_last_layer_spare_logits() -> None:
    sizes = (8, 1536, LONGEST)
    made = [
        _measured(
            SMALL,
            resolve("sampo", "paper", ["alfworld"], [f"optimization.head_chunk={n}"]),
            sizes,
            sharded=True,
        )
        for n in (8 * LONGEST, 256)
    ]
    # Of 4096 tokens or 256 at a time: logits in float32, their log-softmax and its exponential.
    logits = 4 * 151_936 * (8 * LONGEST - 256)
    assert 2.5 * logits < made[0] - made[1] < 5 * logits


@pytest.mark.slow
def test_qwen3_4b_on_one_gpu_and_on_eight() -> None:
    config = resolve("sampo", "paper", ["alfworld"])
    alone = estimate_memory(LARGE, config, Layout(), LONGEST)
    parameters = 4_022_468_096
    assert alone.parts["weights"] == alone.parts["gradients"] == 4 * parameters / GIB
    assert alone.parts["moments"] == 8 * parameters / GIB
    # 141 GB are 131 GiB; vLLM takes three tenths.
    assert alone.peak + 0.3 * 131 < 131
    assert alone.peak == pytest.approx(
        sum(alone.parts[n] for n in ("weights", "gradients", "moments", "reference"))
        + alone.parts["micro-batch"]
        + OVERHEAD
    )
    six = Layout(6, sharded=True)
    eight = estimate_memory(LARGE, config, six, LONGEST, sent=2)
    assert eight.parts["weights"] == pytest.approx(alone.parts["weights"] / 6)
    beside = estimate_memory(LARGE, config, replace(six, everywhere=True), LONGEST, sent=2)
    # An engine in each process takes all weights in bfloat16.
    assert beside.phases["weight sync"] - eight.phases["weight sync"] == pytest.approx(
        2 * parameters / GIB
    )
    # The main process gathers all weights before NCCL sends them, in two buffers of 1 GiB.
    gathers = estimate_memory(LARGE, config, six, LONGEST, sent=2, gathers=True)
    assert gathers.phases["weight sync"] == pytest.approx(beside.phases["weight sync"] + 2)
    # Float32 takes twice as much.
    wide = estimate_memory(LARGE, config, replace(six, everywhere=True), LONGEST, sent=4)
    assert wide.phases["weight sync"] - beside.phases["weight sync"] == pytest.approx(
        2 * parameters / GIB
    )
    # A layer's gradients in bfloat16, and the float32 buffer in which they are summed.
    layer = (parameters - 151_936 * 2560 - 2560) // 36
    assert eight.parts["reduced"] == pytest.approx(6 * layer / GIB)
    # Unsharded copies of the weights are in bfloat16, and so is the residual stream.
    assert eight.peak < 0.5 * 74.5
    lora = estimate_memory(
        LARGE,
        resolve("sampo", "paper", ["alfworld"], ["optimization.lora.rank=32"]),
        Layout(),
        LONGEST,
    )
    # Of each layer: q and o of 2560 x 4096, k and v of 2560 x 1024, three of 2560 x 9728.
    updates = 36 * 32 * (2 * (2560 + 4096) + 2 * (2560 + 1024) + 3 * (2560 + 9728))
    assert lora.parts["moments"] == 2 * lora.parts["gradients"] == 8 * updates / GIB
    # Matrices of layers in bfloat16; embeddings, which the last layer shares, in float32.
    embeddings = 151_936 * 2560
    assert lora.parts["weights"] == pytest.approx(
        (4 * updates + 2 * parameters + 2 * embeddings) / GIB, rel=1e-3
    )
    assert "reference" not in lora.parts and lora.peak < 0.4 * alone.peak
    small = estimate_memory(
        LARGE,
        resolve("sampo", "paper", ["alfworld"], ["optimization.optimizer=adamw_8bit"]),
        Layout(),
        LONGEST,
    )
    assert alone.peak - small.peak == pytest.approx(5.9 * parameters / GIB)


@pytest.mark.slow
def test_a_frozen_image_side_needs_no_gradients() -> None:
    path = find_model("tiny-sokoban-pixels").path
    assert path is not None
    model = AutoConfig.from_pretrained(path, local_files_only=True)
    sizes = []
    for frozen in ("false", "true"):
        own = ["rollout.max_tokens=16", f"optimization.freeze_vision={frozen}"]
        config = resolve("grpo", "tiny", ["sokoban"], [*own, "optimization.micro_batch_tokens=600"])
        found = estimate_memory(model, config, Layout(), 16)
        assert found.parameters == 740_832
        sizes.append({name: size * GIB / 4 for name, size in found.parts.items()})
    # Patch embedding, positions, a layer with attention, and the merger into tokens.
    embed, positions = 3 * 32 * 32 * 64 + 64, 144 * 64
    layer = 4 * 64 + (192 + 64) * (64 + 1) + 128 * (64 + 1) + 64 * (128 + 1)
    merger = 2 * 64 + 256 * (256 + 1) + 96 * (256 + 1)
    side = embed + positions + layer + merger
    assert sizes[0]["weights"] == pytest.approx(sizes[1]["weights"])
    assert sizes[0]["gradients"] - sizes[1]["gradients"] == pytest.approx(side)
    assert sizes[0]["moments"] - sizes[1]["moments"] == pytest.approx(2 * side)


@pytest.mark.slow
def test_engines_of_transformers_have_models_of_their_own() -> None:
    config = resolve("grpo", "tiny", ["sokoban"])
    bare = estimate_memory(SMALL, config, Layout(), 64)
    models = EngineModels(count=2, size=2, rows=10)
    beside = estimate_memory(SMALL, config, Layout(models=models), 64)
    # Weights, and the KV cache of 6 layers with 8 heads of 128, for 10 rows of 1,024 and 64.
    each = 2 * (bare.parameters + 2 * 6 * 8 * 128 * 10 * (1024 + 64))
    assert beside.parts["engines"] == pytest.approx(2 * each / GIB)
    for phase in bare.phases:
        assert beside.phases[phase] - bare.phases[phase] == pytest.approx(2 * each / GIB)


@pytest.mark.slow
def test_a_share_for_vllm_must_hold_weights_and_a_row() -> None:
    config = resolve("grpo", "tiny", ["sokoban"])
    assert estimate_memory(SMALL, config, Layout(), 64, sent=2).engine == 0
    beside = estimate_memory(SMALL, config, Layout(share=0.4), 64, sent=2)
    # KV cache of 6 layers with 8 heads of 128, for a row of 1,024 and 64.
    row = 2 * 6 * 8 * 128 * (1024 + 64)
    assert beside.engine == 2 * (beside.parameters + row) / GIB
    assert f"of which it needs {beside.engine:.2f} or more" in beside.text()
    assert estimate_memory(SMALL, config, Layout(serves=0.9), 64, sent=2).engine == beside.engine
    two = resolve("agentrl", "tiny", ["sokoban"])
    assert estimate_memory(SMALL, two, Layout(share=0.4), 64, sent=2).engine == 2 * beside.engine
    sliding = copy.deepcopy(SMALL)
    sliding.sliding_window = 512
    sliding.layer_types = ["sliding_attention", *["full_attention"] * 5]
    less = estimate_memory(sliding, config, Layout(share=0.4), 64, sent=2)
    assert less.engine == 2 * less.parameters / GIB


@pytest.mark.slow
def test_weights_for_them_are_not_copied_but_bfloat16_ones_are() -> None:
    config = resolve("grpo", "smoke", ["sokoban"])
    own, sent = (estimate_memory(SMALL, config, Layout(), 64, size) for size in (4, 2))
    assert own.phases["weight sync"] == own.phases["playing"]
    assert sent.phases["weight sync"] - sent.phases["playing"] == pytest.approx(
        2 * sent.parameters / GIB
    )


@pytest.mark.slow
def test_the_older_policy_is_kept_whole() -> None:
    plain, crossing = (
        estimate_memory(SMALL, resolve(recipe, "tiny", ["sokoban"]), Layout(), 64)
        for recipe in ("grpo", "agentrl")
    )
    whole = 4 * plain.parameters / GIB
    assert crossing.phases["playing"] - plain.phases["playing"] == pytest.approx(whole)
    # Two copies exist while one replaces the other.
    assert crossing.phases["weight sync"] - plain.phases["weight sync"] == pytest.approx(2 * whole)


@pytest.mark.slow
def test_a_reference_that_only_measures_is_named() -> None:
    def measuring(*own: str) -> float:
        config = resolve("grpo", "tiny", ["sokoban"], own)
        return estimate_memory(SMALL, config, Layout(), 64).measuring

    parameters = estimate_memory(SMALL, resolve("grpo", "tiny", ["sokoban"]), Layout(), 64)
    assert measuring("kl.coef=0") == pytest.approx(4 * parameters.parameters / GIB)
    assert measuring("kl.coef=0.1") == measuring("kl.coef=0", "kl.measured=false") == 0
