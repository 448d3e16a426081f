"""LoRA training runs: what is trained, saved, resumed, and sent to engines."""

import asyncio
import json
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file

from baselines.inits.registry import find_model
from benchmark.adapters import find_adapter
from benchmark.cli.main import main
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.logs.training_log import LOG, read_training_log
from tests.support.training.logs import without_times
from tests.support.training.lora_files import FILE, check_merged
from tests.support.training.runs import train as train_here

pytestmark = pytest.mark.slow
INIT = find_model("tiny-sokoban").path
assert INIT is not None
FOLDER: Path = INIT
SMALL = (
    "optimization.lora.rank=4",
    "optimization.lora.alpha=8",
    "optimization.learning_rate=3e-3",
    "optimization.warmup_updates=0",
    "rollout.groups=3",
    "rollout.group_size=4",
    "rollout.max_turns=6",
    "validation.every=null",
    "checkpoint_every=1",
)
SCALE = 8 / 4
BF16 = "optimization.mixed_precision=bf16"


def train(folder: Path, *own: str, engine: str = "transformers") -> list[dict[str, Any]]:
    words = ["train", "--recipe", "grpo", "--init", "tiny-sokoban", "--out", str(folder)]
    words += ["--engine", engine, *(w for text in (*SMALL, *own) for w in ("--set", text))]
    assert main(words) == 0
    return [dict(line.values) for line in read_training_log(folder / LOG).updates]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three updates."""
    folder = tmp_path_factory.mktemp("lora") / "run"
    train(folder, "optimization.updates=3")
    return folder


def test_the_engine_has_what_was_trained(trained: Path) -> None:
    updates = [line.values for line in read_training_log(trained / LOG).updates]
    assert updates[0]["kl_init/mean"] < 1e-9
    assert updates[2]["kl_init/mean"] > 1e-6
    for line in updates:
        # Merged weights and separate products sum the same numbers in a different order.
        assert line["engine/abs_max"] < 1e-4


def test_a_checkpoint_is_the_init_and_its_updates(trained: Path) -> None:
    assert check_merged(trained / "last", FOLDER, SCALE) == 7 * 3
    state = json.loads((trained / "last" / "adapter" / "adapter_config.json").read_text())
    assert state["base_model_name_or_path"] == "tiny-sokoban"
    assert state["target_modules"] == sorted(state["target_modules"])


def test_evaluation_reads_the_updates_alone(trained: Path) -> None:
    async def checksums(engine: TransformersEngine) -> list[torch.Tensor]:
        async with engine:
            assert engine._decoder is not None
            return [one.clone() for one in engine._decoder.model.state_dict().values()]

    adapter = find_adapter(str(trained / "last" / "adapter"))
    merged = asyncio.run(checksums(TransformersEngine(trained / "last")))
    read = asyncio.run(checksums(TransformersEngine(FOLDER, lora=adapter)))
    assert len(merged) == len(read) > 30
    for one, other in zip(merged, read, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_a_resumed_run_is_the_whole_one(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    train(folder, "optimization.updates=1")
    begun = train(folder, "optimization.updates=3")
    whole = [dict(line.values) for line in read_training_log(trained / LOG).updates]
    assert [without_times(line) for line in begun] == [without_times(line) for line in whole]
    assert (folder / "last" / FILE).read_bytes() == (trained / "last" / FILE).read_bytes()
    assert (folder / "last" / "adapter" / "adapter_config.json").read_bytes() == (
        trained / "last" / "adapter" / "adapter_config.json"
    ).read_bytes()


def test_bf16_with_recomputed_activations_starts_at_the_init(tmp_path: Path) -> None:
    own = (BF16, "optimization.gradient_checkpointing=true", "entropy_coef=0.01")
    # accelerate's state is global to the process and includes the precision.
    AcceleratorState._reset_state(reset_partial_state=True)
    first = train(tmp_path / "run", *own, "optimization.updates=1")[0]
    AcceleratorState._reset_state(reset_partial_state=True)
    # On a CPU with matrix units, bf16 products depend on the batch's shape.
    file = Path("/proc/cpuinfo")
    units = file.is_file() and "amx_bf16" in file.read_text().split()
    assert first["kl_init/mean"] <= (1e-6 if units else 0.0) and first["policy/grad_norm"] > 0


class Narrow(TransformersEngine):
    """Stores weights in bfloat16, and keeps all weights it receives."""

    given: ClassVar[list[dict[str, torch.Tensor]]] = []

    def __init__(self, folder: Path, *, deterministic: bool) -> None:
        super().__init__(folder, dtype="bfloat16", deterministic=deterministic)

    async def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]], version: int) -> None:
        self.given.append({name: weight.clone() for name, weight in weights})
        await super().load_weights(self.given[-1].items(), version)


def test_updates_are_not_rounded_away_by_engines_that_hold_bfloat16(tmp_path: Path) -> None:
    """The policy's engine and that of the older policy, which is also kept up to date."""
    own = ("optimization.lora.rank=4", "optimization.updates=2", "checkpoint_every=10")
    older = ("sampling.cross_policy.refresh_every=2", "sampling.dynamic=null")
    Narrow.given.clear()
    train_here(tmp_path / "run", "agentrl_cross", (*own, *older), played_by=Narrow)
    layer = "model.layers.0.mlp.up_proj.weight"
    merged = load_file(tmp_path / "run" / "last" / "model.safetensors")[layer]
    assert merged.dtype == torch.float32
    nearest, last = merged.to(torch.bfloat16), Narrow.given[-2:]
    for weights in last:
        found = weights[layer]
        assert found.dtype == torch.bfloat16
        assert 0.1 < (found != nearest).float().mean() < 0.9
        # With stochastic rounding the mean is right: each draw is off by at most 2^-9 of the
        # number.
        error = (found.float() - merged).mean().abs()
        assert error < merged.abs().mean() * 2**-8 * 5 / merged.numel() ** 0.5
    assert len(Narrow.given) == 4  # twice for the policy and after the init, once for the older


@pytest.mark.vllm
@pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed")
def test_vllm_answers_with_the_updates(tmp_path: Path) -> None:
    updates = train(tmp_path / "run", "optimization.updates=3", engine="vllm")
    assert updates[2]["kl_init/mean"] > 1e-6
    for line in updates:
        assert line["engine/k3"] < 1e-9 and line["engine/abs_max"] < 1e-3
