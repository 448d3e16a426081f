"""Learning rates of a run's updates."""

from baselines.config.schema import Optimization


def learning_rate_of(optimization: Optimization, number: int) -> float:
    """The rate of an update (from 1): linear warm-up, then constant or linear to 0."""
    rate = optimization.learning_rate
    if number <= optimization.warmup_updates:
        rate *= number / optimization.warmup_updates
    elif optimization.schedule == "linear":
        left = optimization.updates - number + 1
        rate *= left / (optimization.updates - optimization.warmup_updates)
    return rate
