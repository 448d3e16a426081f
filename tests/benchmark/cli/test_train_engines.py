"""How `train` chooses an engine's options and the transfer of weights."""

import argparse
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from transformers import Qwen3Config

from baselines.config.layout import EngineModels
from baselines.config.run import TrainingRun
from baselines.inits.registry import find_model
from baselines.launch import fleet, plan
from benchmark.cli.main import parse
from benchmark.cli.training import engines, gpus
from benchmark.cli.training.train import _open_run
from tasks.errors import UserError

BF16 = ("--set", "optimization.mixed_precision=bf16")
SERVER = ("--endpoint", "http://localhost:8006/v1")
needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed")


def chosen(*own: str) -> tuple[TrainingRun, argparse.Namespace]:
    arguments = parse(["train", "--recipe", "grpo", "--init", "tiny-sokoban", *own])
    return _open_run(arguments)[0], arguments


@pytest.mark.parametrize(
    ("own", "cap"),
    [
        ((), None),
        (SERVER, 2.0),
        (("--engine", "vllm"), 2.0),
        (("--async-rollouts",), 2.0),
        ((*SERVER, "--set", "tis_cap=null"), None),
        ((*SERVER, "--set", "tis_cap=5"), 5.0),
        ((*SERVER, "--set", "rollout.temperature=0.7"), None),
    ],
)
def test_importance_weights_are_on_where_the_engine_is_not_the_trainer(
    own: tuple[str, ...], cap: float | None
) -> None:
    assert chosen(*own)[0].config.tis_cap == cap


@pytest.mark.parametrize(
    ("own", "dtype"),
    [
        (BF16, "float32"),  # transformers takes them unchanged
        (SERVER, "float32"),
        ((*SERVER, *BF16), "bfloat16"),
        ((*SERVER, *BF16, "--weights-dtype", "float32"), "float32"),
    ],
)
def test_weights_go_in_half_the_bytes_where_nothing_is_lost(
    own: tuple[str, ...], dtype: str
) -> None:
    assert chosen(*own)[0].weights_dtype == dtype


def test_options_of_vllm_are_refused_elsewhere() -> None:
    with pytest.raises(UserError, match="--weights-dtype is for vLLM"):
        chosen("--weights-dtype", "bfloat16")
    with pytest.raises(UserError, match="--sleep has no effect with a server"):
        chosen(*SERVER, "--sleep")


@needs_vllm
def test_on_a_gpu_only_vllm_beside_the_trainer_gets_a_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    beside, server = chosen("--engine", "vllm", "--sleep"), chosen(*SERVER)
    monkeypatch.setattr(engines, "has_gpu", lambda: True)
    options = engines.engine_options(*beside)
    assert options.gpu_memory_utilization == engines.ENGINE_SHARE and options.sleeps
    assert options.response_room == 64  # for a turn at scale tiny
    # Servers have their own options: one for vLLM would be rejected.
    assert engines.engine_options(*server).gpu_memory_utilization is None


@needs_vllm
@pytest.mark.parametrize(
    ("own", "arguments"),
    [
        ((), {}),
        (("--async-rollouts",), {"async_scheduling": False}),
        (("--set", "sampling.cross_policy={}"), {"enforce_eager": True}),
    ],
)
def test_vllm_gets_what_changing_weights_and_two_engines_need(
    own: tuple[str, ...], arguments: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "has_gpu", lambda: True)
    assert engines.engine_options(*chosen("--engine", "vllm", *own)).model_args == arguments
    # Other engines would reject vLLM's arguments.
    assert not engines.engine_options(*chosen(*SERVER, *own)).model_args
    assert not engines.engine_options(*chosen(*own)).model_args


@needs_vllm
def test_several_processes_with_engines_play_and_learn_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Several:
        num_processes, is_main_process = 2, False

    monkeypatch.setenv("WORLD_SIZE", "2")
    accelerator: Any = Several()
    assert engines.has_engine(*chosen("--engine", "vllm"), accelerator)
    assert engines.has_engine(*chosen(), accelerator)  # transformers
    assert not engines.has_engine(*chosen(*SERVER), accelerator)
    for own in (("--tensor-parallel-size", "2"), ("--async-rollouts",)):
        with pytest.raises(UserError, match=f"does not work with {own[0]}"):
            engines.check_engine(*chosen("--engine", "vllm", *own), processes=2)


def large(folder: Path) -> Path:
    """A folder that claims to contain Qwen3-4B; its weights are never read."""
    init = find_model("tiny-sokoban").path
    assert init is not None
    shutil.copytree(init, folder)
    config = Qwen3Config(
        vocab_size=151_936,
        hidden_size=2560,
        intermediate_size=9728,
        num_hidden_layers=36,
        num_attention_heads=32,
        num_key_value_heads=8,
        head_dim=128,
        tie_word_embeddings=True,
        architectures=["Qwen3ForCausalLM"],
    )
    config.save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_micro_batches_are_as_large_as_a_gpu_has_room_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = ("--task", "alfworld", "--scale", "paper")
    policy = ("--init", str(large(tmp_path / "4b")), *size, *SERVER)

    def fitted(room: float, *own: str) -> tuple[int, str | None]:
        monkeypatch.setattr(gpus, "smallest_gpu", lambda: room)
        training, said = gpus.fit(*chosen(*policy, *own))
        return training.config.optimization.micro_batch_tokens, said

    # README: 83.2 GiB with 16,384 tokens.
    assert fitted(84.0) == (16_384, None)
    tokens, said = fitted(81.0)
    assert tokens == 8_192 and said is not None
    assert said.startswith("optimization.micro_batch_tokens=8192: computed to need 7")
    with pytest.raises(UserError, match=r"learning needs 7\d\.\d GiB of each device, and 64.0 "):
        fitted(64.0)
    tokens, said = fitted(64.0, "--dry-run")
    assert tokens == 16_384 and said is not None and "optimization.lora.rank=32" in said
    assert fitted(47.0, "--set", "optimization.lora.rank=32") == (16_384, None)
    # A value chosen by the user stays.
    assert fitted(47.0, "--set", "optimization.micro_batch_tokens=16384") == (16_384, None)


@needs_vllm
@pytest.mark.slow
def test_a_sleeping_engine_needs_its_share_while_episodes_are_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = ("--init", str(large(tmp_path / "4b")), "--task", "alfworld", "--scale", "paper")

    def fitted(share: float, whole: float) -> int:
        monkeypatch.setattr(gpus, "smallest_gpu", lambda: whole)
        own = ("--engine", "vllm", "--sleep", "--gpu-memory-utilization", str(share))
        training, _ = gpus.fit(*chosen(*policy, *own))
        return training.config.optimization.micro_batch_tokens

    # README: 83.2 GiB while learning; the permanent part is 55.2, and 62.7 with the engine's
    # copies.
    assert fitted(0.4, 131.0) == 16_384
    assert fitted(0.2, 79.2) == 4_096
    with pytest.raises(UserError, match="does not fit: playing needs 55.2 GiB of each device, and"):
        fitted(0.4, 79.2)
    with pytest.raises(UserError, match=r"weight sync needs 62.7 .* a lower --gpu-memory-util"):
        fitted(0.25, 79.2)


@needs_vllm
@pytest.mark.slow
def test_a_share_that_vllm_cannot_start_in_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.config import CacheConfig

    policy = ("--init", str(large(tmp_path / "4b")), "--task", "alfworld", "--scale", "paper")
    monkeypatch.setattr(gpus, "smallest_gpu", lambda: 131.0)
    # 7.5 GiB of weights in bfloat16, and the KV cache of a row.
    beside = ("--engine", "vllm", "--gpu-memory-utilization", "0.05")
    with pytest.raises(UserError, match=r"vLLM needs \d\.\d GiB or more .* and 6.6 GiB of each"):
        gpus.fit(*chosen(*policy, *beside))
    assert CacheConfig().gpu_memory_utilization == engines.SERVER_SHARE
    # The trainer fits on its six GPUs, but servers on the other two would not start.
    divided = plan.plan_gpus(8, None, tuple("01234567"))
    served = (*policy, "--gpus", "8")
    monkeypatch.setattr(gpus, "smallest_gpu", lambda: 80.0)
    assert gpus.fit(*chosen(*served), divided)[1] is None
    training, arguments = chosen(*served)
    arguments.gpu_memory_utilization = 0.08
    with pytest.raises(UserError, match="a higher --gpu-memory-utilization"):
        gpus.fit(training, arguments, divided)


def test_what_cannot_fit_ends_before_servers_are_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--gpus", "2", "--out", str(tmp_path / "run"))
    training, arguments = chosen(*words)
    divided = plan.plan_gpus(2, None, ("0", "1"))
    monkeypatch.setattr(gpus, "smallest_gpu", lambda: 1.0)
    monkeypatch.setattr(fleet, "run_fleet", lambda *given: pytest.fail("started"))
    with pytest.raises(UserError, match="tiny-sokoban does not fit: "):
        gpus.launch(training, arguments, divided)


@needs_vllm
def test_two_engines_share_what_one_would_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "has_gpu", lambda: True)
    own = ("--engine", "vllm", "--recipe", "agentrl")
    assert engines.engine_options(*chosen(*own)).gpu_memory_utilization == 0.2
    half = chosen(*own, "--gpu-memory-utilization", "0.5")
    assert engines.engine_options(*half).gpu_memory_utilization == 0.25
    assert gpus.launched(*half).share == 0.5


def test_models_of_transformers_engines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "has_gpu", lambda: True)
    own = ("--engine", "transformers")
    # All 64 episodes at once; on a GPU the default dtype is bfloat16.
    assert gpus.launched(*chosen(*own)).models == EngineModels(1, 2, 64)
    few = ("--set", "rollout.concurrency=10")
    wide = chosen(*own, *few, "--recipe", "agentrl", "--dtype", "float32")
    assert gpus.launched(*wide).models == EngineModels(2, 4, 10)
    assert gpus.launched(*chosen(*SERVER)).models is None


@pytest.mark.slow
def test_a_refusal_names_the_reference_that_only_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = ("--task", "alfworld", "--scale", "paper")
    policy = ("--init", str(large(tmp_path / "4b")), *size, *SERVER)
    monkeypatch.setattr(gpus, "smallest_gpu", lambda: 40.0)
    # Matrices in bfloat16, embeddings in float32: 2 * 3.63 and 4 * 0.39 billion bytes.
    with pytest.raises(UserError, match=r"--set kl.measured=false \(saves 8.2 GiB\)"):
        gpus.fit(*chosen(*policy, "--set", "kl.coef=0"))
    with pytest.raises(UserError, match=r"does not fit: ") as refused:
        gpus.fit(*chosen(*policy))
    assert "kl.measured" not in str(refused.value)


def test_without_a_gpu_nothing_is_fitted() -> None:
    training, arguments = chosen()
    assert gpus.smallest_gpu() is None
    assert gpus.fit(training, arguments) == (training, None)
