"""Gathers the full weights of an FSDP2-sharded model; run by several processes at once.

python sharded_weights.py OUT

Every process writes its result, OUT/RANK.safetensors.
"""

import sys
from pathlib import Path

import torch
from accelerate import Accelerator
from safetensors.torch import save_file
from torch.distributed.fsdp import fully_shard

from baselines.learning.sharding import full_grad_norm, full_weights
from tests.support.training.synthetic_rows import random_model


def main() -> None:
    """Shard the model, gather the weights, and write them."""
    accelerator = Accelerator(cpu=True)
    model = random_model()
    for layer in model.model.layers:
        fully_shard(layer)
    fully_shard(model)
    ids = torch.arange(12)[None]
    model(input_ids=ids, labels=ids).loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    found = {name: value.clone() for name, value in full_weights(accelerator, model).items()}
    found["norm"] = torch.tensor(full_grad_norm(norm))
    alone = full_weights(accelerator, model, everywhere=False)
    assert bool(alone) == accelerator.is_main_process
    for name, value in alone.items():
        assert torch.equal(value, found[name]), name
    elsewhere = full_weights(accelerator, model, False, place=torch.device("meta"))
    assert {value.device.type for value in elsewhere.values()} <= {"meta"}
    doubled = full_weights(accelerator, model, False, change=lambda name, value: 2 * value)
    for name, value in doubled.items():
        assert torch.equal(value, 2 * found[name]), name
    save_file(found, Path(sys.argv[1]) / f"{accelerator.process_index}.safetensors")
    accelerator.end_training()


if __name__ == "__main__":
    main()
