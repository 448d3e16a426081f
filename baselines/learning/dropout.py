"""Turns dropout off, so that the trainer computes the same probabilities as the engine.

The policy has to be in training mode, because gradient checkpointing requires it. With dropout,
the ratios on its own samples would be noisy.
"""

from typing import TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


def without_dropout(model: M) -> M:
    """Set every dropout probability to 0, in modules and in the numbers passed to attention.

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
