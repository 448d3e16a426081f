"""Dependable success: the expected success of one more training run, counting collapses.

A method that wins with two seeds and collapses with the third is not dependable, and neither the
mean of the seeds nor the worst one shows that. With m seeds, the success p_s of each one's weights,
and c_s = 1 if its training collapsed (`benchmark.stability.collapse`), else 0:

    D = (1 / m) sum_s (1 - c_s) p_s

A collapsed seed counts as 0, whichever of its checkpoints was evaluated: anyone who needs a model
would train again. So choosing an early checkpoint of a run that collapsed later gains nothing. D is
the share of seeds that hold times their mean success: (1 - k / m) P for k collapses.

The interval is that of the product of two independent draws. P is drawn from its own interval over
episodes and seeds (`benchmark.stats.paired.mean_success`), as from a normal distribution with a
separate width on each side; bootstrapping two or three seeds would make it too narrow. The share of
collapses is drawn from its Jeffreys posterior Beta(k + 1/2, m - k + 1/2), since three seeds without
a collapse are compatible with a share of more than half. If no seed holds, P is unknown and the
upper end assumes P = 1. A single seed has no value, since it says nothing about others.

Source: this project's definition. Jeffreys: Brown, Cai and DasGupta, Stat. Sci. 16 (2001) 101-133.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from benchmark.stats.bootstrap import BootstrapInterval, percentile_interval
from benchmark.stats.intervals import CONFIDENCE, RESAMPLES, Interval, normal_quantile
from tasks.seeding import stable_seed

LEAST_SEEDS: Final = 2
"""Minimum number of seeds for a statement about another one."""


def dependable_success(
    collapsed: Sequence[bool], holding: Interval | None, resamples: int = RESAMPLES
) -> BootstrapInterval | None:
    """Dependable success with its 95% interval.

    Args:
        collapsed: Whether the training of each seed collapsed.
        holding: Mean success of the seeds that hold, with its interval over episodes and seeds;
            None if no seed holds.
        resamples: Number of draws; their seed is fixed.

    Returns:
        None with a single seed.

    Raises:
        ValueError: `holding` is given although no seed holds, or None although one does.
    """
    seeds, count = len(collapsed), sum(collapsed)
    if (holding is None) != (count == seeds):
        raise ValueError(f"{count} of {seeds} seeds collapsed, and success is {holding}")
    if seeds < LEAST_SEEDS:
        return None
    rng = np.random.default_rng(stable_seed("stability", "dependable"))
    kept = 1 - rng.beta(count + 0.5, seeds - count + 0.5, size=resamples)
    if holding is None:
        return percentile_interval(0.0, kept)
    z = rng.standard_normal(resamples) / normal_quantile(CONFIDENCE)
    sides = np.where(z > 0, holding.high - holding.value, holding.value - holding.low)
    means = np.clip(holding.value + z * sides, 0.0, 1.0)
    value = holding.value * (seeds - count) / seeds
    interval = percentile_interval(value, kept * means)
    assert interval.low is not None
    # A share of at most 1 cannot raise the success, but the draws are noisy.
    interval = replace(interval, low=min(interval.low, holding.low))
    # Without a collapse, the share of seeds that hold may be 1.
    return interval if count else replace(interval, high=holding.high)
