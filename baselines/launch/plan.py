"""Which GPUs serve and which train, and the commands that make them do it."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tasks.errors import UserError

DEVICES: Final = "CUDA_VISIBLE_DEVICES"
_SERVED: Final = 4
"""GPUs of which one serves, without another choice."""
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a file system, not a file
_STOP_SECONDS: Final = 1800
"""That a trainer may take for its last checkpoint before torch's launcher kills it."""
_OWN: Final = (*("--gpus", "--serve-gpus", "--engine"),)
"""Options that are not the trainer's, but of the plan."""
_ACCELERATE: Final = Path(__file__).with_name("accelerate.yaml")
_NCCL: Final = "--weights-nccl"
_SERVERS: Final = (
    *("--dtype", "--gpu-memory-utilization", "--max-model-len", "--tensor-parallel-size"),
)
"""Options of vLLM, which are not the trainer's where servers have them."""


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """Who does what.

    Attributes:
        serving: GPUs with a vLLM server each, as `CUDA_VISIBLE_DEVICES` names them.
        training: GPUs with a process of the trainer each.
    """

    serving: tuple[str, ...]
    training: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A program to be started.

    Attributes:
        words: Its command line.
        environment: What it has beside this process's environment.
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
    """Deal GPUs out.

    Args:
        count: GPUs of the run.
        serving: Of them, those that serve; None for a quarter, and one at least; 0 for vLLM in
            every process of the trainer.
        visible: GPUs that are there.

    Returns:
        With one GPU, nothing serves: vLLM runs beside the trainer.

    Raises:
        UserError: There are fewer, or none would be left for training.
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
    """A vLLM server that takes new weights; only this machine reaches it.

    Args:
        model: Folder of the model.
        name: That it is served under.
        port: Free.
        gpu: As `CUDA_VISIBLE_DEVICES` names it; None on a CPU.
        options: Further options of vLLM; True for those without a value.
    """
    words = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--served-model-name", name),
        *("--host", "127.0.0.1", "--port", str(port), "--disable-uvicorn-access-log"),
    ]
    for option, value in options.items():
        words += [f"--{option.replace('_', '-')}", *([] if value is True else [str(value)])]
    environment = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1"}
    return Command(tuple(words), environment | ({} if gpu is None else {DEVICES: gpu}))


def trainer_command(
    plan: GpuPlan, words: Sequence[str], endpoints: Sequence[str], model: str, exchange: Path
) -> Command:
    """The trainer's processes, by accelerate's launcher with FSDP2 where there are several.

    Args:
        plan: From `plan_gpus`.
        words: Of the `train` command that is run.
        endpoints: Addresses of the servers; where there are none, each process has an engine,
            whose memory is free while it learns.
        model: Name that they serve.
        exchange: Folder through which they get new weights.
    """
    train = ["-m", "benchmark.cli", *without_own(words, bool(plan.serving))]
    if plan.serving:
        train += ["--served-model", model]
        train += [part for address in endpoints for part in ("--endpoint", address)]
        if not by_nccl(train):
            train += ["--weights-folder", str(exchange)]
    else:
        train += ["--engine", "vllm", *([] if "--sleep" in train else ["--sleep"])]
    environment = {DEVICES: ",".join(plan.training)}
    count = len(plan.training)
    if count == 1:
        return Command((sys.executable, *train), environment)
    launcher = [
        *(sys.executable, "-m", "baselines.launch.together"),
        *("--config_file", str(_ACCELERATE), "--num_processes", str(count)),
    ]
    environment["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] = str(_STOP_SECONDS)
    return Command((*launcher, *train), environment)


def by_nccl(words: Sequence[str]) -> bool:
    """Whether a `train` command asks for weights to be sent by NCCL."""
    return any(word == _NCCL or word.startswith(f"{_NCCL}=") for word in words)


def without_own(words: Sequence[str], served: bool = True) -> list[str]:
    """A command line without the options that are not the trainer's.

    Args:
        words: The command line.
        served: There are servers, which have the options of vLLM.
    """
    own = (*_OWN, *_SERVERS) if served else _OWN
    # What a dry run shows is what a run starts.
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


def exchange_folder(model: Path, run: Path) -> Path:
    """Where weights go on their way to the servers: in memory, if it has room for two of them.

    Args:
        model: Folder of the init.
        run: The run's folder, which may be on a slow disk.
    """
    # In float32, if they are stored in two bytes.
    size = 2 * sum(file.stat().st_size for file in model.glob("*.safetensors"))
    if _SHARED_MEMORY.is_dir() and shutil.disk_usage(_SHARED_MEMORY).free > 2 * size:
        return _SHARED_MEMORY / f"arlarena-weights-{os.getpid()}"
    return run / "weights"
