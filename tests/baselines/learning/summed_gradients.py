"""Gradients of a sharded weight in bf16 on several processes; run by all of them at once.

python summed_gradients.py OUT

Rank 0 has a gradient of 1 and rank 1 one of 2**-9, which a sum in bfloat16 loses. The main process
writes the reduced gradient, OUT/gradient.
"""

import sys
from pathlib import Path

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.state import PartialState
from accelerate.utils import DistributedType

from baselines.learning.sharding import configure_sharding, whole

OF_RANK = (1.0, 2.0**-9)


def main() -> None:
    """Prepare as the trainer does, run one backward pass, and write the gradient."""
    PartialState(cpu=True)
    # See `tests/baselines/training/fsdp_train.py`.
    PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
    plugin = FullyShardedDataParallelPlugin(fsdp_version=2)
    accelerator = Accelerator(mixed_precision="bf16", fsdp_plugin=plugin)
    configure_sharding(accelerator)
    layer = torch.nn.Linear(2, 1, bias=False)
    # accelerate's FSDP2 needs both.
    model, _ = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), lr=1.0))
    inputs = torch.full((1, 2), OF_RANK[accelerator.process_index])
    accelerator.backward(model(inputs).sum())
    (weight,) = model.parameters()
    gradient = whole(weight.grad)
    if accelerator.is_main_process:
        (Path(sys.argv[1]) / "gradient").write_text(f"{gradient.dtype} {gradient.tolist()}")
    accelerator.end_training()


if __name__ == "__main__":
    main()
