"""What FSDP2 has spread over processes, put together on each of them."""

from collections.abc import Mapping
from typing import Any

import torch
from accelerate import Accelerator
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.tensor import DTensor


def whole_weights(accelerator: Accelerator, model: Any) -> Mapping[str, torch.Tensor]:
    """A model's weights by name, whole on every process; all processes must ask.

    accelerate gives the weights that FSDP2 has sharded to the main process alone, and every
    process may have an engine that wants them.
    """
    if any(isinstance(weight, DTensor) for weight in model.parameters()):
        options = StateDictOptions(full_state_dict=True)
        whole: Mapping[str, Any] = get_model_state_dict(model, options=options)
        return whole
    weights: Mapping[str, torch.Tensor] = accelerator.get_state_dict(model)
    return weights


def whole_norm(norm: Any) -> float:
    """A gradient norm as a number: that of sharded gradients is sharded itself."""
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)
