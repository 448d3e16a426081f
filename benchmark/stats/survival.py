"""Time to an event or to censoring per run, and survival curves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from benchmark.stats.arrays import Steps, Values
from benchmark.stats.intervals import CONFIDENCE


@dataclass(frozen=True, slots=True, order=True)
class EventOutcome:
    """Outcome of one event in one run.

    Attributes:
        step: The update at which it happened; otherwise the last one at which it had not (the run
            is censored there).
        happened: Whether it happened.
    """

    step: int
    happened: bool


@dataclass(frozen=True, slots=True)
class SurvivalCurve:
    """Share of runs in which an event has not happened, a decreasing step function.

    Attributes:
        steps: (K,) updates at which it happened in a run, or at which a run was last observed.
        survival: (K,) estimated share after each of them; before the first one it is 1.
        low: (K,) lower end of its interval; NaN where the data do not bound it (shares 0 and 1).
        high: (K,) upper end, likewise.
        at_risk: (K,) runs still observed without the event just before.
        happened: (K,) runs in which it happened there.
    """

    steps: Steps
    survival: Values
    low: Values
    high: Values
    at_risk: npt.NDArray[np.int64]
    happened: npt.NDArray[np.int64]

    def at(self, step: int) -> float:
        """The share after an update."""
        place = int(np.searchsorted(self.steps, step, side="right"))
        return float(self.survival[place - 1]) if place else 1.0

    @property
    def median(self) -> int | None:
        """The first update after which at most half survive; None if there is none."""
        half = np.flatnonzero(self.survival <= 0.5 + 1e-12)
        return int(self.steps[half[0]]) if half.size else None


def kaplan_meier(outcomes: Sequence[EventOutcome], confidence: float = CONFIDENCE) -> SurvivalCurve:
    """The product-limit estimate of survival, with runs of different lengths.

    `S(t) = prod_{t_i <= t} (1 - d_i / n_i)`: d_i of the n_i runs observed until t_i collapse then.
    A run that was last observed at t_i counts among the n_i. Intervals are those of
    `log(-log S)` with Greenwood's variance: `S ** exp(+-z sqrt(V) / log S)`,
    `V = sum_{t_i <= t} d_i / (n_i (n_i - d_i))`.

    Source: Kaplan and Meier, JASA 53 (1958) 457-481; Kalbfleisch and Prentice, The Statistical
    Analysis of Failure Time Data (2002), section 1.4, for the interval.

    Args:
        outcomes: One per run, in any order.
        confidence: Coverage at every single update.

    Raises:
        ValueError: There are no runs.
    """
    if not outcomes:
        raise ValueError("no runs, no survival")
    seen = np.array([outcome.step for outcome in outcomes], np.int64)
    ended = np.array([outcome.happened for outcome in outcomes], np.bool_)
    steps, places = np.unique(seen, return_inverse=True)
    leaving = np.bincount(places, minlength=steps.size)
    happened = np.bincount(places[ended], minlength=steps.size).astype(np.int64)
    at_risk = (seen.size - np.cumsum(leaving) + leaving).astype(np.int64)
    survival: Values = np.cumprod(1 - happened / at_risk, dtype=np.float64)
    low, high = _log_log_interval(survival, at_risk, happened, confidence)
    return SurvivalCurve(steps, survival, low, high, at_risk, happened)


def _log_log_interval(
    survival: Values,
    at_risk: npt.NDArray[np.int64],
    happened: npt.NDArray[np.int64],
    confidence: float,
) -> tuple[Values, Values]:
    low, high = np.full((2, survival.size), math.nan)
    inside = (survival > 0) & (survival < 1)
    spared = at_risk - happened
    terms = np.zeros(survival.size)
    np.divide(happened, at_risk * spared, out=terms, where=spared > 0)
    log_survival = np.log(survival[inside])
    z = float(special.ndtri((1 + confidence) / 2))
    width = z * np.sqrt(np.cumsum(terms)[inside]) / -log_survival
    low[inside] = np.exp(log_survival * np.exp(width))
    high[inside] = np.exp(log_survival * np.exp(-width))
    return low, high
