"""The tensors of a model, and new values for all of them."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PreTrainedModel,
)

from benchmark.engines.core.chat import quiet_transformers
from benchmark.engines.core.vision import reads_images
from tasks.errors import UserError
from tasks.texts import first_line

WEIGHTS_FILE = "model.safetensors"
HASH_OF_NOTHING: Final = hashlib.sha256(b"").hexdigest()
"""Hash of a tensor whose bytes an engine has repacked elsewhere (vLLM's linear layers on CPUs)."""


@dataclass(frozen=True, slots=True)
class WeightLayout:
    """The tensors of a model.

    Attributes:
        shapes: Shape by name in the state dict of transformers.
        tied: For each further name of a tied tensor, its first name (such as
            `model.embed_tokens.weight` for `lm_head.weight`).
    """

    shapes: Mapping[str, tuple[int, ...]]
    tied: Mapping[str, str]

    def complete(self, weights: Iterable[tuple[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """Check new weights against the model and sort them in its order.

        Args:
            weights: Names and tensors; one of several tied names is enough.

        Returns:
            A tensor for every name, including tied ones; no copies.

        Raises:
            UserError: A tensor is missing, unexpected, given twice or has a wrong shape, or tied
                names have different values.
        """
        given: dict[str, torch.Tensor] = {}
        for name, tensor in weights:
            if name not in self.shapes:
                raise UserError(f"the new weights have {name}, which the model does not have")
            if name in given:
                raise UserError(f"the new weights have {name} twice")
            shape = tuple(tensor.shape)
            if shape != self.shapes[name]:
                raise UserError(
                    f"the new weights have {name} with shape {shape}; the model has "
                    f"{self.shapes[name]}"
                )
            given[name] = tensor.detach()
        for name, first in self.tied.items():
            one, other = given.get(first), given.get(name)
            if one is not None and other is not None and not _same(one, other):
                raise UserError(
                    f"{name} and {first} are one tensor in this model, but the new "
                    "weights have different values for them"
                )
            found = one if one is not None else other
            if found is not None:
                given[first] = given[name] = found
        missing = [name for name in self.shapes if name not in given]
        if missing:
            raise UserError(
                f"the new weights lack {len(missing)} of the model's {len(self.shapes)} tensors "
                f"({missing[0]}{', ...' if len(missing) > 1 else ''})"
            )
        return {name: given[name] for name in self.shapes}


def layout_of(model: PreTrainedModel) -> WeightLayout:
    """The tensors of a model."""
    shapes: dict[str, tuple[int, ...]] = {}
    tied: dict[str, str] = {}
    first_names: dict[int, str] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        shapes[name] = tuple(tensor.shape)
        first = first_names.setdefault(id(tensor), name)
        if first != name:
            tied[name] = first
    return WeightLayout(shapes, tied)


def checksums(model: torch.nn.Module) -> dict[str, str]:
    """SHA-256 of the bytes of every parameter, by name; tied ones occur once."""
    return {name: sha256_of(weight) for name, weight in model.named_parameters()}


def sha256_of(tensor: torch.Tensor) -> str:
    """SHA-256 of a tensor's bytes, of any type and on any device."""
    flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().data).hexdigest()


def read_layout(folder: Path) -> WeightLayout:
    """The tensors of the model in a folder, from its configuration alone.

    Args:
        folder: A folder that `check_folder` has checked.

    Raises:
        UserError: The configuration names no causal language model of transformers.
    """
    quiet_transformers()
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        with torch.device("meta"):
            of: Any = AutoModelForImageTextToText if reads_images(folder) else AutoModelForCausalLM
            model = of.from_config(config, trust_remote_code=False)
    except Exception as error:  # the library raises a dozen types for broken files
        raise UserError(f"the model in {folder} cannot be built: {first_line(error)}") from error
    return layout_of(model)


def write_weights(folder: Path, weights: Mapping[str, torch.Tensor]) -> None:
    """Write tensors to a folder as one safetensors file.

    Raises:
        UserError: The file cannot be written; a partial file is deleted.
    """
    path = folder / WEIGHTS_FILE
    try:
        save_file(_apart(weights), path)
    except (OSError, SafetensorError) as error:
        path.unlink(missing_ok=True)
        raise UserError(
            f"the weights cannot be written to {path}: {first_line(error)}; free space or choose "
            "another folder"
        ) from error


def _apart(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors in main memory, each with its own storage, as the file format requires."""
    owners: set[int] = set()
    apart: dict[str, torch.Tensor] = {}
    for name, tensor in weights.items():
        copy = tensor.detach().cpu().contiguous()
        storage = copy.untyped_storage()
        if storage.data_ptr() in owners or storage.nbytes() != copy.nbytes:
            copy = copy.clone()
        owners.add(copy.untyped_storage().data_ptr())
        apart[name] = copy
    return apart


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.data_ptr() == other.data_ptr():
        return True
    return torch.equal(one, other.to(one))
