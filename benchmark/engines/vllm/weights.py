"""New weights for an in-process vLLM engine, through vLLM's own `reload_weights`.

A tied `lm_head.weight` is always passed under both of its names. vLLM's CPU kernels keep a packed
copy of the output layer's weights, which is repacked only when that layer itself gets weights;
otherwise the logits would still come from the old ones.
"""

import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from benchmark.engines.core.weights import write_weights

log = logging.getLogger(__name__)


def reload_weights(llm: Any, weights: Mapping[str, torch.Tensor], version: int) -> None:
    """Replace the weights of vLLM's `LLMEngine` between two of its steps.

    In one process the tensors are copied directly. If vLLM's workers are separate processes (its
    default on CUDA, and with several GPUs), the weights go through a file in the temporary folder
    (`TMPDIR`; best in memory): vLLM's messages between processes carry no tensors unless pickle is
    allowed. Both ways are tested on a CPU; neither was run on CUDA.

    Args:
        llm: The engine.
        weights: A tensor for every name, including tied ones (`WeightLayout.complete`).
        version: Label of tokens sampled from now on.

    Raises:
        UserError: The file cannot be written; nothing was changed.
    """
    # The weights may still be computing on a different GPU stream than vLLM's.
    on_gpu = any(weight.is_cuda for weight in weights.values())
    if on_gpu:
        torch.cuda.synchronize()
    if _in_this_process(llm):
        llm.collective_rpc("reload_weights", kwargs={"weights_iterator": list(weights.items())})
    else:
        with tempfile.TemporaryDirectory(prefix="arlarena-weights-") as folder:
            write_weights(Path(folder), weights)
            llm.collective_rpc("reload_weights", kwargs={"weights_path": folder})
    if on_gpu:
        torch.cuda.synchronize()
    llm.set_weight_version(str(version))
    # Blocks of running requests cannot be freed. New requests never use them, because this update
    # changes their cache salt.
    if not llm.reset_prefix_cache():
        log.debug("the prefix cache was not reset: requests are running")
    # The workers have dropped their image features, which the scheduler must know.
    llm.reset_mm_cache()
    llm.reset_encoder_cache()


def checksums(llm: Any) -> dict[str, str]:
    """Checksums of the weights of all workers from vLLM's own checker, by its fused names."""
    found: dict[str, str] = {}
    for of_worker in llm.collective_rpc("compute_weight_checksums"):
        found |= of_worker
    return found


def _in_this_process(llm: Any) -> bool:
    from vllm.v1.engine.core_client import InprocClient

    parallel: Any = llm.vllm_config.parallel_config
    return isinstance(llm.engine_core, InprocClient) and parallel.world_size == 1
