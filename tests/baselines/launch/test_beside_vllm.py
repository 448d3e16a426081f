"""Doctor, and two trainer processes, with a real vLLM server."""

import json
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from baselines.launch.fleet import reserved_ports, run_fleet
from baselines.launch.plan import Command
from benchmark.logs.training_log import LOG, read_training_log
from tests.support.training.beside_vllm import trainer_beside, vllm_server

ASYNCHRONOUS = "--async-rollouts"
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"),
]


def test_doctor_and_two_processes_of_the_trainer_use_a_vllm_server(tmp_path: Path) -> None:
    """A server takes a minute to start, so that all use one, as its only clients."""
    with reserved_ports(1) as (port,):
        use_server(tmp_path, vllm_server(port))


def use_server(tmp_path: Path, server: tuple[Command, str]) -> None:
    exchange = tmp_path / "weights"
    waits, overlaps, page = tmp_path / "waits", tmp_path / "overlaps", tmp_path / "doctor.json"
    words = ["doctor", "--endpoint", f"{server[1]}/v1", "--served-model", "ckpt", "--json"]
    doctor = shlex.join([sys.executable, "-m", "benchmark.cli", *words])
    trainers = [
        trainer_beside(server[1], waits, ["optimization.updates=2"], exchange),
        trainer_beside(server[1], overlaps, ["optimization.updates=3"], exchange, ASYNCHRONOUS),
    ]
    script = [f"{doctor} > {shlex.quote(str(page))}", *(shlex.join(one.words) for one in trainers)]
    all_of_it = Command(("sh", "-c", " && ".join(script)), trainers[0].environment)
    assert run_fleet([server], all_of_it, tmp_path / "logs", exchange) == 0
    assert not exchange.exists()
    check_page(json.loads(page.read_bytes()))
    for run in (waits, overlaps):
        log = read_training_log(run / LOG)
        assert log.start.engine["server"] == "vllm"
        # After a weight sync through the folder, the trainer's log-probabilities match the
        # engine's.
        assert all((line.values.get("engine/k3") or 0) < 1e-6 for line in log.updates)
        assert (log.updates[0].values["kl_init/mean"] or 0) < 1e-9
        assert (run / "last/model.safetensors").is_file()
    ages = [line.values["staleness/max"] for line in read_training_log(waits / LOG).updates]
    assert ages == [0, 0]
    ages = [line.values["staleness/max"] for line in read_training_log(overlaps / LOG).updates]
    assert ages[0] == 0 and max(ages[1:]) == 1  # the limit of --async-rollouts


def check_page(page: dict[str, Any]) -> None:
    """Check doctor's report on a vLLM server without problems."""
    assert page["problems"] == [] and page["smoke"]["engine"]["server"] == "vllm"
    # vLLM's own checker fuses tensors, and on CPUs twelve matrices are packed.
    given = page["smoke"]["weight_sync"]
    assert (given["tensors"], given["seen"]) == (26, 14)
    assert len(page["smoke"]["updates"]) == 2
