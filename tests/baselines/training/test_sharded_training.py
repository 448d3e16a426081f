"""`train --gpus N`, by accelerate's FSDP2 on CPUs, compared with a single process."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.state import AcceleratorState
from accelerate.utils.launch import prepare_multi_gpu_env
from safetensors.torch import load_file
from torch import Tensor

from baselines.inits.registry import find_model
from baselines.launch.plan import plan_gpus, trainer_command
from benchmark.cli.main import main
from benchmark.logs.training_log import LOG, read_training_log
from tests.support.training.lora_files import FILE, check_merged
from tests.support.training.ranks import ROOT, end_together, run_together

SCRIPT = Path(__file__).parent / "fsdp_train.py"
SMALL = (
    "rollout.groups=3",
    "rollout.group_size=4",
    "rollout.max_turns=8",
    "optimization.mini_batches=2",
    "optimization.updates=2",
    "validation.every=null",
)

RECOMPUTED = ("optimization.head_chunk=64", "optimization.gradient_checkpointing=true")
LORA = ("optimization.lora.rank=4", "optimization.learning_rate=3e-3")
# One rounding step in bfloat16 is enough for other samples in a second update.
BF16 = ("optimization.mixed_precision=bf16", "optimization.updates=1")


def launcher_environment(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """The environment that accelerate's launcher sets for the processes of `train --gpus 8`."""
    plan = plan_gpus(8, None, tuple("01234567"))
    flags = trainer_command(plan, ["train"], [], "CKPT", Path("weights")).words[3:]
    for name in [name for name in os.environ if name.startswith(("FSDP_", "ACCELERATE_"))]:
        monkeypatch.delenv(name)
    parsed, _, _ = _validate_launch_command(launch_command_parser().parse_args(flags))
    made: dict[str, str] = prepare_multi_gpu_env(parsed)
    return {k: v for k, v in made.items() if k.startswith(("FSDP_", "ACCELERATE_"))}


def arguments(folder: Path, recipe: str, *own: str) -> list[str]:
    words = ["train", "--recipe", recipe, "--init", "tiny-sokoban", "--out", str(folder)]
    settings = [word for setting in (*SMALL, *own) for word in ("--set", setting)]
    return [*words, *settings]


def updates(folder: Path) -> list[dict[str, Any]]:
    return [dict(line.values) for line in read_training_log(folder / LOG).updates]


def check_same_update(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Check that the weights differ from each other far less than from the init."""
    init = find_model("tiny-sokoban").path
    assert init is not None
    before = load_file(init / FILE)
    moved = sum(float((wanted[name] - before[name]).square().sum()) for name in wanted)
    apart = sum(float((wanted[name] - found[name]).square().sum()) for name in wanted)
    assert moved > 0 and apart < 1e-3 * moved


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "own", "tolerance"),
    [
        # As on GPUs: the last layer in chunks, and activation checkpointing.
        ("sampo", [*RECOMPUTED], 1e-4),
        pytest.param("ppo", [], 1e-4),
        pytest.param("sampo", [*RECOMPUTED, *LORA], 1e-4),
        pytest.param("grpo", [*LORA, *BF16], 0.1),
        # Sums of bfloat16 numbers depend on their order.
        pytest.param("grpo", [*RECOMPUTED, *BF16], 0.1),
    ],
)
def test_two_sharded_processes_train_as_one(
    recipe: str, own: list[str], tolerance: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two, one = tmp_path / "two", tmp_path / "one"
    sharded = launcher_environment(monkeypatch)
    assert sharded["FSDP_CPU_RAM_EFFICIENT_LOADING"] == "true"
    run_together(SCRIPT, *arguments(two, recipe, *own), environment=sharded)
    # accelerate's state is global to the process and includes the precision.
    AcceleratorState._reset_state(reset_partial_state=True)
    assert main(arguments(one, recipe, *own)) == 0
    AcceleratorState._reset_state(reset_partial_state=True)
    for alone, together in zip(updates(one), updates(two), strict=True):
        for name in ("rollout/success", "tokens/response", "rollout/uniform_groups"):
            assert together[name] == alone[name]
        for name in ("policy/loss", "policy/grad_norm", "policy/entropy", "kl_init/mean"):
            assert together[name] == pytest.approx(alone[name], rel=tolerance, abs=1e-6)
    alone_weights, weights = (load_file(run / "last" / FILE) for run in (one, two))
    assert set(weights) == set(alone_weights) and "lm_head.weight" not in weights
    if BF16[0] not in own:
        check_same_update(weights, alone_weights)
    if own[-len(LORA) :] == list(LORA):
        # 32 by default, over a rank of 4.
        init = find_model("tiny-sokoban").path
        assert init is not None
        assert check_merged(two / "last", init, 32 / 4) == 7 * 3
    # The init and its reference are identical on every process.
    assert updates(two)[0]["kl_init/mean"] < 1e-6


@pytest.mark.slow
def test_what_accelerate_does_not_shard_is_loaded_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = arguments(tmp_path / "run", "grpo", "optimization.updates=1")
    flags = launcher_environment(monkeypatch)
    ended = end_together(ROOT / "benchmark/cli/__main__.py", *words, environment=flags)
    assert [rank.code for rank in ended] == [0, 0]
    said = [rank.said.count("here every process has the whole model") for rank in ended]
    assert said == [1, 0]
    assert updates(tmp_path / "run")[0]["kl_init/mean"] < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("own", [(), LORA], ids=["whole", "lora"])
def test_a_sharded_run_goes_on_with_more_processes_but_not_unsharded(
    own: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, sharded = tmp_path / "run", launcher_environment(monkeypatch)
    run_together(SCRIPT, *arguments(folder, "grpo", *own), environment=sharded)
    more = arguments(folder, "grpo", *own, "optimization.updates=3")
    assert main(more) != 0
    said = capsys.readouterr().err
    assert "was written with FSDP" in said and "remove" not in said
    run_together(SCRIPT, *more, count=3, environment=sharded)
    assert len(updates(folder)) == 3


@pytest.mark.slow
@pytest.mark.vllm
@pytest.mark.timeout(900)
@pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed")
def test_every_sharded_process_has_a_vllm_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two, one = tmp_path / "two", tmp_path / "one"
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    words = [*RECOMPUTED, "rollout.groups=4"]
    sharded = launcher_environment(monkeypatch)
    beside = [*arguments(two, "grpo", *words), "--engine", "vllm", "--sleep"]
    run_together(SCRIPT, *beside, environment=sharded)
    log = read_training_log(two / LOG)
    assert log.start.engine["kind"] == "vllm" and len(log.updates) == 2
    # Each engine has the full weights, before and after an update.
    for line in log.updates:
        assert (line.values["engine/k3"] or 0) < 1e-9
    AcceleratorState._reset_state(reset_partial_state=True)
    assert main([*arguments(one, "grpo", *words), "--engine", "vllm"]) == 0
    # The result does not depend on which process plays an episode.
    alone, together = updates(one)[0], updates(two)[0]
    for name in ("rollout/success", "tokens/response", "rollout/uniform_groups"):
        assert together[name] == alone[name]
    assert together["policy/grad_norm"] == pytest.approx(alone["policy/grad_norm"], rel=1e-3)
