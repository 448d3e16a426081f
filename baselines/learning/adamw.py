"""AdamW, in the best implementation for each device."""

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
    """Create an AdamW optimizer.

    Args:
        parameters: The trained parameters, in float32.
        device: Where they are. CUDA uses the fused implementation: the default one allocates one
            more copy of the parameters in every step.
        kind: `adamw`, or `adamw_8bit`, whose moments take 2 bytes per parameter instead of 8.
        **constants: Arguments of `torch.optim.AdamW`.

    Raises:
        UserError: `adamw_8bit` was chosen and torchao is not installed.
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
    """Set the learning rate of the next steps; torchao's optimizers store it in a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
