"""Peak memory of a micro-batch of large policies, with whole logits and as it is now.

    python -m tests.benchmarks.scripts.memory_cases

Nothing is allocated: forward and backward pass run on torch's fake tensors. Counted are activations
and gradients, not weights, moments and the reference. `before` is what the trainer did at ab1dabf:
logits of a whole micro-batch in float32, gradients that are not sharded, a critic whose activations
are all kept. Rows are prompt and response tokens of a full micro-batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import PretrainedConfig, Qwen3Config

from baselines.config.layers import resolve
from baselines.config.schema import TrainConfig
from baselines.training.memory import (
    GIB,
    _cut,
    _empty,
    _measured,
    _Peak,
    _place,
    _sizes,
    whole_gradients,
)

GPUS = 6
"""That train where a policy is sharded."""
DEEP = (2, 4)
"""Layers that are measured; every further one adds as much."""


@dataclass(frozen=True, slots=True)
class Case:
    """A policy and a micro-batch."""

    name: str
    model: Qwen3Config
    rows: int
    prompt: int
    response: int
    sharded: bool = False
    critic: bool = False


def qwen3(hidden: int, wide: int, layers: int, heads: int) -> Qwen3Config:
    """A Qwen3 with its published vocabulary."""
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


SMALL, LARGE = qwen3(2048, 6144, 28, 16), qwen3(2560, 9728, 36, 32)
CASES = (
    Case("1.7B, one GPU", SMALL, 43, 1012, 512),
    Case("4B, one GPU", LARGE, 43, 1012, 512),
    Case("4B, FSDP", LARGE, 43, 1012, 512, sharded=True),
    Case("4B, FSDP, mathematics", LARGE, 8, 692, 7500, sharded=True),
    Case("critic of 4B, one GPU", LARGE, 43, 1012, 512, critic=True),
)


def forward(network: Any, case: Case, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Log-probabilities from whole logits, or a critic's values."""
    if case.critic:
        states: torch.Tensor = network.base_model(input_ids=ids, use_cache=False).last_hidden_state
        return states.float().mean(-1)
    kept = case.response + 1
    logits = network(input_ids=ids, use_cache=False, logits_to_keep=kept).logits.float()
    picked = logits[:, :-1].flatten(0, 1)
    return torch.nn.functional.cross_entropy(picked, targets, reduction="none")


def passed(model: PretrainedConfig, case: Case, recomputed: bool) -> float:
    """Bytes of a pass with whole logits, or of a critic's, without gradients of weights."""
    narrow = torch.bfloat16 if case.sharded else torch.float32
    network = _empty(model, "meta", narrow).train()
    if recomputed:
        network.gradient_checkpointing_enable()
    with FakeTensorMode():
        _place(network)
        weights = [*network.parameters(), *network.buffers()]
        for weight in network.parameters():
            weight.register_post_accumulate_grad_hook(lambda one: setattr(one, "grad", None))
        ids = torch.zeros((case.rows, case.prompt + case.response), dtype=torch.long)
        targets = torch.zeros(case.rows * case.response, dtype=torch.long)
        peak = _Peak(weights)
        with peak:
            with torch.autocast("cpu", torch.bfloat16, enabled=not case.sharded):
                values = forward(network, case, ids, targets)
            values.sum().backward()
        return float(peak.peak)


def deep(model: PretrainedConfig, measure: Callable[[PretrainedConfig], float]) -> float:
    """What a model of any depth needs, from two shallow ones."""
    low, high = (measure(_cut(model, depth)) for depth in DEEP)
    return float(high + (high - low) / (DEEP[1] - DEEP[0]) * (model.num_hidden_layers - DEEP[1]))


def before(case: Case) -> float:
    """GiB of activations and gradients as they were."""
    count = _sizes(case.model, None).parameters
    gradients = (2 if case.sharded else 4) * count
    peak = deep(case.model, lambda model: passed(model, case, recomputed=not case.critic))
    return (peak + gradients) / GIB


def after(case: Case, config: TrainConfig) -> float:
    """The same now."""
    count = _sizes(case.model, None).parameters
    gradients = 4 * count / (GPUS if case.sharded else 1)
    if case.sharded:
        gradients += whole_gradients(case.model, narrow=True)
    sizes = case.rows, case.prompt + case.response, case.response

    def measure(model: PretrainedConfig) -> float:
        if case.critic:
            return passed(model, case, recomputed=True)
        return _measured(model, config, sizes, case.sharded)

    return (deep(case.model, measure) + gradients) / GIB


def main() -> None:
    """Print the table."""
    config = resolve("grpo", "paper", ["alfworld"])
    print("| policy | rows x (prompt + response) | before, GiB | now, GiB |")
    print("| --- | --- | --- | --- |")
    for case in CASES:
        size = f"{case.rows} x ({case.prompt:,} + {case.response:,})"
        print(f"| {case.name} | {size} | {before(case):.1f} | {after(case, config):.1f} |")


if __name__ == "__main__":
    main()
