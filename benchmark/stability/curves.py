"""Stability metrics of one learning curve: drawdowns, risks, spread, time to a level.

Every function takes one curve (`Points`: values along updates) and returns one number, or None if
the curve has too few points. Points that are not finite are skipped. Success curves are in [0, 1]
and are never scaled by their own range, which would make an almost constant run look volatile.
Quantiles are linear between order statistics (type 7 of Hyndman and Fan, 1996), numpy's default.
"""

import math

import numpy as np

from benchmark.logs.curves import Points
from benchmark.stability.collapse import running_best, smoothed
from benchmark.stats.arrays import Steps, Values

TAIL = 0.1
"""Share of the worst points over which a risk is averaged. A validation curve has about 30 points,
of which the customary 5% would be one or two."""
SPREAD_WINDOW = 10
"""Number of changes in a window of `dispersion_across_time`."""
LATE = 0.2
"""Share of a run's updates that count as its end."""

_TIE = 1e-12
"""Quantiles of equal numbers may differ from them by this much through rounding."""


def smoothed_curve(curve: Points) -> Points:
    """Trailing means over 3 evaluations (`collapse.smoothed`), without non-finite values."""
    finite = curve.finite
    means = smoothed(finite.values.tolist())
    return Points(finite.steps, np.array(means, np.float64))


def drawdowns(curve: Points) -> Values:
    """How far below its best the curve is: `D_t = max(y_k for k <= t) - y_t`.

    Source: Chan et al. (ICLR 2020, arXiv:1912.05663), section 3.

    Returns:
        (T,) not negative, one per finite point.
    """
    values = curve.finite.values
    falls: Values = np.maximum.accumulate(values) - values
    return falls


def max_drawdown(curve: Points) -> float | None:
    """The largest drawdown: `max_t D_t`, not smoothed.

    Evaluation noise alone makes it larger than 0, so compare it only between curves with equally
    many evaluations on equally many episodes.

    Source: Chan et al. (arXiv:1912.05663), section 3.

    Returns:
        In the curve's unit, at least 0; None with fewer than 2 points.
    """
    falls = drawdowns(curve)
    return float(falls.max()) if falls.size > 1 else None


def area_lost(curve: Points) -> float | None:
    """The mean drawdown: `(1/T) sum_t D_t`.

    Source: this project's, after the drawdown of Chan et al. (arXiv:1912.05663); the root mean
    square would be Martin's ulcer index (1987).

    Returns:
        In the curve's unit, at least 0; None with fewer than 2 points.
    """
    falls = drawdowns(curve)
    return float(falls.mean()) if falls.size > 1 else None


def retention(curve: Points) -> float | None:
    """Share of its best success that a run keeps at the end: `R = m_T / b_T`, smoothed.

    `m_t` is the mean of 3 evaluations, `b_T` the largest of them.

    Source: this project's definition.

    Returns:
        A share in [0, 1] for curves that are not negative; None with fewer than 2 points, or if the
        best is not above 0.
    """
    means = smoothed_curve(curve).values.tolist()
    if len(means) < 2:
        return None
    best = running_best(means)[-1]
    return means[-1] / best if best is not None and best > 0 else None


def changes(curve: Points) -> Values:
    """Changes per update: `d_t = (y_{t+1} - y_t) / (x_{t+1} - x_t)`.

    Returns:
        (T-1,) in the curve's unit per update; empty with fewer than 2 points.
    """
    finite = curve.finite
    slopes: Values = np.diff(finite.values) / np.diff(finite.steps)
    return slopes


def short_term_risk(curve: Points, tail: float = TAIL) -> float | None:
    """The mean of the worst drops from one evaluation to the next.

    `-mean(d_i for d_i <= quantile(d, tail))` of the changes d: minus their lower CVaR, so that
    higher is worse, as for all risks here. Below 0 if even the worst changes are gains.

    Source: Chan et al. (arXiv:1912.05663), section 3 ("short-term risk across time").

    Args:
        curve: The curve.
        tail: Share of the changes that count as the worst, in (0, 1].

    Returns:
        In the curve's unit per update; None with fewer than 2 points.
    """
    falls = -changes(curve)
    return _upper_mean(falls, tail) if falls.size else None


def long_term_risk(curve: Points, tail: float = TAIL) -> float | None:
    """The mean of the deepest drawdowns: `mean(D_t for D_t >= quantile(D, 1 - tail))`.

    This is the upper tail of the drawdowns. Their lower tail, which some published settings use, is
    0 for every curve that rises first, whatever follows.

    Source: Chan et al. (arXiv:1912.05663), section 3 ("long-term risk across time").

    Args:
        curve: The curve.
        tail: Share of the drawdowns that count as the deepest, in (0, 1].

    Returns:
        In the curve's unit, at least 0; None with fewer than 2 points.
    """
    falls = drawdowns(curve)
    return _upper_mean(falls, tail) if falls.size > 1 else None


def dispersion_across_time(curve: Points, window: int = SPREAD_WINDOW) -> float | None:
    """Volatility of a curve from one evaluation to the next, regardless of its trend.

    The interquartile range of the changes per update in every window of consecutive changes, then
    the mean over the windows; if there are fewer changes, they form one window. Differencing
    removes the trend.

    Source: Chan et al. (arXiv:1912.05663), section 3 ("dispersion across time").

    Args:
        curve: The curve.
        window: Number of changes in a window, at least 2.

    Returns:
        In the curve's unit per update, at least 0; None with fewer than 2 changes.
    """
    if window < 2:
        raise ValueError(f"one change has no spread: a window has at least 2, not {window}")
    slopes = changes(curve)
    if slopes.size < 2:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(slopes, min(window, slopes.size))
    low, high = np.quantile(windows, [0.25, 0.75], axis=1)
    return float((high - low).mean())


def late_std(curve: Points, share: float = LATE) -> float | None:
    """Standard deviation of the values in the last share of the updates.

    Over all points with `x_t >= x_T - share (x_T - x_0)`; the population standard deviation.

    Source: ARLArena's stability criterion for tuning is its square, the variance of the success
    rate over the last 20% of the steps.

    Returns:
        In the curve's unit, at least 0; None if there are fewer than 2 such points.
    """
    finite = curve.finite
    if finite.steps.size < 2:
        return None
    first, last = int(finite.steps[0]), int(finite.steps[-1])
    late = finite.values[finite.steps >= last - share * (last - first)]
    return float(late.std()) if late.size > 1 else None


def mean_over_time(curve: Points) -> float | None:
    """Area under the curve divided by its length: the value of a run that may stop at any time.

    `sum_t (y_t + y_{t+1}) (x_{t+1} - x_t) / 2 / (x_T - x_0)`, the trapezoidal rule.

    Returns:
        In the curve's unit, within the range of its values; None with fewer than 2 points.
    """
    finite = curve.finite
    if finite.steps.size < 2:
        return None
    gaps = np.diff(finite.steps)
    middles = finite.values[:-1] / 2 + finite.values[1:] / 2
    return float(np.average(middles, weights=gaps))


def slope(curve: Points, per: int = 100) -> float | None:
    """The slope of the least-squares line: `sum (x - x') (y - y') / sum (x - x')^2`.

    Args:
        curve: The curve.
        per: Number of updates per which the slope is given.

    Returns:
        In the curve's unit per `per` updates; None with fewer than 2 points.
    """
    finite = curve.finite
    if finite.steps.size < 2:
        return None
    steps = finite.steps - finite.steps.mean()
    values = finite.values - finite.values.mean()
    return per * float(steps @ values / (steps @ steps))


def step_to_reach(smooth: Points, level: float) -> int | None:
    """The first update at which a curve is at `level` or above.

    Args:
        smooth: A smoothed curve (`smoothed_curve`): one lucky evaluation is not enough.
        level: In the curve's unit.

    Returns:
        An update of the curve; None if it never gets there.
    """
    reached = np.flatnonzero(smooth.values >= level - _TIE)
    return int(smooth.steps[reached[0]]) if reached.size else None


def running_totals(total: Points, steps: Steps) -> Values:
    """A running total (tokens, seconds) at given updates, linear between known updates.

    Args:
        total: Running total after updates; it is 0 before the first one.
        steps: (T,) the updates, not negative.

    Returns:
        (T,) in the total's unit; NaN after the last known update.
    """
    finite = total.finite
    if not finite.steps.size:
        return np.full(steps.shape, math.nan)
    known, values = finite.steps, finite.values
    if known[0] > 0:
        known, values = np.append(0, known), np.append(0.0, values)
    totals: Values = np.interp(steps, known, values, right=math.nan)
    return totals


def upper_quantile(curve: Points, share: float) -> float | None:
    """A quantile of a number for which larger is worse.

    Unlike elsewhere, a value that is not finite counts as larger than all others, because a number
    that overflowed was not small. So the quantile can be infinite.

    Returns:
        In the curve's unit; None for a curve without points.
    """
    values = np.sort(np.where(np.isfinite(curve.values), curve.values, np.inf))
    if not values.size:
        return None
    place = (values.size - 1) * share
    low, high = values[math.floor(place)], values[math.ceil(place)]
    if not np.isfinite(high):
        return float(high if place > math.floor(place) else low)
    return float(low + (high - low) * (place - math.floor(place)))


def _upper_mean(values: Values, tail: float) -> float:
    """Upper CVaR: the mean of values at or above the quantile of `1 - tail`."""
    if not 0 < tail <= 1:
        raise ValueError(f"a tail is a share above 0, not {tail}")
    limit = np.quantile(values, 1 - tail)
    return float(values[values >= limit - _TIE * np.abs(values).max()].mean())
