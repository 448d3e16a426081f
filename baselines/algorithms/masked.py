"""Masked statistics and whitening, shared by all dimensions.

Sums are computed in float64, whatever the input and output types.
"""

import math

import torch
from torch import Tensor


def counted_tokens(mask: Tensor, values: Tensor) -> Tensor:
    """The mask as bools.

    Raises:
        ValueError: Its shape differs from that of `values`.
    """
    if mask.shape != values.shape:
        raise ValueError(f"a mask {tuple(mask.shape)} does not fit values {tuple(values.shape)}")
    return mask.bool()


def masked_whiten(values: Tensor, mask: Tensor, epsilon: float = 1e-8) -> Tensor:
    """Shift and scale the counted values to mean 0 and variance 1.

    `(v - mean) / sqrt(variance + epsilon)`, variance unbiased. Values that are all equal, or a
    single one, give exactly 0.

    Args:
        values: Any shape.
        mask: Same shape, 1 for counted values.
        epsilon: Added to the variance.

    Returns:
        The shape and type of `values`, 0 where the mask is 0, without a gradient.

    Raises:
        ValueError: Shapes differ.
    """
    counted = counted_tokens(mask, values)
    chosen = values.detach()[counted].double()
    if not len(chosen):
        return torch.zeros_like(values)
    mean = chosen.mean()
    low, high, squares = chosen.min(), chosen.max(), (chosen - mean).square().sum()
    if float(high - low) <= rounding(values.dtype) * float(max(abs(low), abs(high))):
        return torch.zeros_like(values)
    scale = math.sqrt(float(squares) / max(len(chosen) - 1, 1) + epsilon)
    white = (values.detach().double() - mean) / scale
    return white.where(counted, 0.0).to(values.dtype)


def task_normalized(
    advantages: Tensor, response_mask: Tensor, tasks: Tensor, epsilon: float = 1e-8
) -> Tensor:
    """AgentRL: standardize token advantages within each task, so that no task outweighs another.

    `masked_whiten` over the counted tokens of each task. A task with only one token or with all
    advantages equal gets 0. Source: Zhang et al. (arXiv 2510.04206), section 3.2, Eq. 1.

    Args:
        advantages: (N, T).
        response_mask: (N, T), 1 for counted tokens.
        tasks: (N,) long: the row's task.
        epsilon: Added to the variance.

    Returns:
        (N, T), in the type of `advantages`, 0 where the mask is 0, without a gradient.

    Raises:
        ValueError: Shapes differ.
    """
    counted = counted_tokens(response_mask, advantages)
    if tasks.shape != advantages.shape[:1]:
        raise ValueError(f"tasks {tuple(tasks.shape)} do not fit {len(advantages)} rows")
    normalized = torch.zeros_like(advantages)
    for task in torch.unique(tasks):
        own = counted & (tasks == task)[:, None]
        normalized = torch.where(own, masked_whiten(advantages, own, epsilon), normalized)
    return normalized


def rounding(dtype: torch.dtype) -> float:
    """Relative difference up to which two sums of the same rewards count as equal."""
    return 8 * torch.finfo(dtype).eps
