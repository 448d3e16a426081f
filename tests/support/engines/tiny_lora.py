"""A small handwritten LoRA adapter with random numbers, and the base model with it merged."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

RANK = 4
ALPHA = 32
MODULES = ("self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj")


def make_adapter(base: Path, folder: Path, seed: int = 0, **config: Any) -> Path:
    """Write an adapter for some linear layers of a model, in the format of peft.

    Args:
        base: Folder of the model.
        folder: Folder to write.
        seed: Seed of the numbers.
        config: Fields of `adapter_config.json` to change.
    """
    folder.mkdir(parents=True)
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, weight in load_file(base / "model.safetensors").items():
        module = name.removesuffix(".weight")
        if module.endswith(MODULES):
            rows, columns = weight.shape
            key = f"base_model.model.{module}"
            tensors[f"{key}.lora_A.weight"] = 0.1 * torch.randn(RANK, columns, generator=generator)
            tensors[f"{key}.lora_B.weight"] = 0.1 * torch.randn(rows, RANK, generator=generator)
    save_file(tensors, folder / "adapter_model.safetensors")
    names = [module.rpartition(".")[2] for module in MODULES]
    fields = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": names}
    fields |= {"task_type": "CAUSAL_LM", "bias": "none", "base_model_name_or_path": "elsewhere"}
    (folder / "adapter_config.json").write_text(json.dumps(fields | config))
    return folder


def merge_by_hand(base: Path, adapter: Path, folder: Path) -> Path:
    """Write the model with the weights W + alpha / rank * B A."""
    shutil.copytree(base, folder)
    weights = load_file(base / "model.safetensors")
    updates = load_file(adapter / "adapter_model.safetensors")
    for name in list(weights):
        key = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{key}.lora_A.weight" in updates:
            down, up = updates[f"{key}.lora_A.weight"], updates[f"{key}.lora_B.weight"]
            weights[name] = weights[name] + ALPHA / RANK * (up @ down)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder
