"""LoRA with peft: trains low-rank updates of linear layers; the init's weights stay frozen.

The policy is its own reference: with its updates scaled to zero it is the init, so no second model
is kept.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from safetensors.torch import save_file

from baselines.config.schema import LoRA
from baselines.learning.sharding import whole
from benchmark.versions import install_text
from tasks.errors import UserError
from tasks.seeding import stable_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_ADAPTER: Final = "default"
"""peft's default adapter name; part of the tensors' names."""
_WRAPPED: Final = ".base_layer."
_BASE: Final = f"{_WRAPPED}weight"
_DOWN, _UP = f".lora_A.{_ADAPTER}.weight", f".lora_B.{_ADAPTER}.weight"
_SAVED: Final = "base_model.model."
"""Prefix of the names in peft's files."""
_WEIGHTS: Final = "adapter_model.safetensors"


def add_updates(model: "PreTrainedModel", settings: LoRA, seed: int, base: str = "") -> None:
    """Add an update to every linear layer of a model but the last, and freeze everything else.

    Args:
        model: In float32, as are the updates; modified in place.
        settings: Rank and scale.
        seed: The run's seed, which initializes the A matrices. The B matrices are 0.
        base: Name of the base model in the adapter's file.

    Raises:
        UserError: peft is not installed, or the model has layers with updates that cannot be merged
            here (fused experts, GPT-2's convolutions).
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
        from peft.tuners.lora import LoraLayer
    except ImportError as error:
        raise UserError(
            f"optimization.lora needs peft ({error}): {install_text('lora')}"
        ) from error
    chosen = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stable_seed("lora", seed))
        # Without peft's wrapper the model keeps its class, its modules and their names.
        inject_adapter_in_model(chosen, model)
    for layer in model.modules():
        if isinstance(layer, LoraLayer) and type(layer.get_base_layer()) is not torch.nn.Linear:
            raise UserError(
                f"optimization.lora trains updates of linear layers only, and "
                f"{type(model).__name__} has {type(layer.get_base_layer()).__name__}: train all "
                "weights"
            )
    # A file must not depend on the order of a set.
    chosen.target_modules = sorted(chosen.target_modules or ())
    chosen.base_model_name_or_path = base
    freeze(model)


def freeze(model: torch.nn.Module) -> None:
    """Freeze everything but the updates."""
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.endswith((_DOWN, _UP)))


def has_updates(model: Any) -> bool:
    """Whether a model is trained by LoRA; it may be wrapped for its processes."""
    return getattr(getattr(model, "module", model), "peft_config", None) is not None


@contextmanager
def without_updates(model: Any) -> Iterator[None]:
    """Within this context a model computes what its init computes."""
    from peft.tuners.lora import LoraLayer

    # Disabling the updates would also freeze them, but FSDP checks only once which weights are
    # trained.
    layers = [layer for layer in model.modules() if isinstance(layer, LoraLayer)]
    for layer in layers:
        layer.set_scale(_ADAPTER, 0.0)
    try:
        yield
    finally:
        for layer in layers:
            layer.set_scale(_ADAPTER, 1.0)


def updates_of(model: Any) -> dict[str, torch.Tensor]:
    """A model's updates by name, unsharded; every process must call this."""
    weights: Mapping[str, torch.Tensor] = getattr(model, "module", model).state_dict()
    return {name: whole(weight) for name, weight in weights.items() if name.endswith((_DOWN, _UP))}


def merging(
    model: Any, updates: Mapping[str, torch.Tensor], dtype: torch.dtype, seed: int = 0
) -> Callable[[str, torch.Tensor], torch.Tensor]:
    """A function that turns a layer's weight W into W + alpha / rank * B A.

    The sum is computed in float32 on the weight's device.

    Args:
        model: Its layers hold alpha and rank; it may be wrapped.
        updates: From `updates_of`.
        dtype: Type of the result; bfloat16 is rounded stochastically (`rounded_at_random`).
        seed: Seed of the rounding, the same on every process.

    Returns:
        A function of a weight's name and the weight; it returns a weight without update unchanged.
    """
    config = getattr(model, "module", model).peft_config[_ADAPTER]
    scale = config.lora_alpha / config.r

    def merge(name: str, weight: torch.Tensor) -> torch.Tensor:
        if not name.endswith(_BASE):
            return weight
        layer = name.removesuffix(_BASE)
        down, up = (updates[layer + half].to(weight.device).float() for half in (_DOWN, _UP))
        made: torch.Tensor = weight.float() + scale * (up @ down)
        if dtype == torch.bfloat16:
            return rounded_at_random(made, stable_seed("lora rounding", seed, name))
        return made.to(dtype)

    return merge


def without_lora(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Merged weights under the names that they have without LoRA."""
    return {
        name.replace(_WRAPPED, "."): weight
        for name, weight in weights.items()
        if not name.endswith((_DOWN, _UP))
    }


def merged(
    model: Any,
    weights: Mapping[str, torch.Tensor],
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> dict[str, torch.Tensor]:
    """Unsharded weights with their updates added (`merging`), under their names without LoRA.

    Args:
        model: See `merging`.
        weights: The model's weights, under their names with LoRA.
        dtype: See `merging`.
        device: Device of the result; None for the weights' own. Few are on both at a time.
    """
    merge = merging(model, weights, dtype)
    # Tied weights stay one tensor.
    made: dict[int, torch.Tensor] = {}
    found: dict[str, torch.Tensor] = {}
    for name, weight in weights.items():
        if weight.data_ptr() not in made:
            made[weight.data_ptr()] = merge(name, weight).to(device or weight.device, dtype)
        found[name] = made[weight.data_ptr()]
    return without_lora(found)


def rounded_at_random(values: torch.Tensor, seed: int) -> torch.Tensor:
    """Round to bfloat16 stochastically, so that the expected value is exact.

    Updates are small compared with the spacing of bfloat16 numbers: at a learning rate of 1e-5,
    rounding to nearest keeps 2% of the first update in the weights of a 4B model, and 18% of the
    tenth (simulated). Stochastic rounding keeps all of it in expectation, at the cost of rounding
    noise.

    Args:
        values: Finite float32 values.
        seed: Random seed.

    Returns:
        The same shape; numbers that bfloat16 can represent are unchanged.
    """
    generator = torch.Generator(values.device).manual_seed(seed)
    # bfloat16 drops the lower 16 bits of the magnitude.
    noise = torch.randint(
        0, 2**16, values.shape, generator=generator, dtype=torch.int32, device=values.device
    )
    bits: torch.Tensor = (values.contiguous().view(torch.int32) + noise) & -(2**16)
    return bits.view(torch.float32).to(torch.bfloat16)


def write_updates(model: Any, weights: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Write only the updates, in the format that peft and vLLM read (`eval --lora`).

    Args:
        model: See `merged`.
        weights: See `merged`.
        folder: The output folder.
    """
    folder.mkdir(parents=True)
    getattr(model, "module", model).peft_config[_ADAPTER].save_pretrained(str(folder))
    tensors = {
        _SAVED + name.replace(f".{_ADAPTER}.", "."): weight.detach().cpu().contiguous()
        for name, weight in weights.items()
        if name.endswith((_DOWN, _UP))
    }
    save_file(tensors, folder / _WEIGHTS)
