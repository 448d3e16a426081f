"""`arlarena-bench train --gpus N`: servers and trainer on the GPUs of one machine."""

import argparse
import os
import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import yaml

from benchmark.cli.say import say
from benchmark.cli.training.engines import (
    ENGINE_SHARE,
    SERVER_SHARE,
    engine_options,
    transformers_models,
)
from benchmark.cli.training.processes import process_count
from benchmark.engines.choose import choose_kind, has_gpu
from tasks.errors import UserError

if TYPE_CHECKING:
    from baselines.config.layout import Layout
    from baselines.config.run import TrainingRun
    from baselines.launch.plan import GpuPlan


def divide(arguments: argparse.Namespace) -> "GpuPlan":
    """Assign the GPUs to serving and training, after checking that this is possible.

    Raises:
        UserError: There are too few GPUs, vLLM is not installed, or another option conflicts.
    """
    from baselines.launch.plan import plan_gpus, visible_gpus
    from benchmark.engines.vllm.build import check_installed

    if "WORLD_SIZE" in os.environ:
        raise UserError("--gpus starts the processes itself: remove the launcher or --gpus")
    if arguments.endpoint or arguments.engine not in ("auto", "vllm"):
        raise UserError("--gpus starts vLLM itself: leave out --engine and --endpoint")
    if arguments.tensor_parallel_size:
        raise UserError(
            "--gpus starts engines on one GPU each: leave out --tensor-parallel-size, or start "
            "servers yourself and pass them with --endpoint"
        )
    if arguments.dry_run:
        # The cost of a run can be estimated on any machine.
        names = tuple(map(str, range(arguments.gpus)))
    else:
        check_installed()
        names = visible_gpus()
    return plan_gpus(arguments.gpus, arguments.serve_gpus, names)


def as_trainer(arguments: argparse.Namespace, plan: "GpuPlan") -> argparse.Namespace:
    """The options of the trainer's processes, independent of this machine.

    The servers' addresses and the folder for new weights are placeholders.
    """
    from baselines.launch.plan import train_words
    from benchmark.cli.main import parse

    addresses = ["http://127.0.0.1/v1"] * len(plan.serving)
    return parse(train_words(plan, arguments.words, addresses))


def launch(training: "TrainingRun", arguments: argparse.Namespace, plan: "GpuPlan") -> int:
    """Run servers and trainer; with --dry-run, show what would be started.

    Args:
        training: The run, after its checks.
        arguments: Options of the command.
        plan: Result of `divide`.
    """
    from baselines.launch.exchange import exchange_folder, sent_bytes
    from baselines.launch.fleet import reserved_ports, run_fleet
    from baselines.launch.plan import server_command, trainer_command

    # The trainer fits its micro-batches itself; this stops a run that cannot fit before servers
    # start.
    fitted, said = fit(training, arguments, plan)
    assert training.init.path is not None
    folder, name = training.init.path.absolute(), training.init.identity.name
    options = _server_options(training, arguments)
    with reserved_ports(len(plan.serving)) as ports:
        servers = [
            (server_command(folder, name, port, gpu, options), f"http://127.0.0.1:{port}")
            for gpu, port in zip(plan.serving, ports, strict=True)
        ]
        exchange = None
        if servers and arguments.weights_folder is None and arguments.weights_nccl is None:
            exchange = exchange_folder(sent_bytes(training), training.folder)
        addresses = [f"{address}/v1" for _, address in servers]
        trainer = trainer_command(plan, arguments.words, addresses, name, exchange)
        if arguments.dry_run:
            if said is not None and fitted is not training:
                say(said, file=sys.stderr)
            return _show(fitted, plan, arguments, [*(command for command, _ in servers), trainer])
        return run_fleet(servers, trainer, training.folder / "servers", exchange)


def _server_options(training: "TrainingRun", arguments: argparse.Namespace) -> dict[str, Any]:
    """The vLLM options; by default, with the context that an episode can need."""
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


def _show(
    training: "TrainingRun", plan: "GpuPlan", arguments: argparse.Namespace, commands: Any
) -> int:
    """Print the configuration, the memory of a training GPU, and the commands."""
    from baselines.training.dry_run import computed
    from baselines.training.fit import verdict

    layout = layout_of(plan, arguments)
    say(yaml.safe_dump(training.configuration, sort_keys=False))
    say(computed(training, layout))
    say(verdict(training, layout, smallest_gpu()))
    for command in commands:
        variables = [f"{name}={shlex.quote(value)}" for name, value in command.environment.items()]
        say("\n" + " ".join([*variables, shlex.join(command.words)]))
    return 0


def fit(
    training: "TrainingRun", arguments: argparse.Namespace, plan: "GpuPlan | None" = None
) -> "tuple[TrainingRun, str | None]":
    """Reduce the micro-batch size if a GPU has too little memory; this does not affect results.

    Args:
        training: The run.
        arguments: Options of the command. A size chosen by the user is kept without a check.
        plan: Roles of the GPUs; None for this process, as it was launched.

    Returns:
        The run, and a message about its fit.

    Raises:
        UserError: No size fits.
    """
    from baselines.training.fit import fit_on

    whole = smallest_gpu()
    chosen = training.config.optimization.micro_batch_tokens
    if whole is None or any("micro_batch_tokens=" in text for text in arguments.set):
        return training, None
    layout = launched(training, arguments) if plan is None else layout_of(plan, arguments)
    found = fit_on(training, layout, whole)
    if not found.fits:
        lack = f"{training.init.identity.name} does not fit: {found.lack}"
        if arguments.dry_run:
            return training, lack
        raise UserError(
            f"{lack}; --dry-run shows the breakdown, and --set "
            f"optimization.micro_batch_tokens={found.tokens} starts the run anyway"
        )
    if found.tokens == chosen:
        return training, None
    said = (
        f"optimization.micro_batch_tokens={found.tokens}: computed to need "
        f"{found.memory.phases['learning']:.1f} of {layout.room(whole, 'learning'):.1f} GiB, and "
        f"{chosen} does not fit; results do not depend on it"
    )
    own = training.config.optimization.model_copy(update={"micro_batch_tokens": found.tokens})
    return replace(training, config=training.config.model_copy(update={"optimization": own})), said


def layout_of(plan: "GpuPlan", arguments: argparse.Namespace) -> "Layout":
    """The layout of a run on the GPUs of a plan; for `train` and `doctor`."""
    from baselines.config.layout import Layout

    count, alone = len(plan.training), not plan.serving
    share = arguments.gpu_memory_utilization or ENGINE_SHARE
    # With several processes that have an engine each, engines always sleep.
    sleeps = alone and (arguments.sleep or count > 1)
    serves = 0.0 if alone else arguments.gpu_memory_utilization or SERVER_SHARE
    return Layout(count, count > 1, alone, share if alone else 0.0, sleeps, serves=serves)


def launched(training: "TrainingRun", arguments: argparse.Namespace) -> "Layout":
    """The layout of the run to which this process belongs."""
    from baselines.config.layout import Layout

    count = process_count()
    sharded = os.environ.get("ACCELERATE_USE_FSDP") == "true" and count > 1
    kind = choose_kind(engine_options(training, arguments))
    if kind == "vllm":
        share = arguments.gpu_memory_utilization or ENGINE_SHARE
        return Layout(count, sharded, True, share, arguments.sleep)
    if kind == "openai":
        return Layout(count, sharded)
    models = transformers_models(training, arguments.dtype)
    return Layout(count, sharded, everywhere=True, models=models)


def smallest_gpu() -> float | None:
    """Memory of the smallest GPU in GiB; None without a GPU."""
    if not has_gpu():
        return None
    import torch

    return min(
        torch.cuda.get_device_properties(number).total_memory / 2**30
        for number in range(torch.cuda.device_count())
    )
