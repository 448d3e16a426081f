"""New weights for an in-process vLLM engine, through vLLM's own `reload_weights`.

A tied `lm_head.weight` is always handed over under both of its names. vLLM's CPU kernels keep a
packed copy of the output layer's weights, which is packed again only when that layer itself gets
weights; without it the logits would go on coming from the old ones.
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

    In one process the tensors are copied as they are. Where vLLM's workers are processes of their
    own (its default on CUDA, and with several GPUs), the weights go through a file in the folder
    for temporary files (`TMPDIR`; best one in memory): vLLM's messages between processes carry no
    tensors unless pickle is allowed. On a CPU both ways are tested; on CUDA neither was run.

    Args:
        llm: The engine.
        weights: A tensor for every name, tied ones included (`WeightLayout.complete`).
        version: Label of the tokens that are drawn from now on.

    Raises:
        UserError: The file cannot be written; nothing was changed.
    """
    # Whoever gives the weights has queued their making on another stream of the GPU than vLLM's.
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
    # Blocks of running requests cannot be freed. New requests never meet them, because their
    # cache salt is another one since this update.
    if not llm.reset_prefix_cache():
        log.debug("the prefix cache was not reset: requests are running")
    # The workers have dropped what they computed of images; the scheduler must know it.
    llm.reset_mm_cache()
    llm.reset_encoder_cache()


def checksums(llm: Any) -> dict[str, str]:
    """What vLLM's own checker says of the weights of all workers (names of its fused tensors)."""
    found: dict[str, str] = {}
    for of_worker in llm.collective_rpc("compute_weight_checksums"):
        found |= of_worker
    return found


def _in_this_process(llm: Any) -> bool:
    from vllm.v1.engine.core_client import InprocClient

    parallel: Any = llm.vllm_config.parallel_config
    return isinstance(llm.engine_core, InprocClient) and parallel.world_size == 1
