"""The learning rates of a training run's updates."""

from collections.abc import Mapping
from typing import Any


def learning_rate_of(optimization: Mapping[str, Any], number: int) -> float:
    """The learning rate of an update: linear warm-up, then constant or linear to 0.

    The trainer sets it, and the check of a log expects it.

    Args:
        optimization: That section of a run's configuration, with values of valid types.
        number: Number of the update, from 1.
    """
    rate: float = optimization["learning_rate"]
    warmup, updates = optimization["warmup_updates"], optimization["updates"]
    if number <= warmup:
        rate *= number / warmup
    elif optimization["schedule"] == "linear" and updates > warmup:
        rate *= (updates - number + 1) / (updates - warmup)
    return rate
