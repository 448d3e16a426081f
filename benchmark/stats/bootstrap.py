"""Averages of a few runs with their uncertainty: IQM, median, stratified bootstrap.

Runs are resampled with replacement within their stratum (the task), since tasks are fixed and runs
are random. Draws use a fixed seed and sorted runs, so the order of the numbers does not affect the
interval.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from benchmark.stats.arrays import Values
from benchmark.stats.intervals import CONFIDENCE, RESAMPLES
from tasks.seeding import stable_seed

TRIMMED = 0.25
"""Share of the runs that the IQM drops at each end."""

Statistic = Callable[[Values], Values]
"""A function of sorted runs, (..., n), that returns (...)."""


@dataclass(frozen=True, slots=True)
class BootstrapInterval:
    """A statistic of several runs with its interval.

    Attributes:
        value: The statistic.
        low: Lower end of its interval; None if the runs cannot show their variance.
        high: Upper end, likewise.
    """

    value: float
    low: float | None = None
    high: float | None = None


def sorted_iqm(runs: Values) -> Values:
    """Interquartile mean: the mean without `floor(n / 4)` runs at each end.

    With fewer than 4 runs it is the mean.

    Source: Agarwal et al. (NeurIPS 2021, arXiv:2108.13264), section 4.3.

    Args:
        runs: (..., n) ascending along the last axis, n >= 1; may contain infinity, not NaN.

    Returns:
        (...) within the runs' range.
    """
    count = runs.shape[-1]
    cut = int(TRIMMED * count)
    kept = runs[..., cut : count - cut]
    with np.errstate(over="ignore"):
        means: Values = kept.mean(axis=-1).clip(kept[..., 0], kept[..., -1])
    return means


def sorted_median(runs: Values) -> Values:
    """The middle run, or the mean of the two middle ones.

    Args:
        runs: See `sorted_iqm`.
    """
    count = runs.shape[-1]
    medians: Values = runs[..., (count - 1) // 2] / 2 + runs[..., count // 2] / 2
    return medians


def iqm(runs: Sequence[float]) -> float:
    """The interquartile mean of runs in any order (`sorted_iqm`).

    Raises:
        ValueError: There are no runs, or one is NaN.
    """
    return float(sorted_iqm(checked(runs)))


def median(runs: Sequence[float]) -> float:
    """The median of runs in any order.

    Raises:
        ValueError: There are no runs, or one is NaN.
    """
    return float(sorted_median(checked(runs)))


def estimate(
    strata: Sequence[Sequence[float]],
    statistic: Statistic = sorted_iqm,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> BootstrapInterval:
    """A statistic over the runs of all strata, with its stratified bootstrap interval.

    Every stratum's runs are resampled with replacement; the ends of the interval are the
    percentiles of the statistic over all draws, moved outward to the value in the rare case that it
    lies outside. With 3 to 5 runs per stratum the interval is too narrow, so show the runs, too.

    Source: Agarwal et al. (arXiv:2108.13264), section 4.1 and appendix A.

    Args:
        strata: Runs of each task, each with at least one; not NaN.
        statistic: A function of sorted runs.
        confidence: Coverage.
        resamples: Number of draws.

    Returns:
        The statistic, without an interval if a stratum has only a single run.

    Raises:
        ValueError: There are no runs, or one is NaN.
    """
    ordered = sorted((checked(runs) for runs in strata), key=lambda runs: runs.tolist())
    if not ordered:
        raise ValueError("no strata, no estimate")
    value = float(statistic(np.sort(np.concatenate(ordered))))
    if min(runs.size for runs in ordered) < 2:
        return BootstrapInterval(value)
    draws = [runs[drawn(runs.size, resamples, place)] for place, runs in enumerate(ordered)]
    pooled = draws[0] if len(draws) == 1 else np.sort(np.concatenate(draws, axis=1), axis=1)
    return percentile_interval(value, statistic(pooled), confidence)


def percentile_interval(
    value: float, draws: Values, confidence: float = CONFIDENCE
) -> BootstrapInterval:
    """The percentile interval of resampled statistics.

    Args:
        value: Statistic of the runs themselves.
        draws: (R,) statistics of the resampled runs; may contain infinity.
        confidence: Coverage.

    Raises:
        ValueError: The coverage is not between 0 and 1.
    """
    low, high = percentile_ends(draws[:, None], confidence)
    return BootstrapInterval(value, min(value, float(low[0])), max(value, float(high[0])))


def percentile_ends(draws: Values, confidence: float = CONFIDENCE) -> tuple[Values, Values]:
    """Symmetric percentiles of the draws, without interpolation.

    Args:
        draws: (R, P) draws of P statistics.
        confidence: Coverage.

    Returns:
        Lower and upper ends, (P,) each.

    Raises:
        ValueError: The coverage is not between 0 and 1.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence {confidence} is not between 0 and 1")
    last = len(draws) - 1
    low = max(math.ceil(len(draws) * (1 - confidence) / 2 - 1e-9), 1) - 1
    ordered = np.partition(draws, (low, last - low), axis=0)
    return ordered[low], ordered[last - low]


@lru_cache(maxsize=32)
def drawn(count: int, resamples: int, stratum: int = 0) -> npt.NDArray[np.int64]:
    """Indices of the runs resampled from one stratum.

    Args:
        count: Number of runs in the stratum.
        resamples: Number of draws.
        stratum: The stratum's index: strata are resampled independently.

    Returns:
        (resamples, count), ascending along the last axis; read only.
    """
    rng = np.random.default_rng(stable_seed("stability", "bootstrap", stratum))
    positions = np.sort(rng.integers(0, count, size=(resamples, count)), axis=1)
    positions.setflags(write=False)
    return positions


def checked(runs: Sequence[float]) -> Values:
    """Runs as a sorted array.

    Raises:
        ValueError: There are none, or one is NaN.
    """
    ordered = np.sort(np.array(runs, np.float64))
    if not ordered.size or np.isnan(ordered[-1]):  # NaN sorts to the end
        raise ValueError("needs at least one run, and no NaN")
    return ordered
