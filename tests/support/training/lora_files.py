"""Checks the output of a LoRA run from its files alone."""

from pathlib import Path

import torch
from safetensors.torch import load_file

FILE = "model.safetensors"


def check_merged(model: Path, init: Path, scale: float) -> int:
    """Check that a checkpoint is its init plus the updates in its folder `adapter`.

    Args:
        model: The checkpoint.
        init: Folder of the init.
        scale: Scale of an update.

    Returns:
        Names of the tensors with a nonzero update.
    """
    base, found = load_file(init / FILE), load_file(model / FILE)
    updates = load_file(model / "adapter" / "adapter_model.safetensors")
    assert set(base) == set(found)
    moved = 0
    for name, weight in base.items():
        half = f"base_model.model.{name.removesuffix('.weight')}.lora_"
        if f"{half}A.weight" not in updates:
            assert torch.equal(found[name], weight), name
            continue
        change = scale * (updates.pop(f"{half}B.weight") @ updates.pop(f"{half}A.weight"))
        torch.testing.assert_close(found[name], weight + change, rtol=0, atol=1e-6)
        moved += bool(change.any())
    assert not updates
    return moved
