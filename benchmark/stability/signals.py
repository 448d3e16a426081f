"""Warning signs in the metrics of the updates: gradient spikes, entropy, degenerate text.

Rules on one curve with one value for each update. Values that are not finite are skipped here
and counted by whoever asks: a spike that overflowed is another kind of fault.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmark.logs.curves import Points
from benchmark.stats.arrays import Values

HISTORY = 50
"""Earlier updates that a gradient norm is compared with."""
LEAST_HISTORY = 10
"""Fewer of them say nothing of the spread."""
DEVIATIONS = 6.0
MAD_TO_STD = 1.4826
"""Standard deviation of a normal distribution by its median absolute deviation."""

BASELINE = 10
"""Updates whose mean entropy is the measure for later ones."""
ENTROPY_LOW = 0.2
ENTROPY_HIGH = 3.0

DEGENERATE = 0.5
"""Share of degenerate responses above which a policy counts as degenerate."""
PATIENCE = 3
"""Consecutive updates that must agree on it."""

_TIE = 1e-9
"""Relative difference up to which two numbers are equal: constants have no spikes."""


@dataclass(frozen=True, slots=True)
class Spikes:
    """Spikes of one curve.

    Attributes:
        steps: (k,) updates with a spike.
        judged: Updates with enough of a history to be judged.
    """

    steps: npt.NDArray[np.int64]
    judged: int

    @property
    def per_100(self) -> float | None:
        """Spikes in 100 judged updates; None without any."""
        return 100 * self.steps.size / self.judged if self.judged else None


def spikes_of(curve: Points, resolution: float = 0.0) -> Spikes:
    """Values far above those before them, by a rule that earlier spikes do not blunt.

    `g_t > med + 6 * 1.4826 * mad`, where med is the median of the last 50 values before t and mad
    the median of their absolute distances from it. A value with fewer than 10 before it is not
    judged.

    Where a log rounds to a unit u, `g_t > med + 6 * 1.4826 * (mad + u) + u` takes its place: g and
    med may be half a unit off and mad a whole one, so that only those are left that are spikes
    whatever was rounded away.

    Source: the rule of Hampel (JASA 69, 1974, 383-393) on a trailing window.

    Args:
        curve: Gradient norms before clipping, one for each update.
        resolution: The unit u of the last decimal that they were rounded to; 0 for none.
    """
    finite = curve.finite
    values = finite.values
    judged = values[LEAST_HISTORY:]
    if not judged.size:
        return Spikes(np.array([], np.int64), 0)
    # The windows of all judged values in one table; NaN stands where a history is shorter.
    padded = np.concatenate([np.full(HISTORY, np.nan), values[:-1]])
    windows = np.lib.stride_tricks.sliding_window_view(padded, HISTORY)[LEAST_HISTORY:]
    counts = np.minimum(np.arange(LEAST_HISTORY, values.size), HISTORY)
    middle = _row_medians(windows, counts)
    mad = _row_medians(np.abs(windows - middle[:, None]), counts)
    spread = DEVIATIONS * MAD_TO_STD * (mad + resolution)
    limits = middle + spread + resolution + _TIE * np.abs(middle)
    return Spikes(finite.steps[LEAST_HISTORY:][judged > limits], judged.size)


def _row_medians(rows: Values, counts: npt.NDArray[np.int64]) -> Values:
    """Medians of rows, (n, w) to (n,), each of so many numbers and NaN for the rest."""
    ordered = np.sort(rows, axis=1)  # NaN comes last; faster here than np.median's partition
    at = np.arange(len(rows))
    medians: Values = ordered[at, (counts - 1) // 2] / 2 + ordered[at, counts // 2] / 2
    return medians


def peak(curve: Points) -> float | None:
    """The largest value by the median: `max g / median g`.

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
        entropy: Entropy of the next token under the full softmax, one value for each update.

    Returns:
        An update; None if there is none or the curve cannot say (`entropy_baseline`).
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
        entropy: As for `entropy_collapse_step`.

    Returns:
        An update; None if there is none or the curve cannot say (`entropy_baseline`).
    """
    baseline = entropy_baseline(entropy)
    if baseline is None:
        return None
    return _first(entropy, entropy.finite.values > ENTROPY_HIGH * baseline * (1 + _TIE))


def _first(entropy: Points, flags: npt.NDArray[np.bool_]) -> int | None:
    """The update of the first flag behind the baseline."""
    found = np.flatnonzero(flags[BASELINE:])
    return int(entropy.finite.steps[BASELINE + found[0]]) if found.size else None


def degenerate_step(repeated: Points) -> int | None:
    """Where a policy falls into repetitions: most of its responses are degenerate, 3 times.

    `v_t > 0.5` for 3 consecutive updates. A response is degenerate if more than half of its
    4-grams repeat earlier ones.

    Source: this project's definition.

    Args:
        repeated: Share of degenerate responses, one value for each update.

    Returns:
        The first of the three updates; None without them.
    """
    finite = repeated.finite
    if finite.values.size < PATIENCE:
        return None
    high = np.lib.stride_tricks.sliding_window_view(finite.values > DEGENERATE, PATIENCE)
    found = np.flatnonzero(high.all(axis=1))
    return int(finite.steps[found[0]]) if found.size else None
