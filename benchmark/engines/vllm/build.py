"""Builds vLLM's own engine: its environment, its arguments, and checks for what it cannot run.

On a CPU some environment variables must be set before vLLM is imported; values set by the user
stay:

| variable | value | why |
|---|---|---|
| `VLLM_ENABLE_V1_MULTIPROCESSING` | 0 | no second process to start and to talk to |
| `OMP_NUM_THREADS` | 1 | more threads than free cores slow small models down 30-fold |
| `VLLM_CPU_KVCACHE_SPACE` | 1 to 4 | GiB for keys and values; a quarter of the memory at most |
| `TORCHDYNAMO_DISABLE` | 1 | no compilation of helpers (2 to 15 s) in the first step |

Everywhere, `VLLM_NO_USAGE_STATS=1` (nothing is sent), and `VLLM_LOGGING_LEVEL=ERROR` and
`TORCH_CPP_LOG_LEVEL=ERROR` for a quiet terminal. On CUDA the rest is left to vLLM, except for
`VLLM_ENABLE_V1_MULTIPROCESSING=0` in a trainer's process, and `VLLM_WORKER_MULTIPROC_METHOD=spawn`:
torch queries the GPUs before vLLM is imported, and a process forked after that cannot use them. A
script that starts this engine therefore needs `if __name__ == "__main__":`.
"""

import logging
import os
import sys
import warnings
from collections.abc import Mapping
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from benchmark.engines.core.names import FLASHINFER_SAMPLER
from benchmark.engines.core.vision import reads_images
from benchmark.versions import has_gpu_vllm
from tasks.errors import UserError, suggestion
from tasks.texts import first_line

BATCHED_TOKENS = 8_192
"""Minimum token budget of one step on a CPU. There, a prompt is prefilled in one piece: vLLM 0.32.0
crashes on a seeded request whose prompt is prefilled in two chunks."""
GIB = 2**30
PROMPT_ROOM: Final = 32_768
"""Prompt tokens that always fit, if the model's context allows."""
BATCH_INVARIANT: Final = "VLLM_BATCH_INVARIANT"
_FIXED_ARGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "model": "--model",
        "dtype": "--dtype",
        "tensor_parallel_size": "--tensor-parallel-size",
        "gpu_memory_utilization": "--gpu-memory-utilization",
        "max_model_len": "--max-model-len",
        "data_parallel_size": "--data-parallel-size",
        "enable_lora": "--lora",
        "max_lora_rank": "--lora",
        "max_loras": "--lora",
        "trust_remote_code": "",
        "load_format": "",
        "logprobs_mode": "",
    }
)
"""Arguments that have their own option, and arguments that may not be changed."""


def be_batch_invariant(cuda: bool) -> None:
    """Select vLLM's batch-invariant kernels; vLLM reads the variable on import.

    Raises:
        UserError: There is no CUDA device, or vLLM was imported without them.
    """
    if not cuda:
        raise UserError("--batch-invariant needs an NVIDIA GPU: vLLM has no such kernels for CPUs")
    if "vllm" in sys.modules and os.environ.get(BATCH_INVARIANT) != "1":
        raise UserError(
            f"vLLM was loaded without --batch-invariant; start again with {BATCH_INVARIANT}=1"
        )
    os.environ[BATCH_INVARIANT] = "1"


def check_model_args(model_args: Mapping[str, Any]) -> None:
    """Refuse arguments that may not be set this way.

    Raises:
        UserError: An argument has its own option or is fixed.
    """
    for name in model_args:
        if name in _FIXED_ARGS:
            option = _FIXED_ARGS[name]
            fix = f"use {option}" if option else "it cannot be changed here"
            raise UserError(f"--model-args: {name}: {fix}")


def needed_context(folder: Path, response_room: int) -> dict[str, int]:
    """The context length to reserve, if less than the model's own is enough.

    Args:
        folder: A folder that `check_folder` has checked.
        response_room: Maximum response tokens after a prompt.

    Returns:
        The argument `max_model_len`; empty for the model's own context.
    """
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    own = getattr(config.get_text_config(decoder=True), "max_position_embeddings", None)
    needed = PROMPT_ROOM + response_room
    return {"max_model_len": needed} if isinstance(own, int) and own > needed else {}


def set_environment(cuda: bool, beside_trainer: bool = False) -> None:
    """Set environment variables that vLLM reads on import; the user's values stay.

    Args:
        cuda: Whether there is a CUDA device.
        beside_trainer: vLLM is in a trainer's process, which passes it tensors.
    """
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
    if beside_trainer:
        os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    if cuda:
        os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")
        os.environ.setdefault(FLASHINFER_SAMPLER, "0")
        return
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", str(min(max(memory // 4 // GIB, 1), 4)))
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")


def process_group() -> dict[str, str]:
    """The argument that vLLM needs in a process that a launcher started with others.

    Each process has its own engine, on its own GPU (`LOCAL_RANK`). vLLM would create a process
    group for it, but there already is one.

    Returns:
        The argument `distributed_executor_backend`; empty for a single process.
    """
    import torch.distributed as dist

    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    return {"distributed_executor_backend": "external_launcher"} if several else {}


def build_engine(folder: Path, dtype: str, cuda: bool, options: dict[str, Any]) -> Any:
    """Build vLLM's `LLMEngine` for this engine and its benchmark.

    Args:
        folder: A folder that `check_folder` has checked.
        dtype: See `VllmEngine`.
        cuda: Whether there is a CUDA device.
        options: Further arguments of `EngineArgs`.

    Raises:
        UserError: vLLM cannot be imported, or does not start with this model and these options.
    """
    warnings.filterwarnings("ignore", category=FutureWarning, module=r"vllm\.")
    logging.getLogger("torch._library.triton").setLevel(logging.ERROR)
    try:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.usage.usage_lib import UsageContext
        from vllm.v1.engine.llm_engine import LLMEngine
    except (ImportError, RuntimeError) as error:
        raise UserError(import_complaint(error)) from error
    arguments: dict[str, Any] = {
        "model": str(folder),
        "dtype": dtype,
        "load_format": "safetensors",
        "enable_prefix_caching": True,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        **options,
    }
    if reads_images(folder):
        _check_torchvision(folder)
        arguments.setdefault("limit_mm_per_prompt", {"video": 0})
    if not cuda:
        check_head_size(folder)
        fixed = {
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": max(BATCHED_TOKENS, options.get("max_model_len") or 0),
            "enforce_eager": True,
        }
        if changed := fixed.keys() & options.keys():
            raise UserError(f"--model-args: {min(changed)}: it cannot be changed on a CPU")
        arguments |= {"dtype": "float32" if dtype == "auto" else dtype, **fixed}
    known = tuple(field.name for field in fields(EngineArgs))
    for name in options:
        if name not in known:
            raise UserError(f"--model-args: vLLM has no argument {name!r}{suggestion(name, known)}")
    try:
        # Use the batch sizes of the `LLM` class, for throughput.
        return LLMEngine.from_engine_args(EngineArgs(**arguments), UsageContext.LLM_CLASS)
    except (ValueError, NotImplementedError) as error:
        raise UserError(f"vLLM cannot run {folder}: {complaint(error)}") from error
    except RuntimeError as error:
        # Out of memory, or one of vLLM's processes exited, and only the log says why.
        raise UserError(
            f"vLLM did not start with {folder}: {first_line(error)}; if the log above is about "
            "memory, lower --max-model-len or --gpu-memory-utilization, or raise "
            "--tensor-parallel-size"
        ) from error


def check_installed() -> None:
    """Refuse vLLM if it is missing or would leave GPUs unused.

    Raises:
        UserError: It is not installed, or there are GPUs and it is the CPU build.
    """
    if find_spec("vllm") is None:
        raise UserError(
            "vLLM is not installed: make install-vllm on a machine with an NVIDIA GPU (make "
            "install-dev installs its CPU build, which is for tests), or use --engine transformers"
        )
    import torch

    if torch.cuda.is_available() and not has_gpu_vllm():
        raise UserError(
            "the installed vLLM is its CPU build, which is for tests and uses no GPU: make "
            "install-vllm puts the one for GPUs in its place (with CUDA_VISIBLE_DEVICES= before "
            "the command, everything runs on the CPU)"
        )


def _check_torchvision(folder: Path) -> None:
    """Refuse a vision-language model that vLLM would refuse without a reason.

    Raises:
        UserError: torchvision is not installed.
    """
    if find_spec("torchvision") is None:
        raise UserError(
            f"vLLM reads the images of {folder} with torchvision, which is not installed; install "
            "the build for this torch, or use --engine transformers"
        )


def import_complaint(error: Exception) -> str:
    """One line about a vLLM that is installed but cannot be imported."""
    if "torchvision::nms" in str(error):
        return (
            "vLLM cannot be imported, because the installed torchvision was built for another "
            "torch (operator torchvision::nms does not exist): pip uninstall torchvision"
        )
    return (
        f"vLLM is installed but cannot be imported ({type(error).__name__}: {first_line(error)}); "
        "install the versions in requirements/, or use --engine transformers"
    )


def complaint(error: Exception) -> str:
    """One line from a vLLM configuration error; pydantic puts the reason in its third line."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        return " ".join(str(errors()[0]["msg"]).split())
    return first_line(error)


def check_head_size(folder: Path) -> None:
    """Refuse a model whose attention head size vLLM's CPU kernels do not support.

    Raises:
        UserError: It is not supported; vLLM would fail in the first step with a kernel error.
    """
    from transformers import AutoConfig
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    text = config.get_text_config(decoder=True)
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    known = CPUAttentionBackend.get_supported_head_sizes()
    if known and size not in known:
        raise UserError(
            f"vLLM on a CPU does not support attention heads of size {size} "
            f"({folder}), only {', '.join(map(str, known))}; use --engine transformers"
        )
