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
    """Whether models are spread over processes."""
    return bool(accelerator.distributed_type.value == "FSDP")


def configure_sharding(accelerator: Accelerator) -> None:
    """Set what accelerate's flags cannot say, before anything is loaded.

    Gradients are summed in float32, over micro-batches and over processes: accelerate's bf16 does
    both in bfloat16. And what is loaded is whole on every process, but for what `loaded_once`
    loads: transformers leaves zeros everywhere but on the main process otherwise, and only what is
    sharded afterward gets its weights.

    Raises:
        UserError: It is FSDP's first version.
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
    """Within it only the main process reads weights that are sharded afterward.

    Not where the user has turned that off (`--fsdp_cpu_ram_efficient_loading false`).
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
    """A model that is only asked, in the precision of the policy's forward passes.

    So it says just what the policy says as long as their weights are the same. Under FSDP it is
    sharded as the policy is. In one process under autocast, which computes matrix products in
    bfloat16 and all else in float32, the matrices that only products see are kept in bfloat16.

    Args:
        accelerator: Processes and devices.
        model: Loaded in float32, within `loaded_once`.
    """
    model.eval().requires_grad_(False)
    if accelerator.mixed_precision == "bf16":
        narrow_frozen(model, is_sharded(accelerator))
    if is_sharded(accelerator):
        sharded: Any = fsdp2_prepare_model(accelerator, model).requires_grad_(False)
        # No backward pass follows, which is what accelerate keeps embeddings and head whole for.
        sharded.set_reshard_after_forward(True)
        asked: PreTrainedModel = sharded
        return asked
    placed: PreTrainedModel = model.to(accelerator.device)
    return placed


def narrow_frozen(model: Any, sharded: bool) -> None:
    """Keep what is not trained in bfloat16, as far as forward passes in it do not notice.

    Args:
        model: In float32; not prepared yet.
        sharded: FSDP has all weights in bfloat16 in a forward pass, autocast only matrices that
            only products see.
    """
    if sharded:
        # Not the buffers: angles of positions need their digits, and FSDP leaves them alone.
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
    """A weight put together, if it is sharded; all processes must ask."""
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
    """A model's weights by name, whole; all processes must ask.

    Args:
        accelerator: Processes and devices.
        model: Prepared.
        everywhere: Every process gets them, since each has an engine that wants them; otherwise
            sharded ones go to the main process alone.
        dtype: That they are given in; None for as they are. Of sharded weights, no GPU has more
            than one whole tensor in another type at a time.
        change: What is done to each whole weight before that, on the device of its process.
        place: Where sharded weights go that the main process alone gets.
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

    # Tied names have one tensor, which is put together once.
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
    """A gradient norm as a number: that of sharded gradients is sharded itself."""
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
