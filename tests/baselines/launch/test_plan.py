"""Assignment of GPUs, and commands that accelerate and vLLM accept."""

import json
import os
import re
import shlex
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from accelerate.commands import launch
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env

import baselines
from baselines.launch import fleet
from baselines.launch import plan as plans
from baselines.launch.plan import (
    DEVICES,
    GpuPlan,
    plan_gpus,
    server_command,
    trainer_command,
    without_own,
)
from baselines.training.checkpoints import TrainingState
from benchmark.cli.main import main, parse
from benchmark.cli.training import train as train_command
from benchmark.cli.training.gpus import _server_options, as_trainer
from benchmark.cli.training.train import _open_run
from benchmark.engines.core.names import FLASHINFER_SAMPLER
from benchmark.files import lock_folder
from tasks.errors import UserError

EIGHT = tuple("01234567")
SMALL = ["train", "--recipe", "grpo", "--init", "tiny-sokoban"]
WORDS = ["train", "--recipe", "sampo", "--init", "CKPT", "--gpus", "8", "--scale=paper"]


@pytest.mark.parametrize(
    ("count", "serving", "plan"),
    [
        (1, None, GpuPlan((), ("0",))),
        (2, None, GpuPlan(("1",), ("0",))),
        (8, None, GpuPlan(("6", "7"), tuple("012345"))),
        (4, 2, GpuPlan(("2", "3"), ("0", "1"))),
        (4, 0, GpuPlan((), tuple("0123"))),
    ],
)
def test_gpus_are_dealt_out(count: int, serving: int | None, plan: GpuPlan) -> None:
    assert plan_gpus(count, serving, EIGHT) == plan


@pytest.mark.parametrize(
    ("count", "serving", "said"),
    [
        (9, None, "--gpus 9: this machine has 8 NVIDIA GPUs"),
        (4, 4, "--serve-gpus 4: of 4 GPUs, at most 3 can serve"),
        (1, 1, "--serve-gpus needs --gpus 2 or more"),
    ],
)
def test_gpus_that_are_not_there(count: int, serving: int | None, said: str) -> None:
    with pytest.raises(UserError, match=said):
        plan_gpus(count, serving, EIGHT)


def test_accelerate_takes_the_trainers_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A user's own accelerate configuration must change nothing.
    own = {"gpu_ids": "0,1", "num_machines": 4, "mixed_precision": "fp16", "debug": True}
    own |= {"compute_environment": "LOCAL_MACHINE", "distributed_type": "FSDP", "use_cpu": True}
    own["fsdp_config"] = {"fsdp_offload_params": True, "fsdp_activation_checkpointing": True}
    (tmp_path / "default_config.yaml").write_text(json.dumps(own))
    monkeypatch.setattr(launch, "default_config_file", str(tmp_path / "default_config.yaml"))
    for name in [name for name in os.environ if name.startswith(("FSDP_", "ACCELERATE_"))]:
        monkeypatch.delenv(name)
    plan = plan_gpus(8, None, EIGHT)
    addresses = ["http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"]
    made = trainer_command(plan, WORDS, addresses, "ckpt", Path("/dev/shm/weights"))
    assert made.words[1:3] == ("-m", "baselines.launch.together")
    assert made.environment[DEVICES] == "0,1,2,3,4,5"
    parsed, _, _ = _validate_launch_command(launch_command_parser().parse_args(made.words[3:]))
    assert (parsed.use_fsdp, parsed.num_processes, parsed.module) == (True, 6, True)
    assert parsed.training_script == "benchmark.cli"
    environment = prepare_multi_gpu_env(parsed)
    assert environment["FSDP_VERSION"] == "2" and environment["ACCELERATE_USE_FSDP"] == "true"
    assert "CUDA_VISIBLE_DEVICES" not in environment or environment[DEVICES] == os.environ[DEVICES]
    assert environment["FSDP_OFFLOAD_PARAMS"] == "false"
    assert environment["FSDP_ACTIVATION_CHECKPOINTING"] == "false"
    assert environment["FSDP_AUTO_WRAP_POLICY"] == "TRANSFORMER_BASED_WRAP"
    assert (parsed.num_machines, environment["ACCELERATE_MIXED_PRECISION"]) == (1, "no")
    assert parsed.nproc_per_node == "6"
    # The launcher runs our own command, with the servers as arguments.
    train = parse(parsed.training_script_args)
    assert (train.command, train.scale, train.gpus) == ("train", "paper", None)
    assert train.endpoint == addresses and train.served_model == "ckpt"


def test_without_servers_every_process_plays_and_keeps_the_options_of_vllm() -> None:
    words = [*WORDS, "--serve-gpus", "0", "--gpu-memory-utilization", "0.3"]
    made = trainer_command(plan_gpus(8, 0, EIGHT), words, [], "ckpt", Path("unused"))
    assert made.environment[DEVICES] == "0,1,2,3,4,5,6,7"
    parsed, _, _ = _validate_launch_command(launch_command_parser().parse_args(made.words[3:]))
    assert parsed.num_processes == 8
    train = parse(parsed.training_script_args)
    assert (train.engine, train.sleep, train.gpu_memory_utilization) == ("vllm", True, 0.3)
    assert not train.endpoint and train.weights_folder is None and train.gpus is None


def test_weights_go_by_nccl_where_that_is_asked_for() -> None:
    words = [*WORDS, "--weights-nccl", "127.0.0.1:5000"]
    made = trainer_command(plan_gpus(8, None, EIGHT), words, ["http://x"], "ckpt", None)
    train = parse(list(made.words[made.words.index("benchmark.cli") + 1 :]))
    assert (train.weights_nccl, train.weights_folder) == ("127.0.0.1:5000", None)


def test_one_training_gpu_needs_no_launcher() -> None:
    made = trainer_command(plan_gpus(2, None, EIGHT), WORDS, ["http://x"], "ckpt", Path("w"))
    assert made.words[1:4] == ("-m", "benchmark.cli", "train") and "--gpus" not in made.words


def test_options_of_the_plan_and_of_vllm_stay_behind() -> None:
    words = [
        "train",
        "--engine",
        "vllm",
        "--dtype=auto",
        "--gpus",
        "2",
        "--seed",
        "1",
        "--max-model-len",
        "99",
    ]
    assert without_own([*words, "--dry-run"]) == ["train", "--seed", "1"]


@pytest.mark.vllm
@pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed")
def test_vllm_takes_the_servers_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FLASHINFER_SAMPLER, raising=False)
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    options = {"gpu_memory_utilization": 0.8, "max_model_len": 4096, "enforce_eager": True}
    made = server_command(Path("folder"), "ckpt", 8006, "6", options)
    assert made.words[1:3] == ("-m", "vllm.entrypoints.openai.api_server")
    assert made.environment == {
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        FLASHINFER_SAMPLER: "0",
        DEVICES: "6",
    }
    monkeypatch.setenv(FLASHINFER_SAMPLER, "1")
    assert (
        server_command(Path("folder"), "ckpt", 8006, None, {}).environment[FLASHINFER_SAMPLER]
        == "1"
    )
    parser: Any = make_arg_parser(FlexibleArgumentParser())
    parsed = parser.parse_args(made.words[3:])
    assert (parsed.model, parsed.served_model_name, parsed.port) == ("folder", ["ckpt"], 8006)
    assert (parsed.host, parsed.max_model_len, parsed.enforce_eager) == ("127.0.0.1", 4096, True)
    assert parsed.gpu_memory_utilization == 0.8


def test_a_folder_of_the_users_stays_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*SMALL, "--gpus", "2", "--weights-folder", "MINE", "--out", str(tmp_path / "run")]
    monkeypatch.setattr(plans, "visible_gpus", lambda: ("0", "1"))
    started: list[Any] = []

    def run_fleet(*given: Any) -> int:
        started.extend(given)
        return 0

    monkeypatch.setattr(fleet, "run_fleet", run_fleet)
    assert main(words) == 0
    _, trainer, _, exchange = started
    assert trainer.words.count("--weights-folder") == 1 and exchange is None
    train = parse(list(trainer.words[trainer.words.index("benchmark.cli") + 1 :]))
    assert train.weights_folder == "MINE"


REFUSED: dict[str, tuple[str, ...]] = {
    "servers have one set of weights": ("--gpus", "8", "--recipe", "agentrl"),
    "cross-policy sampling, which needs two": (
        *("--gpus", "8", "--serve-gpus", "0", "--recipe", "agentrl"),
    ),
    "only one engine per process sleep": (
        "--gpus",
        "1",
        "--sleep",
        "--recipe",
        "agentrl",
    ),
    "plays while the policy learns": ("--gpus", "1", "--sleep", "--async-rollouts"),
    "--weights-nccl takes HOST:PORT": ("--gpus", "8", "--weights-nccl", "foo"),
    "use --weights-folder or --weights-nccl, not both": (
        *("--gpus", "8", "--weights-nccl", "localhost:5000", "--weights-folder", "W"),
    ),
    "--sleep has no effect with a server": ("--gpus", "8", "--sleep"),
    "leave out --tensor-parallel-size": ("--gpus", "1", "--tensor-parallel-size", "2"),
    "--weights-folder has no effect without --endpoint": ("--gpus", "1", "--weights-folder", "W"),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_the_trainer_would_refuse_is_refused_before_anything_starts(
    said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*SMALL, "--out", str(tmp_path / "run"), *REFUSED[said], "--dry-run"]
    assert main(words) == 2
    assert said in capsys.readouterr().err


def test_a_folder_with_another_run_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    words = [*SMALL, "--out", str(folder), "--gpus", "8", "--dry-run"]
    folder.mkdir()
    lock = lock_folder(folder)
    assert main(words) == 2
    assert f"{folder} is in use by another process" in capsys.readouterr().err
    os.close(lock)
    run = _open_run(as_trainer(parse(words), plan_gpus(8, None, EIGHT)))[0]
    state = folder / "last/state"
    state.mkdir(parents=True)

    def saved(configuration: str) -> None:
        facts = asdict(TrainingState(1, 1, 0, 0.0, None, (0, 0), 0, 0.0, configuration))
        (state / "training_state.json").write_text(json.dumps(facts))

    saved("another")
    assert main(words) == 2
    assert f"{folder} has a run with another configuration" in capsys.readouterr().err
    saved(run.sha256)
    assert main(words) == 2
    assert "was written without FSDP, and this run is with FSDP" in capsys.readouterr().err
    (state / "optimizer_0").mkdir()
    (state / "optimizer_0/.metadata").touch()
    assert main([*words[:-2], "1", "--dry-run"]) == 2
    assert "was written with FSDP, and this run is without FSDP" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    "own",
    [
        ("--gpus", "8", "--serve-gpus", "0", "--gpu-memory-utilization", "0.3"),
        ("--gpus", "8", "--gpu-memory-utilization", "0.3"),
        ("--gpus", "1", "--gpu-memory-utilization", "0.3"),
    ],
)
def test_a_dry_run_needs_no_gpu(
    own: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_command, "_dry_run", lambda *given: pytest.fail("loads weights"))
    assert main([*SMALL, *own, "--dry-run"]) == 0
    said = capsys.readouterr().out
    # As on a GPU, where the engine is separate from the trainer.
    assert "tis_cap: 2" in said and "it needs GPUs of at least" in said
    assert ("with 30% of each for vLLM" in said) is ("--serve-gpus" in own or "1" in own)


@pytest.mark.slow
def test_the_command_line_refuses_and_plans(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--recipe", "grpo", "--init", "tiny-sokoban", "--out", str(tmp_path / "run")]
    assert main([*words, "--gpus", "8"]) == 2
    assert "--gpus 8: this machine has 0 NVIDIA GPUs" in capsys.readouterr().err
    assert main([*words, "--gpus", "2", "--endpoint", "http://x"]) == 2
    assert "leave out --engine and --endpoint" in capsys.readouterr().err
    assert main([*words, "--gpus", "8", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "6 processes" in said and said.count("vllm.entrypoints.openai.api_server") == 2
    assert "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5" in said and "baselines.launch.together" in said
    assert not (tmp_path / "run").exists()
    everywhere = [*words, "--gpus", "8", "--serve-gpus", "0"]
    assert main([*everywhere, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "8 processes" in said and "api_server" not in said and "--engine vllm --sleep" in said
    assert main([*everywhere, "--async-rollouts", "--dry-run"]) == 2
    assert "its GPU trains and samples in turns" in capsys.readouterr().err
    sent = ["--weights-nccl", "localhost:5000", "--dry-run"]
    for unserved in ([*everywhere, *sent], [*words, "--engine", "transformers", *sent]):
        assert main(unserved) == 2
        assert "--weights-nccl has no effect without --endpoint" in capsys.readouterr().err


def test_the_guide_to_several_machines_is_what_accelerate_and_train_take(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = Path(baselines.__file__).parent
    monkeypatch.chdir(folder.parent)
    guide = (folder / "gpus.md").read_text("utf-8")
    # Otherwise torch's launcher kills the trainer before its last checkpoint.
    head = r"^ *TORCH_ELASTIC_SHUTDOWN_TIMEOUT=1800 accelerate launch "
    (command,) = re.findall(head + r"(--config_file.*?)^ *```", guide, re.M | re.S)
    words = shlex.split(command.replace("\\\n", " "))
    parsed, _, _ = _validate_launch_command(launch_command_parser().parse_args(words))
    assert (parsed.num_machines, parsed.machine_rank, parsed.num_processes) == (2, 0, 16)
    assert (parsed.main_process_ip, parsed.main_process_port) == ("HOST", 29500)
    # Our servers get the same NCCL options as servers started by hand.
    chosen = [*SMALL, "--gpus", "8", "--weights-nccl", "localhost:5000"]
    arguments = parse(chosen)
    run = _open_run(as_trainer(arguments, plan_gpus(8, None, EIGHT)))[0]
    (by_hand,) = re.findall(r"--weight-transfer-config '(.*?)'", guide)
    ours = _server_options(run, arguments)["weight_transfer_config"]
    assert json.loads(by_hand) == json.loads(ours)
    assert parsed.module and parsed.training_script == "benchmark.cli"
    made = prepare_multi_gpu_env(parsed)
    assert (made["ACCELERATE_USE_FSDP"], made["FSDP_VERSION"]) == ("true", "2")
    assert made["FSDP_AUTO_WRAP_POLICY"] == "TRANSFORMER_BASED_WRAP"
    train = parse(parsed.training_script_args)
    assert train.endpoint == [
        f"http://SERVER:{port}/v1" for port in re.findall("--port (.*) &", guide)
    ]
    assert len(train.endpoint) == 2 and train.weights_folder == "FOLDER"
