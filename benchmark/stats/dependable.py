"""Dependable success: the success to expect of one more training run, collapses counted.

A method that wins with two seeds and collapses with the third is not dependable, and neither the
mean of the seeds nor the worst one says so. With m seeds, the success p_s of the weights of each,
and c_s = 1 where its training collapsed (`benchmark.stability.collapse`), else 0:

    D = (1 / m) sum_s (1 - c_s) p_s

A seed that collapsed counts as 0, whatever checkpoint of it was evaluated: who needs a model trains
again. So choosing an early checkpoint of a run that collapsed later gains nothing. D is the share
of seeds that hold times the mean success of those: (1 - k / m) P for k collapses.

The interval is a bootstrap of both factors. P: the seeds that hold and the episodes, both drawn
with replacement. The share of collapses: from its Jeffreys posterior Beta(k + 1/2, m - k + 1/2),
and not by drawing seeds: three seeds none of which collapsed, drawn again and again, would say that
collapse is impossible, where three seeds are compatible with a share of more than a half. Where no
seed holds, P is not known and the upper end is that of a P of 1. A single seed has no value:
nothing is known of others.

Source: this project's definition. Jeffreys: Brown, Cai and DasGupta, Stat. Sci. 16 (2001) 101-133.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from benchmark.stats.arrays import Values
from benchmark.stats.bootstrap import BootstrapInterval, drawn, percentile_interval
from benchmark.stats.intervals import RESAMPLES
from tasks.seeding import stable_seed

LEAST_SEEDS: Final = 2
"""Seeds without which nothing is said about another one."""


def dependable_success(
    shares: Values, collapsed: Sequence[bool], resamples: int = RESAMPLES
) -> BootstrapInterval | None:
    """Dependable success with its 95% interval.

    Args:
        shares: (m, n) solved share of each of n episodes, by seed; in [0, 1].
        collapsed: Whether the training of each seed collapsed.
        resamples: Number of draws; their seed is fixed.

    Returns:
        None with a single seed.

    Raises:
        ValueError: There are no episodes, or not as many seeds as training runs.
    """
    seeds, episodes = shares.shape
    if len(collapsed) != seeds or not episodes:
        raise ValueError(f"{seeds} seeds on {episodes} episodes and {len(collapsed)} training runs")
    if seeds < LEAST_SEEDS:
        return None
    lost = np.array(collapsed, dtype=np.bool_)
    value = float(np.where(lost, 0.0, shares.mean(axis=1)).mean())
    rng = np.random.default_rng(stable_seed("stability", "dependable"))
    count = int(lost.sum())
    kept = 1 - rng.beta(count + 0.5, seeds - count + 0.5, size=resamples)
    if count == seeds:
        return percentile_interval(value, kept)
    # Sorted, so that no order of the seeds moves an end.
    holding = shares[~lost][np.lexsort(shares[~lost].T[::-1])]
    times = rng.multinomial(episodes, np.full(episodes, 1 / episodes), size=resamples)
    rates = times @ holding.T / episodes
    means = np.take_along_axis(rates, drawn(len(holding), resamples), axis=1).mean(axis=1)
    interval = percentile_interval(value, kept * means)
    if count:
        return interval
    # Nothing says that any seed collapses: the share of those that hold may be 1.
    return replace(interval, high=percentile_interval(value, means).high)
