"""Chooses and builds the engine of a run."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmark.engines.core.base import GREEDY, PLAIN_CHAT, ChatOptions, Engine, Sampling
from benchmark.engines.core.names import LOADING, POLICIES
from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.models import ModelSource
from benchmark.versions import has_gpu_vllm
from tasks.errors import UserError

MAX_BATCH = 64
"""Maximum concurrent responses of transformers; its memory grows with their number."""
REQUEST_SECONDS: Final = 600.0
SLOWEST: Final = 5.0
"""A request to a server fails after `REQUEST_SECONDS`, or later if its longest response takes more
time at this many tokens per second."""
AT_ONCE: Final = 256
"""Assumed number of requests that a server runs at once; others wait in its queue, which counts
toward their timeout. vLLM's default limit is 256, or 1,024 on GPUs with 70 GiB or more, but long
responses fill the KV cache before that."""
_NVIDIA: Final = Path("/proc/driver/nvidia/version")
"""Exists if an NVIDIA GPU driver is loaded."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Engine settings of the user.

    Attributes:
        kind: One of `ENGINES` or `POLICIES`, or `auto`.
        endpoints: Base URLs of OpenAI-compatible servers.
        dtype: Data type of weights and activations; `auto` is float32 on a CPU, and on a GPU the
            checkpoint's own type (for transformers, bfloat16 if that is float32).
        concurrency: Episodes in flight; engines with their own batches use it as batch size.
        gpu_memory_utilization: Share of the GPU's memory that vLLM takes.
        tensor_parallel_size: Number of GPUs over which vLLM splits one model.
        max_model_len: Context length of vLLM; None for what responses need.
        deterministic: Transformers: batches depend only on the requests (`WorkerEngine`).
        data_parallel_size: Copies of the model, each on its own devices; None for one.
        batch_invariant: vLLM: results do not depend on the batch composition.
        lora: The argument of `--lora`; the adapter itself is part of the model's source.
        model_args: Further arguments of vLLM's engine.
        response_room: Maximum response tokens after a prompt; None if unknown.
        chat: How messages become prompts and answers become responses.
        sampling: Sampling settings, the maximum over several panels; used to test servers.
        sleeps: vLLM: free memory while nothing is generated.
        beside_trainer: vLLM runs in a trainer's process, which sends it new weights.
    """

    kind: str = "auto"
    endpoints: tuple[str, ...] = ()
    dtype: str = "auto"
    concurrency: int = 64
    gpu_memory_utilization: float | None = None
    tensor_parallel_size: int | None = None
    max_model_len: int | None = None
    deterministic: bool = False
    data_parallel_size: int | None = None
    batch_invariant: bool = False
    lora: str | None = None
    model_args: Mapping[str, Any] = field(default_factory=dict)
    response_room: int | None = None
    chat: ChatOptions = PLAIN_CHAT
    sampling: Sampling = GREEDY
    sleeps: bool = False
    beside_trainer: bool = False


def choose_kind(options: EngineOptions) -> str:
    """Resolve `auto`: endpoints if given, vLLM for GPUs if there is one, else transformers.

    Raises:
        UserError: Endpoints with an engine that does not use them, or vice versa, or an
            option that has no effect with this engine.
    """
    kind = options.kind
    if kind == "auto":
        if options.endpoints:
            kind = "openai"
        else:
            kind = "vllm" if has_gpu_vllm() and has_gpu() else "transformers"
    if bool(options.endpoints) != (kind == "openai"):
        raise UserError(
            "--engine openai needs at least one --endpoint URL"
            if kind == "openai"
            else f"--endpoint does not work with --engine {kind}; remove one of them"
        )
    _refuse_idle_options(kind, options)
    return kind


def _refuse_idle_options(kind: str, options: EngineOptions) -> None:
    """Refuse options that this engine would ignore: a run must match its command line."""
    of_vllm = {
        "--gpu-memory-utilization": options.gpu_memory_utilization,
        "--tensor-parallel-size": options.tensor_parallel_size,
        "--max-model-len": options.max_model_len,
        "--batch-invariant": options.batch_invariant or None,
        "--model-args": options.model_args or None,
        "--sleep": options.sleeps or None,
    }
    idle = [name for name, value in of_vllm.items() if value is not None and kind != "vllm"]
    why = "only vLLM in this process has it"
    if not idle and options.dtype != "auto" and kind not in LOADING:
        idle, why = ["--dtype"], "the server has chosen it" if kind == "openai" else "no model runs"
    if not idle and options.data_parallel_size and kind not in LOADING:
        idle, why = ["--data-parallel-size"], "no model runs in this program"
    if not idle and options.lora is not None and kind not in LOADING:
        of_server = "load it there (vllm serve --lora-modules) and name it with --model"
        idle, why = ["--lora"], of_server if kind == "openai" else "no model runs"
    if not idle and options.chat.extra_body and kind != "openai":
        idle, why = ["--extra-body"], "only servers get requests"
    if not idle and options.chat.template_kwargs and kind in POLICIES:
        idle, why = ["--chat-template-kwargs"], "a scripted policy has no template"
    if idle:
        place = "a server" if kind == "openai" else f"the {kind} engine"
        raise UserError(f"{idle[0]} has no effect with {place}: {why}; remove it")


def idle_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU but no vLLM to use it well."""
    return _NVIDIA.exists() and not has_gpu_vllm()


def unused_gpus(options: EngineOptions) -> str:
    """A sentence on GPUs that an engine in this process would leave unused; empty if none."""
    import torch

    each, copies = options.tensor_parallel_size or 1, options.data_parallel_size or 1
    count, used = torch.cuda.device_count(), each * copies
    if count < used + each:
        return ""
    return (
        f"there are {count} GPUs here and {used} will be used; --data-parallel-size "
        f"{count // each} uses {count // each * each}"
    )


def request_seconds(max_tokens: int, in_flight: int, servers: int) -> float:
    """Timeout of a request to a server in seconds, including the wait in its queue.

    Args:
        max_tokens: Maximum response length.
        in_flight: Concurrent requests over all servers.
        servers: Number of servers.
    """
    rounds = math.ceil(in_flight / servers / AT_ONCE)
    return rounds * max(REQUEST_SECONDS, max_tokens / SLOWEST)


def build_engine(kind: str, options: EngineOptions, source: ModelSource) -> Engine:
    """Build an engine; it starts when it is entered.

    Args:
        kind: As resolved by `choose_kind`.
        options: Further settings.
        source: The model.

    Raises:
        UserError: A setting is wrong or a library is missing.
    """
    if kind in POLICIES:
        return ScriptedEngine(kind)
    if kind == "openai":
        from benchmark.engines.server.openai import OpenAIEngine

        return OpenAIEngine(
            options.endpoints,
            source.identity.name,
            in_flight=options.concurrency,
            timeout=request_seconds(
                options.sampling.max_tokens, options.concurrency, len(options.endpoints)
            ),
            chat=options.chat,
            sampling=options.sampling,
        )
    if source.path is None:
        raise UserError(f"--engine {kind} needs a model's files, not a served model")
    if options.data_parallel_size is not None and options.data_parallel_size > 1:
        from benchmark.engines.core.replicas import ReplicatedEngine, device_groups

        one = replace(options, data_parallel_size=None)
        devices = device_groups(options.data_parallel_size, options.tensor_parallel_size or 1)
        return ReplicatedEngine(kind, partial(build_engine, kind, one, source), devices)
    if kind == "vllm":
        from benchmark.engines.vllm.engine import VllmEngine

        return VllmEngine(
            source.path,
            lora=source.adapter,
            dtype=options.dtype,
            gpu_memory_utilization=options.gpu_memory_utilization,
            tensor_parallel_size=options.tensor_parallel_size,
            max_model_len=options.max_model_len,
            response_room=options.response_room,
            batch_invariant=options.batch_invariant,
            model_args=options.model_args,
            chat=options.chat,
            sleeps=options.sleeps,
            beside_trainer=options.beside_trainer,
        )
    from benchmark.engines.transformers.engine import TransformersEngine

    return TransformersEngine(
        source.path,
        lora=source.adapter,
        dtype=options.dtype,
        max_batch=min(options.concurrency, MAX_BATCH),
        deterministic=options.deterministic,
        chat=options.chat,
    )


def has_gpu() -> bool:
    """Whether torch sees a GPU."""
    import torch

    return torch.cuda.is_available()
