"""Evaluates a frozen FSDP2-sharded model twice; run by several processes at once.

python frozen_sharded.py OUT

The main process writes the names of weights that are still unsharded afterward, OUT/whole, and the
logits, OUT/logits.safetensors.
"""

import sys
from pathlib import Path

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.state import PartialState
from accelerate.utils import DistributedType
from safetensors.torch import save_file
from torch.distributed.tensor import DTensor

from baselines.learning.sharding import configure_sharding, frozen
from tests.support.training.synthetic_rows import random_model


def main() -> None:
    """Shard the model, evaluate it, and write the results."""
    PartialState(cpu=True)
    # See `tests/baselines/training/fsdp_train.py`.
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap"
    )
    accelerator = Accelerator(fsdp_plugin=plugin)
    configure_sharding(accelerator)
    model = frozen(accelerator, random_model())
    with torch.no_grad():
        for _ in range(2):
            logits = model(input_ids=torch.arange(12)[None]).logits
    left = [name for name, weight in model.named_parameters() if not isinstance(weight, DTensor)]
    if accelerator.is_main_process:
        (Path(sys.argv[1]) / "whole").write_text("\n".join(left))
        save_file({"logits": logits}, Path(sys.argv[1]) / "logits.safetensors")
    accelerator.end_training()


if __name__ == "__main__":
    main()
