"""Decides which GPUs serve and which train, and builds the commands."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmark.engines.core.names import FLASHINFER_SAMPLER
from tasks.errors import UserError

DEVICES: Final = "CUDA_VISIBLE_DEVICES"
_SERVED: Final = 4
"""By default, one GPU out of this many serves."""
STOP_SECONDS: Final = 1800
"""Seconds that a trainer has for its last checkpoint before it is killed."""
FAILED_ELSEWHERE: Final = 70
"""Exit code of a process that ends because another one has failed."""
_OWN: Final = (*("--gpus", "--serve-gpus", "--engine"),)
"""Options of the plan that are not passed to the trainer."""
_ACCELERATE: Final = Path(__file__).with_name("accelerate.yaml")
_SERVERS: Final = (
    *("--dtype", "--gpu-memory-utilization", "--max-model-len", "--tensor-parallel-size"),
)
"""vLLM options, which are not passed to the trainer if there are servers."""


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """Roles of the GPUs.

    Attributes:
        serving: GPUs with a vLLM server each, as `CUDA_VISIBLE_DEVICES` names them.
        training: GPUs with a trainer process each.
    """

    serving: tuple[str, ...]
    training: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A program to start.

    Attributes:
        words: Its command line.
        environment: Environment variables in addition to this process's.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


def visible_gpus() -> tuple[str, ...]:
    """The GPUs that this process may use, as `CUDA_VISIBLE_DEVICES` names them."""
    import torch

    count = torch.cuda.device_count()
    named = os.environ.get(DEVICES)
    return tuple(named.split(",")[:count]) if named else tuple(map(str, range(count)))


def plan_gpus(count: int, serving: int | None, visible: Sequence[str]) -> GpuPlan:
    """Assign GPUs to serving and training.

    Args:
        count: Number of GPUs of the run.
        serving: How many of them serve; None for a quarter, but at least one; 0 for vLLM in every
            trainer process.
        visible: The available GPUs.

    Returns:
        The plan. With one GPU there is no server: vLLM runs in the trainer process.

    Raises:
        UserError: There are too few GPUs, or none would be left for training.
    """
    if count > len(visible):
        known = f" ({DEVICES}={os.environ[DEVICES]})" if os.environ.get(DEVICES) else ""
        raise UserError(f"--gpus {count}: this machine has {len(visible)} NVIDIA GPUs{known}")
    if count == 1:
        if serving:
            raise UserError("--serve-gpus needs --gpus 2 or more: one GPU does both")
        return GpuPlan((), tuple(visible[:1]))
    servers = max(count // _SERVED, 1) if serving is None else serving
    if servers >= count:
        raise UserError(f"--serve-gpus {servers}: of {count} GPUs, at most {count - 1} can serve")
    return GpuPlan(tuple(visible[count - servers : count]), tuple(visible[: count - servers]))


def server_command(
    model: Path, name: str, port: int, gpu: str | None, options: Mapping[str, Any]
) -> Command:
    """The command of a vLLM server that accepts new weights; only this machine can reach it.

    Args:
        model: Folder of the model.
        name: Name under which it is served.
        port: A free port.
        gpu: The GPU, as `CUDA_VISIBLE_DEVICES` names it; None on a CPU.
        options: Further vLLM options; True for those without a value.
    """
    words = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--served-model-name", name),
        *("--host", "127.0.0.1", "--port", str(port), "--disable-uvicorn-access-log"),
    ]
    for option, value in options.items():
        words += [f"--{option.replace('_', '-')}", *([] if value is True else [str(value)])]
    environment = {
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        FLASHINFER_SAMPLER: os.environ.get(FLASHINFER_SAMPLER, "0"),
    }
    return Command(tuple(words), environment | ({} if gpu is None else {DEVICES: gpu}))


def train_words(plan: GpuPlan, words: Sequence[str], endpoints: Sequence[str]) -> list[str]:
    """The `train` command of each of the trainer's processes.

    Args:
        plan: From `plan_gpus`.
        words: Command line of the original `train` command.
        endpoints: Addresses of the servers; without any, each process has an engine, which frees
            its memory during learning if there are several processes.
    """
    train = without_own(words, bool(plan.serving))
    if plan.serving:
        return [*train, *(part for address in endpoints for part in ("--endpoint", address))]
    sleeps = len(plan.training) > 1 and "--sleep" not in train
    return [*train, "--engine", "vllm", *(["--sleep"] if sleeps else [])]


def trainer_command(
    plan: GpuPlan, words: Sequence[str], endpoints: Sequence[str], model: str, exchange: Path | None
) -> Command:
    """The command of the trainer; several processes use accelerate's launcher with FSDP2.

    Args:
        plan: See `train_words`.
        words: Likewise.
        endpoints: Likewise.
        model: Name under which the servers serve the model.
        exchange: Folder through which they get new weights; None if the user chose another way.
    """
    train = ["-m", "benchmark.cli", *train_words(plan, words, endpoints)]
    if plan.serving:
        train += ["--served-model", model]
        train += [] if exchange is None else ["--weights-folder", str(exchange)]
    environment = {DEVICES: ",".join(plan.training)}
    count = len(plan.training)
    if count == 1:
        return Command((sys.executable, *train), environment)
    launcher = [
        *(sys.executable, "-m", "baselines.launch.together"),
        *("--config_file", str(_ACCELERATE), "--num_processes", str(count)),
    ]
    environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(STOP_SECONDS)
    return Command((*launcher, *train), environment)


def without_own(words: Sequence[str], served: bool = True) -> list[str]:
    """Remove options that do not belong to the trainer from a command line.

    Args:
        words: The command line.
        served: Whether there are servers, which get the vLLM options.
    """
    own = (*_OWN, *_SERVERS) if served else _OWN
    # A dry run shows exactly what a real run starts.
    words = [word for word in words if word != "--dry-run"]
    left: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in own:
            skip = True
        elif not word.startswith(tuple(f"{name}=" for name in own)):
            left.append(word)
    return left


def killed_text(what: str, number: int) -> str:
    """A line that says which signal killed a process, and what to do."""
    return (
        f"error: {what} was ended by {signal.Signals(number).name} (out of host memory? see the "
        "system's log); run the same command again to resume from the last checkpoint\n"
    )
