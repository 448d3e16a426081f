"""The optimizer: AdamW, as each device has it best."""

from collections.abc import Iterable
from typing import Any

import torch

from tasks.errors import UserError


def make_optimizer(
    parameters: Iterable[torch.nn.Parameter],
    device: torch.device,
    kind: str = "adamw",
    **constants: Any,
) -> torch.optim.Optimizer:
    """AdamW over parameters.

    Args:
        parameters: What is trained, in float32.
        device: Where steps are made. On CUDA they are fused: the default would need room for one
            more copy of the parameters in every step.
        kind: `adamw`, or `adamw_8bit`, whose moments take 2 bytes a parameter instead of 8.
        **constants: As `torch.optim.AdamW` takes them.

    Raises:
        UserError: The library of the second kind is not there.
    """
    if kind == "adamw":
        fused = True if device.type == "cuda" else None
        return torch.optim.AdamW(parameters, fused=fused, **constants)
    try:
        from torchao.optim import AdamW8bit
    except ImportError as error:
        raise UserError(
            f"optimization.optimizer={kind} needs the library torchao ({error}): install "
            "'arlarena-bench[gpu]'"
        ) from error
    eight: torch.optim.Optimizer = AdamW8bit(parameters, **constants)
    return eight


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the rate of the next steps; torchao's optimizers keep theirs in a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
