"""LoRA: updates to weights, by hand and by peft itself, and the weights that stay unchanged."""

import copy
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from peft import PeftModel
from transformers import (
    GPT2Config,
    PretrainedConfig,
    Qwen2Config,
    Qwen3MoeConfig,
)

from baselines.config.schema import LoRA
from baselines.inits.registry import find_model
from baselines.learning.lora import (
    add_updates,
    merged,
    rounded_at_random,
    without_updates,
    write_updates,
)
from baselines.learning.sharding import narrow_frozen
from benchmark.adapters import find_adapter
from benchmark.engines.transformers.engine import load_model
from tasks.errors import UserError
from tests.support.engines.architectures import SIZES, random_model

INIT = find_model("tiny-sokoban").path
assert INIT is not None
FOLDER: Path = INIT
IDS = torch.arange(3, 40)[None]


def updated(rank: int = 4, seed: int = 0) -> torch.nn.Module:
    """A model with nonzero updates."""
    model = load_model(FOLDER, "float32", "cpu")
    add_updates(model, LoRA(rank=rank, alpha=8), seed, "tiny")
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.copy_(0.05 * torch.randn(weight.shape, generator=generator))
    return model


def test_weights_get_the_scaled_product() -> None:
    model = updated(rank=4)
    old, new = model.state_dict(), merged(model, model.state_dict())
    name = "model.layers.1.mlp.up_proj"
    down, up = (old[f"{name}.lora_{half}.default.weight"] for half in "AB")
    assert down.shape[0] == up.shape[1] == 4
    # 8 / 4 times B A
    by_hand = old[f"{name}.base_layer.weight"] + 2 * up @ down
    torch.testing.assert_close(new[f"{name}.weight"], by_hand)
    assert set(new) == set(load_model(FOLDER, "float32", "cpu").state_dict())
    last = "lm_head.weight"
    assert torch.equal(new[last], old[last])
    narrow = merged(model, old, torch.bfloat16)
    assert torch.equal(narrow[last], new[last].bfloat16())
    # Adjacent numbers in bfloat16, which has 8 bits of precision.
    apart = (narrow[f"{name}.weight"].float() - by_hand).abs() / by_hand.abs()
    assert 0 < apart.max() <= 2**-7


def test_rounding_at_random_keeps_small_updates() -> None:
    generator = torch.Generator().manual_seed(0)
    base = (0.02 * torch.randn(500, 500, generator=generator)).bfloat16().float()
    assert torch.equal(rounded_at_random(base, 1).float(), base)
    # 1e-6, although bfloat16 numbers near 0.02 are 1e-4 apart.
    update = 1e-6 * torch.randn(500, 500, generator=generator).sign()

    def kept(rounded: torch.Tensor) -> float:
        return float(((rounded.float() - base) * update).sum() / update.square().sum())

    assert kept((base + update).bfloat16()) < 0.1
    found = [rounded_at_random(base + update, seed) for seed in range(20)]
    assert sum(map(kept, found)) / 20 == pytest.approx(1, abs=0.1)
    assert torch.equal(found[3], rounded_at_random(base + update, 3))
    assert not torch.equal(found[3], found[4])


def test_peft_merges_and_reads_the_same(tmp_path: Path) -> None:
    model = updated()
    write_updates(model, model.state_dict(), tmp_path / "adapter")
    assert find_adapter(str(tmp_path / "adapter")).rank == 4
    base = load_model(FOLDER, "float32", "cpu")
    read = PeftModel.from_pretrained(base, tmp_path / "adapter").merge_and_unload()
    ours = merged(model, model.state_dict())
    for name, weight in read.state_dict().items():
        torch.testing.assert_close(ours[name], weight)
    plain = load_model(FOLDER, "float32", "cpu")
    plain.load_state_dict(ours)
    with torch.no_grad():
        torch.testing.assert_close(
            model(input_ids=IDS).logits, plain(input_ids=IDS).logits, rtol=1e-4, atol=1e-4
        )


def test_without_its_updates_a_policy_is_its_init() -> None:
    model, init = updated(), load_model(FOLDER, "float32", "cpu")
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert trained and all("lora_" in name for name in trained)
    with torch.no_grad():
        before, wanted = model(input_ids=IDS).logits, init(input_ids=IDS).logits
        with without_updates(model):
            assert torch.equal(model(input_ids=IDS).logits, wanted)
        assert torch.equal(model(input_ids=IDS).logits, before)
    assert (before - wanted).abs().max() > 0.1
    # FSDP and the optimizer would not notice if they were frozen in between.
    assert [n for n, weight in model.named_parameters() if weight.requires_grad] == trained


def test_updates_are_drawn_from_the_seed_alone() -> None:
    torch.manual_seed(5)
    one, state = updated(seed=1), torch.random.get_rng_state()
    torch.manual_seed(5)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(6)
    same, other = updated(seed=1), updated(seed=2)
    name = "model.layers.0.self_attn.q_proj.lora_A.default.weight"
    drawn = [model.state_dict()[name] for model in (one, same, other)]
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])


@pytest.fixture
def narrow() -> Iterator[Accelerator]:
    AcceleratorState._reset_state(reset_partial_state=True)
    yield Accelerator(cpu=True, mixed_precision="bf16")
    AcceleratorState._reset_state(reset_partial_state=True)


def test_frozen_weights_in_bf16_change_nothing_under_autocast(narrow: Accelerator) -> None:
    model = updated()
    slim = copy.deepcopy(model)
    narrow_frozen(slim, sharded=False)
    kinds = {name.split(".")[-2]: weight.dtype for name, weight in slim.named_parameters()}
    assert kinds["base_layer"] == torch.bfloat16
    assert kinds["default"] == kinds["embed_tokens"] == kinds["norm"] == torch.float32
    with torch.no_grad(), narrow.autocast():
        assert torch.equal(slim(input_ids=IDS).logits, model(input_ids=IDS).logits)


def test_biases_keep_their_names() -> None:
    model = random_model(Qwen2Config(**SIZES))
    names = set(model.state_dict())
    assert any(name.endswith("q_proj.bias") for name in names)
    add_updates(model, LoRA(rank=4, alpha=8), 0, "tiny")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.fill_(0.01)
        expected = model(IDS).logits
        whole = merged(model, model.state_dict())
        assert set(whole) == names
        fresh = random_model(Qwen2Config(**SIZES))
        fresh.load_state_dict(whole)
        assert torch.allclose(fresh(IDS).logits, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, pad_token_id=0), "Conv1D"),
        (
            Qwen3MoeConfig(**SIZES, moe_intermediate_size=16, num_experts=4),
            "Qwen3MoeExperts",
        ),
    ],
)
def test_updates_that_could_not_be_merged_are_refused(config: PretrainedConfig, kind: str) -> None:
    with pytest.raises(UserError, match=f"has {kind}: train all weights"):
        add_updates(random_model(config), LoRA(rank=4, alpha=8), 0, "tiny")
