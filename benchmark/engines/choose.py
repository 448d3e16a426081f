"""Chooses and builds the engine that a run asks for."""

from dataclasses import dataclass
from importlib.util import find_spec

from benchmark.engines.core.base import Engine
from benchmark.engines.core.scripted import POLICIES, ScriptedEngine
from benchmark.models import ModelSource
from tasks.errors import UserError

MAX_BATCH = 64
"""Responses that transformers runs at once, at most; its memory grows with their number."""
KINDS = ("auto", "vllm", "transformers", "openai", *POLICIES)


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What the user may set.

    Attributes:
        kind: One of `KINDS`.
        endpoints: Base URLs of OpenAI-compatible servers.
        dtype: Data type of weights and activations; `auto` is float32 on a CPU, and on a GPU the
            checkpoint's own type (bfloat16 for transformers where that is float32).
        concurrency: Episodes in flight; engines with batches of their own size them by it.
        gpu_memory_utilization: Share of the GPU's memory that vLLM takes.
        tensor_parallel_size: GPUs that vLLM spreads one model over.
        max_model_len: Context that vLLM reserves room for; None for the model's own.
        steady: Transformers: batches depend on the requests alone (`WorkerEngine`).
    """

    kind: str = "auto"
    endpoints: tuple[str, ...] = ()
    dtype: str = "auto"
    concurrency: int = 64
    gpu_memory_utilization: float | None = None
    tensor_parallel_size: int | None = None
    max_model_len: int | None = None
    steady: bool = False


def choose_kind(options: EngineOptions) -> str:
    """Resolve `auto`: endpoints if given, vLLM where there is a GPU and vLLM, else transformers.

    Raises:
        UserError: Endpoints with an engine that does not use them, or the other way round.
    """
    if options.kind == "auto":
        if options.endpoints:
            return "openai"
        return "vllm" if find_spec("vllm") and _has_cuda() else "transformers"
    if bool(options.endpoints) != (options.kind == "openai"):
        raise UserError(
            "--engine openai needs at least one --endpoint URL"
            if options.kind == "openai"
            else f"--endpoint does not go with --engine {options.kind}"
        )
    return options.kind


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

        return OpenAIEngine(options.endpoints, source.identity.name, in_flight=options.concurrency)
    if source.path is None:
        raise UserError(f"--engine {kind} needs a model's files, not a served model")
    if kind == "vllm":
        from benchmark.engines.vllm.engine import VllmEngine

        return VllmEngine(
            source.path,
            dtype=options.dtype,
            gpu_memory_utilization=options.gpu_memory_utilization,
            tensor_parallel_size=options.tensor_parallel_size,
            max_model_len=options.max_model_len,
        )
    from benchmark.engines.transformers.engine import TransformersEngine

    return TransformersEngine(
        source.path,
        dtype=options.dtype,
        max_batch=min(options.concurrency, MAX_BATCH),
        steady=options.steady,
    )


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()
