"""Turns dropout off: what is learned from must be what the engine has computed.

A policy is in training mode, since gradient checkpointing works in no other. With dropout, its
ratios to its own samples would be noise.
"""

from typing import TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def without_dropout(model: M) -> M:
    """Set every probability of dropout to 0: of modules, and numbers that attention is given.

    Returns:
        The model itself.
    """
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, float) and "drop" in name:
                setattr(module, name, 0.0)
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model
