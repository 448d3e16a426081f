"""Several runs over the course of training: their average and spread at any time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmark.logs.curves import Points, RunCurves
from benchmark.stability.curves import running_totals, smoothed_curve
from benchmark.stats.arrays import Values
from benchmark.stats.bands import at_common_places
from benchmark.stats.bootstrap import drawn, percentile_ends, sorted_iqm

XAxis = Literal["updates", "tokens", "seconds"]

ANYTIME_RESAMPLES = 2_000
_BATCH = 4_000_000  # numbers drawn at once: limits memory without affecting results


@dataclass(frozen=True, slots=True)
class AnytimeCurve:
    """Success of the seeds during training, where all of them have values.

    Attributes:
        axis: What `x` counts.
        x: (P,) positions at which at least one seed was evaluated.
        iqm: (P,) interquartile mean of the seeds.
        low: (P,) lower ends of its pointwise bootstrap intervals; None with a single seed.
        high: (P,) upper ends, likewise.
        worst: (P,) the lowest seed.
    """

    axis: XAxis
    x: Values
    iqm: Values
    low: Values | None
    high: Values | None
    worst: Values


def dispersion_across_runs(curves: Sequence[Points]) -> float | None:
    """Spread of the runs: the mean over time of the interquartile range over runs.

    Curves are first smoothed over 3 evaluations (the low-pass filter of the source), then compared
    at every update at which any was evaluated and that all cover, with linear interpolation.

    Source: Chan et al. (ICLR 2020, arXiv:1912.05663), section 3 ("dispersion across runs").

    Args:
        curves: One curve per run.

    Returns:
        In the curves' unit; None with fewer than 2 runs or without a common update.
    """
    if len(curves) < 2:
        return None
    smooth = [smoothed_curve(curve) for curve in curves]
    common = at_common_places([(c.steps.astype(np.float64), c.values) for c in smooth])
    if common is None:
        return None
    _, values = common
    low, high = np.quantile(values, [0.25, 0.75], axis=0)
    return float((high - low).mean())


def anytime_curve(
    runs: Sequence[RunCurves],
    success: str,
    axis: XAxis = "updates",
    resamples: int = ANYTIME_RESAMPLES,
) -> AnytimeCurve | None:
    """The anytime performance of a recipe: the IQM of success over its seeds during training.

    The shortest run ends the curve, since the remaining ones would be a selection of survivors.
    Between two evaluations, a seed's success is interpolated linearly.

    Source: Agarwal et al. (NeurIPS 2021, arXiv:2108.13264), section 4.2 (sample efficiency).

    Args:
        runs: Seeds of one recipe, at least one.
        success: Name of the curve.
        axis: Updates, response tokens sampled, or seconds of compute.
        resamples: Number of bootstrap draws.

    Returns:
        The curve; None if a log lacks success or the axis, or the runs share no position.

    Raises:
        ValueError: There are no runs.
    """
    if not runs:
        raise ValueError("no runs, no curve")
    lines = [_along(run, success, axis) for run in runs]
    whole = [line for line in lines if line is not None and line[0].size]
    if len(whole) < len(runs):
        return None
    if (common := at_common_places(whole)) is None:
        return None
    x, values = common
    ordered = np.sort(values, axis=0)
    middle, worst = sorted_iqm(ordered.T), ordered[0]
    if len(runs) < 2:
        return AnytimeCurve(axis, x, middle, None, None, worst)
    rows = drawn(len(runs), resamples)
    low, high = np.empty((2, x.size))
    step = max(1, _BATCH // rows.size)
    for start in range(0, x.size, step):
        part = slice(start, start + step)
        # Runs are already sorted at each position, and so are the resampled ones.
        draws = sorted_iqm(ordered.T[part][:, rows]).T
        low[part], high[part] = percentile_ends(draws)
    return AnytimeCurve(axis, x, middle, np.minimum(low, middle), np.maximum(high, middle), worst)


def _along(run: RunCurves, success: str, axis: XAxis) -> tuple[Values, Values] | None:
    """A run's success along an axis, (T,) and (T,); None if the log does not show it."""
    if success not in run.curves:
        return None
    curve = run.curves[success].finite
    if axis == "updates":
        return curve.steps.astype(np.float64), curve.values
    total = run.tokens if axis == "tokens" else run.seconds
    places = None if total is None else running_totals(total, curve.steps)
    if places is None or np.isnan(places).any():
        return None
    return places, curve.values
