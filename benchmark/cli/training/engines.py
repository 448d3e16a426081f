"""Engines of `arlarena-bench train`: which one samples, and how it gets new weights."""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from benchmark.cli.training.processes import process_count
from benchmark.engines.choose import (
    MAX_BATCH,
    EngineOptions,
    build_engine,
    choose_kind,
    has_gpu,
    request_seconds,
)
from benchmark.engines.core.base import ChatOptions, Engine
from benchmark.engines.core.chat import Chat
from tasks.errors import UserError

if TYPE_CHECKING:
    from accelerate import Accelerator

    from baselines.config.layout import EngineModels
    from baselines.config.run import TrainingRun
    from baselines.config.schema import TrainConfig
    from benchmark.engines.server.weight_transfer import WeightTransfer

TIS_CAP = 2.0
"""Cap of truncated importance weights if the engine is not the trainer's own."""
ENGINE_SHARE = 0.4
"""Share of a GPU's memory that vLLM takes if a policy is trained on the same GPU; two engines
divide it."""
SERVER_SHARE = 0.92
"""The same on a GPU with nothing else: vLLM's own default."""
IN_STEP: Final = {"async_scheduling": False}
"""For vLLM engines whose weights change while requests run; see `VllmEngine._replace_weights`."""
WITHOUT_GRAPHS: Final = {"enforce_eager": True}
"""For two vLLM engines in one process: the second one drops the CUDA graphs of the first when it
starts, which the first cannot capture again while it runs."""


def engine_options(training: "TrainingRun", arguments: argparse.Namespace) -> EngineOptions:
    """The engine options of a run, from the command line and the run itself.

    Raises:
        UserError: The options contradict each other.
    """
    from baselines.rollouts.rows import longest_row

    rollout = training.config.rollout
    alone = arguments.engine == "auto" and not arguments.endpoint and process_count() > 1
    # In-process vLLM in several processes is untested on GPUs, so it must be requested explicitly.
    bare = EngineOptions("transformers" if alone else arguments.engine, tuple(arguments.endpoint))
    share = arguments.gpu_memory_utilization
    if share is None and has_gpu() and choose_kind(bare) == "vllm":
        share = ENGINE_SHARE
    if share is not None:
        share /= engine_count(training)
    asynchronous = rollout.max_staleness is not None
    vllm = choose_kind(bare) == "vllm"
    return replace(
        bare,
        dtype=arguments.dtype,
        concurrency=rollout.concurrency or rollout.groups * rollout.group_size,
        gpu_memory_utilization=share,
        tensor_parallel_size=arguments.tensor_parallel_size,
        max_model_len=arguments.max_model_len,
        response_room=longest_row(training.config, training.tasks),
        chat=ChatOptions(training.config.chat_template_kwargs),
        sleeps=arguments.sleep,
        beside_trainer=True,
        deterministic=not asynchronous,
        model_args={
            **(IN_STEP if vllm and asynchronous else {}),
            **(WITHOUT_GRAPHS if vllm and has_gpu() and engine_count(training) > 1 else {}),
        },
    )


def engine_count(training: "TrainingRun") -> int:
    """Engines per process with engines: cross-policy sampling adds one with older weights."""
    return 1 if training.config.sampling.cross_policy is None else 2


def transformers_models(training: "TrainingRun", dtype: str) -> "EngineModels":
    """The models that the transformers engine keeps besides the policy; vLLM has a share instead.

    Args:
        training: The run.
        dtype: Name of the requested dtype.
    """
    from baselines.config.layout import EngineModels

    rollout = training.config.rollout
    rows = min(rollout.concurrency or rollout.groups * rollout.group_size, MAX_BATCH)
    wide = dtype == "float32" or (dtype == "auto" and not has_gpu())
    return EngineModels(engine_count(training), 4 if wide else 2, rows)


def corrects_by_default(training: "TrainingRun", kind: str, own: Sequence[str]) -> bool:
    """Whether importance weights (trainer over engine) are on by default.

    They are on if the engine is not the trainer's own, or samples while the policy learns, and
    log-probabilities are known at the rollout's temperature. Turns of an older policy that a recipe
    requests (`sampling.cross_policy`) do not turn them on: they are treated as the policy's own.

    Args:
        training: The run.
        kind: Kind of its engine.
        own: The user's settings.
    """
    config = training.config
    if config.tis_cap is not None or any(text.startswith("tis_cap=") for text in own):
        return False
    foreign = kind != "transformers" or config.rollout.max_staleness is not None
    return foreign and config.rollout.temperature == 1.0


def weights_dtype(
    training: "TrainingRun", arguments: argparse.Namespace, kind: str
) -> Literal["float32", "bfloat16"]:
    """Type of the weights sent to the engine: half the bytes if vLLM rounds them anyway.

    Raises:
        UserError: A type is chosen for an engine that needs no copy.
    """
    chosen: Literal["float32", "bfloat16"] | None = arguments.weights_dtype
    if kind == "transformers":
        if chosen is not None:
            raise UserError("--weights-dtype is for vLLM; the transformers engine needs no copy")
        return "float32"
    return chosen or usual_dtype(training.config, kind)


def usual_dtype(config: "TrainConfig", kind: str) -> Literal["float32", "bfloat16"]:
    """Default type of the weights sent to an engine."""
    narrow = config.optimization.mixed_precision == "bf16"
    return "bfloat16" if narrow and kind != "transformers" else "float32"


def check_engine(training: "TrainingRun", arguments: argparse.Namespace, processes: int) -> None:
    """Refuse what the engine cannot do for this run, before anything is loaded or started.

    Args:
        training: The run.
        arguments: The options of the trainer's processes.
        processes: Number of training processes.

    Raises:
        UserError: The run needs something that the engine cannot do.
    """
    kind = choose_kind(engine_options(training, arguments))
    crossing = training.config.sampling.cross_policy is not None
    if kind == "openai":
        if crossing:
            raise UserError(
                "cross-policy sampling needs a second engine with older weights, but servers have "
                "one set of weights: use one GPU (--gpus 1), or --engine vllm or transformers"
            )
        _nccl_address(arguments)
        return
    check_unserved(arguments)
    if kind != "vllm":
        return
    if processes > 1:
        _check_engines_of_processes(training, arguments)
    if not arguments.sleep:
        return
    if crossing:
        raise UserError(
            "--sleep does not work with cross-policy sampling, which needs two engines: vLLM lets "
            "only one engine per process sleep; remove --sleep"
        )
    if training.config.rollout.max_staleness is not None:
        raise UserError(
            "--sleep does not work with asynchronous rollouts: the engine plays while the policy "
            "learns; remove --sleep"
        )


def _check_engines_of_processes(training: "TrainingRun", arguments: argparse.Namespace) -> None:
    """See `check_engine`; for vLLM in each of several processes."""
    said = "in-process vLLM in several training processes does not work with"
    if training.config.sampling.cross_policy is not None:
        raise UserError(
            f"{said} cross-policy sampling, which needs two engines; use one GPU (--gpus 1), or "
            "--engine transformers"
        )
    contradiction = None
    if arguments.tensor_parallel_size:
        contradiction = "--tensor-parallel-size: each process has an engine of its own"
    elif training.config.rollout.max_staleness is not None:
        contradiction = "--async-rollouts: its GPU trains and samples in turns"
    if contradiction is not None:
        raise UserError(
            f"{said} {contradiction}; use vLLM servers (--gpus N without --serve-gpus 0, or "
            "--endpoint URL) or --engine transformers"
        )


def check_unserved(arguments: argparse.Namespace) -> None:
    """Refuse options for servers if a run has none.

    Raises:
        UserError: Such an option is given.
    """
    for option in ("served_model", "weights_folder", "weights_nccl"):
        if getattr(arguments, option) is not None:
            raise UserError(
                f"--{option.replace('_', '-')} has no effect without --endpoint: it is for servers"
            )


def has_engine(
    training: "TrainingRun", arguments: argparse.Namespace, accelerator: "Accelerator"
) -> bool:
    """Whether this process has an engine; only the main process sends requests to servers."""
    kind = choose_kind(engine_options(training, arguments))
    return kind != "openai" or bool(accelerator.is_main_process)


def make_engine(training: "TrainingRun", arguments: argparse.Namespace) -> Engine:
    """Build the engine of this process; it starts on entering its context.

    Args:
        training: The run.
        arguments: The options, checked by `check_engine`.

    Raises:
        UserError: A library is missing, or an engine option is wrong.
    """
    options = engine_options(training, arguments)
    kind = choose_kind(options)
    if kind == "openai":
        return _servers(training, options, arguments)
    return build_engine(kind, options, training.init)


def _servers(
    training: "TrainingRun", options: EngineOptions, arguments: argparse.Namespace
) -> Engine:
    """Connect to servers that receive new weights."""
    from benchmark.engines.server.openai import OpenAIEngine

    assert training.init.path is not None
    # With asynchronous rollouts, each batch in flight is as large as a synchronous one.
    in_flight = options.concurrency * _batches(training)
    longest = training.config.rollout.max_tokens
    return OpenAIEngine(
        options.endpoints,
        arguments.served_model or training.init.identity.name,
        in_flight=in_flight,
        timeout=request_seconds(longest, in_flight, len(options.endpoints)),
        transfer=weight_transfer(training, arguments),
        chat=options.chat,
        text=Chat.load(training.init.path),
    )


def _batches(training: "TrainingRun") -> int:
    """Number of batches of episodes that can be in flight at once."""
    rollout = training.config.rollout
    return 1 if rollout.concurrency else 1 + (rollout.max_staleness or 0)


def weight_transfer(training: "TrainingRun", arguments: argparse.Namespace) -> "WeightTransfer":
    """How servers receive new weights.

    Raises:
        UserError: The address is invalid, or two ways are given.
    """
    from benchmark.engines.server.weight_transfer import FolderTransfer

    assert training.init.path is not None
    address = _nccl_address(arguments)
    if address is None:
        exchange = Path(arguments.weights_folder or training.folder / "weights").absolute()
        return FolderTransfer(training.init.path, exchange)
    from benchmark.engines.server.nccl_transfer import NcclTransfer

    return NcclTransfer(training.init.path, *address)


def _nccl_address(arguments: argparse.Namespace) -> tuple[str, int] | None:
    """Host and port from which weights are sent; None if they are sent through a folder.

    Raises:
        UserError: The address is invalid, or two ways are given.
    """
    if arguments.weights_nccl is None:
        return None
    if arguments.weights_folder is not None:
        raise UserError("use --weights-folder or --weights-nccl, not both")
    host, _, port = arguments.weights_nccl.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UserError(
            f"--weights-nccl takes HOST:PORT with a free port, not {arguments.weights_nccl!r}"
        )
    return host, int(port)
