"""Models sharded over processes by FSDP2: loading, sharding and gathering."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import torch
from accelerate import Accelerator
from accelerate.utils import (
    disable_fsdp_ram_efficient_loading,
    enable_fsdp_ram_efficient_loading,
    parse_flag_from_env,
)
from accelerate.utils.fsdp_utils import fsdp2_prepare_model
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor

from tasks.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)
_HOST: Final = torch.device("cpu")
_NOT_SHARDED: Final = "accelerate shards on GPUs only: here every process has the whole model"


def is_sharded(accelerator: Accelerator) -> bool:
    """Whether models are sharded over processes."""
    return bool(accelerator.distributed_type.value == "FSDP")


def configure_sharding(accelerator: Accelerator) -> None:
    """Set what accelerate's flags cannot express, before anything is loaded.

    Gradients are summed in float32, over micro-batches and over processes; accelerate's bf16 does
    both in bfloat16. Every process loads full weights, except within `loaded_once`: otherwise
    transformers fills them with zeros on all but the main process, and only models that are sharded
    afterward receive their weights.

    Raises:
        UserError: FSDP is version 1.
    """
    if not is_sharded(accelerator):
        if parse_flag_from_env("ACCELERATE_USE_FSDP") and accelerator.num_processes > 1:
            disable_fsdp_ram_efficient_loading()
            if accelerator.is_main_process:
                log.warning(_NOT_SHARDED)
        return
    plugin = accelerator.state.fsdp_plugin
    if plugin.fsdp_version != 2:
        raise UserError("FSDP's first version is not supported: add --fsdp_version 2")
    if accelerator.mixed_precision == "bf16":
        plugin.mixed_precision_policy = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32
        )
    disable_fsdp_ram_efficient_loading()


@contextmanager
def loaded_once(accelerator: Accelerator) -> Iterator[None]:
    """Within this context only the main process reads weights that are sharded afterward.

    Has no effect if the user turned that off (`--fsdp_cpu_ram_efficient_loading false`).
    """
    if not is_sharded(accelerator) or not accelerator.state.fsdp_plugin.cpu_ram_efficient_loading:
        yield
        return
    enable_fsdp_ram_efficient_loading()
    try:
        yield
    finally:
        disable_fsdp_ram_efficient_loading()


def frozen(accelerator: Accelerator, model: Any) -> "PreTrainedModel":
    """Prepare a model for inference only, in the precision of the policy's forward passes.

    With equal weights, it computes exactly what the policy computes. Under FSDP it is sharded like
    the policy. In one process under autocast, which computes matrix products in bfloat16 and
    everything else in float32, matrices used only in products are stored in bfloat16.

    Args:
        accelerator: Processes and devices.
        model: Loaded in float32, within `loaded_once`.
    """
    model.eval().requires_grad_(False)
    if accelerator.mixed_precision == "bf16":
        narrow_frozen(model, is_sharded(accelerator))
    if is_sharded(accelerator):
        sharded: Any = fsdp2_prepare_model(accelerator, model).requires_grad_(False)
        # accelerate keeps embeddings and head gathered for a backward pass; here there is none.
        sharded.set_reshard_after_forward(True)
        asked: PreTrainedModel = sharded
        return asked
    placed: PreTrainedModel = model.to(accelerator.device)
    return placed


def narrow_frozen(model: Any, sharded: bool) -> None:
    """Store frozen weights in bfloat16 where this does not change forward passes.

    Args:
        model: In float32; not prepared yet.
        sharded: In a forward pass, FSDP has all weights in bfloat16, autocast only matrices used
            only in products.
    """
    if sharded:
        # Not the buffers: rotary angles need the precision, and FSDP does not cast them.
        for weight in model.parameters():
            if not weight.requires_grad:
                weight.data = weight.data.to(torch.bfloat16)
        return
    shared = model.get_input_embeddings().weight
    for module in model.modules():
        alone = isinstance(module, torch.nn.Linear) and module.weight is not shared
        if alone and not module.weight.requires_grad:
            module.to(torch.bfloat16)


def whole(weight: torch.Tensor) -> torch.Tensor:
    """The full tensor of a weight that may be sharded; every process must call this."""
    if not isinstance(weight, DTensor):
        return weight
    one: torch.Tensor = weight.full_tensor()
    return one


def full_weights(
    accelerator: Accelerator,
    model: Any,
    everywhere: bool = True,
    dtype: torch.dtype | None = None,
    change: Callable[[str, torch.Tensor], torch.Tensor] | None = None,
    place: torch.device = _HOST,
) -> Mapping[str, torch.Tensor]:
    """A model's full weights by name; every process must call this.

    Args:
        accelerator: Processes and devices.
        model: The prepared model.
        everywhere: Return them on every process, for example because each has an engine; otherwise
            only the main process gets sharded weights.
        dtype: Type of the result; None to keep it. For sharded weights, no GPU holds more than one
            full tensor in another type at a time.
        change: Applied to each full weight before the cast, on its process's device.
        place: Device of sharded weights that only the main process gets.
    """
    bare = accelerator.unwrap_model(model)
    weights: Mapping[str, torch.Tensor] = bare.state_dict()

    def put_together(name: str, weight: torch.Tensor) -> torch.Tensor | None:
        sharded = isinstance(weight, DTensor)
        one = whole(weight)
        if sharded and not everywhere and not accelerator.is_main_process:
            return None
        if change is not None:
            one = change(name, one)
        one = one.to(dtype or weight.dtype)
        return one if everywhere or not sharded else one.to(place)

    # Tied weights share one tensor, which is gathered once.
    owners = dict(bare.named_parameters(remove_duplicate=False))
    made: dict[int, torch.Tensor | None] = {}
    found: dict[str, torch.Tensor] = {}
    for name, weight in weights.items():
        owner = id(owners.get(name, weight))
        if owner not in made:
            made[owner] = put_together(name, weight)
        if (one := made[owner]) is not None:
            found[name] = one
    return found


def full_grad_norm(norm: Any) -> float:
    """A gradient norm as a number; the norm of sharded gradients is itself a DTensor."""
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
