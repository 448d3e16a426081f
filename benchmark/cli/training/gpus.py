"""`arlarena-bench train --gpus N`: servers and trainer on the GPUs of one machine."""

import argparse
import os
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import yaml

from benchmark.cli.say import say
from benchmark.cli.training.engines import engine_options, has_gpu
from tasks.errors import UserError

if TYPE_CHECKING:
    from baselines.config.run import TrainingRun
    from baselines.launch.plan import GpuPlan

_ASLEEP: Final = 2.0
"""GiB that a sleeping vLLM may keep: its context, its graphs."""


def check_gpus(arguments: argparse.Namespace) -> int:
    """The GPUs of the run; they are there, and nothing else is asked for.

    Raises:
        UserError: There are fewer, or another option contradicts.
    """
    if "WORLD_SIZE" in os.environ:
        raise UserError("--gpus starts the processes itself: leave the launcher out, or --gpus")
    if arguments.endpoint or arguments.engine not in ("auto", "vllm"):
        raise UserError("--gpus starts vLLM itself: leave out --engine and --endpoint")
    if arguments.tensor_parallel_size and arguments.gpus > 1:
        raise UserError(
            "--gpus starts one server on each serving GPU: leave out --tensor-parallel-size, or "
            "start servers yourself and name them with --endpoint"
        )
    if arguments.serve_gpus == 0 and arguments.async_rollouts is not None:
        raise UserError(
            "--serve-gpus 0: every GPU plays and learns in turns, so --async-rollouts has no effect"
        )
    _plan(arguments)
    return int(arguments.gpus)


def _plan(arguments: argparse.Namespace) -> "GpuPlan":
    from baselines.launch.plan import plan_gpus, visible_gpus

    # What a run would cost can be asked on any machine.
    names = tuple(map(str, range(arguments.gpus))) if arguments.dry_run else visible_gpus()
    return plan_gpus(arguments.gpus, arguments.serve_gpus, names)


def launch(training: "TrainingRun", arguments: argparse.Namespace) -> int:
    """Run servers and trainer; with --dry-run, show what would be started."""
    from baselines.launch.fleet import free_ports, run_fleet
    from baselines.launch.plan import exchange_folder, server_command, trainer_command

    plan = _plan(arguments)
    assert training.init.path is not None
    folder, name = training.init.path.absolute(), training.init.identity.name
    ports = free_ports(len(plan.serving))
    options = _server_options(training, arguments)
    servers = [
        (server_command(folder, name, port, gpu, options), f"http://127.0.0.1:{port}")
        for gpu, port in zip(plan.serving, ports, strict=True)
    ]
    exchange = exchange_folder(folder, training.folder)
    addresses = [f"{address}/v1" for _, address in servers]
    trainer = trainer_command(plan, arguments.words, addresses, name, exchange)
    if arguments.dry_run:
        return _show(training, plan, [*(command for command, _ in servers), trainer])
    return run_fleet(servers, trainer, training.folder / "servers", exchange)


def _server_options(training: "TrainingRun", arguments: argparse.Namespace) -> dict[str, Any]:
    """What is chosen of vLLM; by default, the context that an episode can need."""
    from baselines.rollouts.rows import longest_row
    from benchmark.engines.vllm.build import needed_context

    assert training.init.path is not None
    chosen = {
        "dtype": None if arguments.dtype == "auto" else arguments.dtype,
        "gpu_memory_utilization": arguments.gpu_memory_utilization,
        "max_model_len": arguments.max_model_len,
    }
    if arguments.weights_nccl is not None:
        chosen["weight_transfer_config"] = '{"backend": "nccl"}'
    needed = needed_context(training.init.path, longest_row(training.config, training.tasks))
    return needed | {option: value for option, value in chosen.items() if value is not None}


def _show(training: "TrainingRun", plan: "GpuPlan", commands: Any) -> int:
    """Print the configuration, the memory of a training GPU, and what would be started."""
    from baselines.training.dry_run import computed

    say(yaml.safe_dump(training.configuration, sort_keys=False))
    count = len(plan.training)
    say(computed(training, count, count > 1, everywhere=not plan.serving))
    for command in commands:
        variables = [f"{name}={shlex.quote(value)}" for name, value in command.environment.items()]
        say("\n" + " ".join([*variables, shlex.join(command.words)]))
    return 0


def fit(training: "TrainingRun", arguments: argparse.Namespace) -> "tuple[TrainingRun, str | None]":
    """Make micro-batches smaller where a GPU has too little memory; no result depends on them.

    Args:
        training: The run.
        arguments: Of the command. A size that the user has chosen stays.

    Returns:
        The run, and what is to be said of it.
    """
    from baselines.training.dry_run import fitting

    room = gpu_room(training, arguments)
    chosen = training.config.optimization.micro_batch_tokens
    if room is None or any("micro_batch_tokens=" in text for text in arguments.set):
        return training, None
    count = int(os.environ.get("WORLD_SIZE", "1"))
    sharded = os.environ.get("ACCELERATE_USE_FSDP") == "true" and count > 1
    tokens, peak = fitting(training, count, sharded, not arguments.endpoint, room)
    said = None
    if peak > room:
        said = (
            f"computed: this run needs {peak:.1f} GiB of each GPU, and {room:.1f} GiB are there "
            "beside the engine: use more GPUs, optimization.lora.rank=32 or "
            "optimization.optimizer=adamw_8bit (--dry-run shows the parts)"
        )
    elif tokens != chosen:
        said = (
            f"optimization.micro_batch_tokens={tokens}: computed to need {peak:.1f} of "
            f"{room:.1f} GiB, and {chosen} does not fit; results do not depend on it"
        )
    optimization = training.config.optimization.model_copy(update={"micro_batch_tokens": tokens})
    config = training.config.model_copy(update={"optimization": optimization})
    return replace(training, config=config), said


def gpu_room(training: "TrainingRun", arguments: argparse.Namespace) -> float | None:
    """GiB of each GPU that the trainer may have; None without a GPU."""
    if not has_gpu():
        return None
    import torch

    options = engine_options(training, arguments)
    whole = min(
        torch.cuda.get_device_properties(number).total_memory / 2**30
        for number in range(torch.cuda.device_count())
    )
    if arguments.sleep:
        return whole - _ASLEEP
    return whole * (1 - (options.gpu_memory_utilization or 0.0))
