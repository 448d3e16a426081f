"""Engines of `arlarena-bench train`: which one samples, and how it gets new weights."""

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from benchmark.engines.choose import EngineOptions, build_engine, choose_kind
from benchmark.engines.core.base import ChatOptions, Engine
from benchmark.engines.core.chat import Chat
from tasks.errors import UserError

if TYPE_CHECKING:
    from accelerate import Accelerator

    from baselines.config.run import TrainingRun
    from benchmark.engines.server.weight_transfer import WeightTransfer

TIS_CAP = 2.0
"""Of truncated importance weights, where the engine is not the trainer's own."""
ENGINE_SHARE = 0.4
"""Of a GPU's memory, that vLLM takes where a policy is trained on the same GPU."""
IN_STEP: Final = {"async_scheduling": False}
"""For vLLM whose weights change while requests run; see `VllmEngine._replace_weights`."""


def engine_options(training: "TrainingRun", arguments: argparse.Namespace) -> EngineOptions:
    """What is chosen of the engine, with what a run and its processes say of it.

    Raises:
        UserError: The options contradict each other.
    """
    from baselines.rollouts.rows import longest_row

    rollout = training.config.rollout
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    alone = arguments.engine == "auto" and not arguments.endpoint and several
    # In-process vLLM in several processes has never run on GPUs: it must be asked for.
    bare = EngineOptions("transformers" if alone else arguments.engine, tuple(arguments.endpoint))
    share = arguments.gpu_memory_utilization
    if share is None and has_gpu() and choose_kind(bare) == "vllm":
        share = ENGINE_SHARE
    asynchronous = rollout.max_staleness is not None
    in_step = asynchronous and choose_kind(bare) == "vllm"
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
        model_args=IN_STEP if in_step else {},
    )


def has_gpu() -> bool:
    """Whether torch sees a GPU."""
    import torch

    return torch.cuda.is_available()


def corrects_by_default(training: "TrainingRun", kind: str, own: Sequence[str]) -> bool:
    """Whether tokens are weighted by trainer over engine although nobody has chosen.

    So it is where the engine is not the trainer's own or its weights are older, and
    log-probabilities are known at the rollout's temperature.

    Args:
        training: The run.
        kind: Of its engine.
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
    """In what the engine gets weights: half the bytes where vLLM rounds them all the same.

    Raises:
        UserError: It is chosen for an engine that takes them as they are.
    """
    chosen: Literal["float32", "bfloat16"] | None = arguments.weights_dtype
    if kind == "transformers":
        if chosen is not None:
            raise UserError("--weights-dtype is for vLLM; the transformers engine needs no copy")
        return "float32"
    narrow = training.config.optimization.mixed_precision == "bf16"
    return chosen or ("bfloat16" if narrow else "float32")


def has_engine(
    training: "TrainingRun", arguments: argparse.Namespace, accelerator: "Accelerator"
) -> bool:
    """Whether this process has an engine; servers are asked by the main process for all.

    Raises:
        UserError: The engine does not go with several processes.
    """
    kind = choose_kind(engine_options(training, arguments))
    if accelerator.num_processes == 1 or kind == "transformers":
        return True
    if kind != "vllm":
        return bool(accelerator.is_main_process)
    contradiction = None
    if arguments.tensor_parallel_size:
        contradiction = "--tensor-parallel-size: each process has an engine of its own"
    elif training.config.sampling.cross_policy is not None:
        contradiction = "cross-policy sampling, which needs two engines"
    elif training.config.rollout.max_staleness is not None:
        contradiction = "--async-rollouts: its GPU learns and plays in turns"
    if contradiction is not None:
        raise UserError(
            f"in-process vLLM in several training processes does not go with {contradiction}; "
            "use vLLM servers (--endpoint URL) or --engine transformers"
        )
    return True


def make_engine(training: "TrainingRun", arguments: argparse.Namespace) -> Engine:
    """The engine of this process; it starts when it is entered.

    Raises:
        UserError: It cannot be used for this run.
    """
    options = engine_options(training, arguments)
    kind = choose_kind(options)
    if kind == "openai":
        return _servers(training, options, arguments)
    check_unserved(arguments)
    return build_engine(kind, options, training.init)


def check_unserved(arguments: argparse.Namespace) -> None:
    """Refuse ways to send weights to servers where a run has none.

    Raises:
        UserError: One is asked for.
    """
    for option in ("weights_folder", "weights_nccl"):
        if getattr(arguments, option) is not None:
            raise UserError(
                f"--{option.replace('_', '-')} is for vLLM servers; engines of the trainer's own "
                "processes get new weights in memory"
            )


def _servers(
    training: "TrainingRun", options: EngineOptions, arguments: argparse.Namespace
) -> Engine:
    """Servers that take new weights from files."""
    from benchmark.engines.server.openai import OpenAIEngine

    if training.config.sampling.cross_policy is not None:
        raise UserError(
            "cross-policy sampling needs a second engine with older weights, but "
            "servers have one set of weights: use --engine vllm or transformers"
        )
    assert training.init.path is not None
    return OpenAIEngine(
        options.endpoints,
        arguments.served_model or training.init.identity.name,
        in_flight=options.concurrency,
        transfer=weight_transfer(training, arguments),
        chat=options.chat,
        text=Chat.load(training.init.path),
    )


def weight_transfer(training: "TrainingRun", arguments: argparse.Namespace) -> "WeightTransfer":
    """How servers come to new weights.

    Raises:
        UserError: The address is none, or two ways are asked for.
    """
    from benchmark.engines.server.weight_transfer import FolderTransfer

    assert training.init.path is not None
    if arguments.weights_nccl is None:
        exchange = Path(arguments.weights_folder or training.folder / "weights").absolute()
        return FolderTransfer(training.init.path, exchange)
    if arguments.weights_folder is not None:
        raise UserError("use --weights-folder or --weights-nccl, not both")
    host, _, port = arguments.weights_nccl.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UserError(
            f"--weights-nccl takes HOST:PORT with a free port, not {arguments.weights_nccl!r}"
        )
    from benchmark.engines.server.nccl_transfer import NcclTransfer

    return NcclTransfer(training.init.path, host, int(port))
