"""Warning signs in the metrics of the updates: gradient spikes, entropy, degenerate text.

Rules on one curve with one value per update. Values that are not finite are skipped here and
counted by the caller: a spike that overflowed is a different kind of fault.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmark.logs.curves import Points
from benchmark.stats.arrays import Values

HISTORY = 50
"""Number of earlier updates that a gradient norm is compared with."""
LEAST_HISTORY = 10
"""Minimum number of them for estimating the spread."""
DEVIATIONS = 6.0
MAD_TO_STD = 1.4826
"""Ratio of a normal distribution's standard deviation to its median absolute deviation."""

BASELINE = 10
"""Number of first updates whose mean entropy is the baseline."""
ENTROPY_LOW = 0.2
ENTROPY_HIGH = 3.0

DEGENERATE = 0.5
"""Share of degenerate responses above which a policy counts as degenerate."""
PATIENCE = 3
"""Number of consecutive updates that must agree."""

_TIE = 1e-9
"""Relative difference up to which two numbers count as equal: constants have no spikes."""


@dataclass(frozen=True, slots=True)
class Spikes:
    """Spikes of one curve.

    Attributes:
        steps: (k,) updates with a spike.
        judged: Number of updates with enough history to be judged.
    """

    steps: npt.NDArray[np.int64]
    judged: int

    @property
    def per_100(self) -> float | None:
        """Spikes per 100 judged updates; None without any."""
        return 100 * self.steps.size / self.judged if self.judged else None


def spikes_of(curve: Points, resolution: float = 0.0) -> Spikes:
    """Find values far above earlier ones, with a rule that is robust to earlier spikes.

    `g_t > med + 6 * 1.4826 * mad`, where med is the median of the last 50 values before t and mad
    the median of their absolute distances from it. A value with fewer than 10 before it is not
    judged.

    If a log rounds to a unit u, the rule is `g_t > med + 6 * 1.4826 * (mad + u) + u`: g and med may
    be half a unit off and mad a whole one, so these are spikes whatever was lost by rounding.

    Source: the rule of Hampel (JASA 69, 1974, 383-393) on a trailing window.

    Args:
        curve: Gradient norms before clipping, one per update.
        resolution: The unit u of the last decimal to which they were rounded; 0 for none.
    """
    finite = curve.finite
    values = finite.values
    judged = values[LEAST_HISTORY:]
    if not judged.size:
        return Spikes(np.array([], np.int64), 0)
    # The windows of all judged values in one table, with NaN for a shorter history.
    padded = np.concatenate([np.full(HISTORY, np.nan), values[:-1]])
    windows = np.lib.stride_tricks.sliding_window_view(padded, HISTORY)[LEAST_HISTORY:]
    counts = np.minimum(np.arange(LEAST_HISTORY, values.size), HISTORY)
    middle = _row_medians(windows, counts)
    mad = _row_medians(np.abs(windows - middle[:, None]), counts)
    spread = DEVIATIONS * MAD_TO_STD * (mad + resolution)
    limits = middle + spread + resolution + _TIE * np.abs(middle)
    return Spikes(finite.steps[LEAST_HISTORY:][judged > limits], judged.size)


def _row_medians(rows: Values, counts: npt.NDArray[np.int64]) -> Values:
    """Medians of rows, (n, w) to (n,); each row has `counts` numbers and otherwise NaN."""
    ordered = np.sort(rows, axis=1)  # NaN comes last; faster here than np.median's partition
    at = np.arange(len(rows))
    medians: Values = ordered[at, (counts - 1) // 2] / 2 + ordered[at, counts // 2] / 2
    return medians


def peak(curve: Points) -> float | None:
    """The largest value divided by the median: `max g / median g`.

    Returns:
        A ratio, at least 1; None without finite values or with a median that is not above 0.
    """
    values = curve.finite.values
    middle = float(np.median(values)) if values.size else 0.0
    return float(values.max()) / middle if middle > 0 else None


def entropy_baseline(entropy: Points) -> float | None:
    """Mean entropy of the first 10 updates.

    Returns:
        In nats, above 0; None if there are no more than 10 updates, or they have no entropy.
    """
    values = entropy.finite.values
    baseline = float(values[:BASELINE].mean()) if values.size > BASELINE else 0.0
    return baseline if baseline > 0 else None


def entropy_collapse_step(entropy: Points) -> int | None:
    """The first update with less than a fifth of the entropy at the beginning.

    `H_t < 0.2 mean(H_1, ..., H_10)`, t > 10.

    Source: this project's definition.

    Args:
        entropy: Entropy of the next token under the full softmax, one value per update.

    Returns:
        An update; None if there is none or there is no `entropy_baseline`.
    """
    baseline = entropy_baseline(entropy)
    if baseline is None:
        return None
    return _first(entropy, entropy.finite.values < ENTROPY_LOW * baseline * (1 - _TIE))


def entropy_explosion_step(entropy: Points) -> int | None:
    """The first update with more than three times the entropy at the beginning.

    `H_t > 3 mean(H_1, ..., H_10)`, t > 10.

    Source: this project's definition.

    Args:
        entropy: See `entropy_collapse_step`.

    Returns:
        An update; None if there is none or there is no `entropy_baseline`.
    """
    baseline = entropy_baseline(entropy)
    if baseline is None:
        return None
    return _first(entropy, entropy.finite.values > ENTROPY_HIGH * baseline * (1 + _TIE))


def _first(entropy: Points, flags: npt.NDArray[np.bool_]) -> int | None:
    """The update of the first flag after the baseline."""
    found = np.flatnonzero(flags[BASELINE:])
    return int(entropy.finite.steps[BASELINE + found[0]]) if found.size else None


def degenerate_step(repeated: Points) -> int | None:
    """The update from which most of a policy's responses are degenerate, 3 times in a row.

    `v_t > 0.5` for 3 consecutive updates. A response is degenerate if more than half of its
    4-grams repeat earlier ones.

    Source: this project's definition.

    Args:
        repeated: Share of degenerate responses, one value per update.

    Returns:
        The first of the three updates; None if there are none.
    """
    finite = repeated.finite
    if finite.values.size < PATIENCE:
        return None
    high = np.lib.stride_tricks.sliding_window_view(finite.values > DEGENERATE, PATIENCE)
    found = np.flatnonzero(high.all(axis=1))
    return int(finite.steps[found[0]]) if found.size else None
