"""Which GPUs serve and which train, and the commands that make them do it."""

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
"""GPUs of which one serves, without another choice."""
STOP_SECONDS: Final = 1800
"""That a trainer may take for its last checkpoint before it is killed."""
_OWN: Final = (*("--gpus", "--serve-gpus", "--engine"),)
"""Options that are not the trainer's, but of the plan."""
_ACCELERATE: Final = Path(__file__).with_name("accelerate.yaml")
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
        words: Of the `train` command that is run.
        endpoints: Addresses of the servers; where there are none, each process has an engine,
            whose memory is free while it learns if there are several.
    """
    train = without_own(words, bool(plan.serving))
    if plan.serving:
        return [*train, *(part for address in endpoints for part in ("--endpoint", address))]
    sleeps = len(plan.training) > 1 and "--sleep" not in train
    return [*train, "--engine", "vllm", *(["--sleep"] if sleeps else [])]


def trainer_command(
    plan: GpuPlan, words: Sequence[str], endpoints: Sequence[str], model: str, exchange: Path | None
) -> Command:
    """The trainer's processes, by accelerate's launcher with FSDP2 where there are several.

    Args:
        plan: See `train_words`.
        words: Likewise.
        endpoints: Likewise.
        model: Name that the servers serve.
        exchange: Folder through which they get new weights; None if the user has chosen how.
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


def killed_text(what: str, number: int) -> str:
    """A line that says by which signal a process was ended, and what to do."""
    return (
        f"error: {what} was ended by {signal.Signals(number).name} (out of host memory? see the "
        "system's log); run the same command again to resume from the last checkpoint\n"
    )
