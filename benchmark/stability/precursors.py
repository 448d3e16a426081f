"""Which signal moves before a training run collapses, and by how many updates.

A signal moves when it leaves its range from the beginning of the run. With b the first 5 values of
one number of the updates, and d_t = |x_t - median(b)|, it moves at the first later update t with
d_t > 3 max_b d, if this also holds for the next value. Numbers whose order of magnitude matters
(KL, gradient norms, ratios) are compared by their logarithms. A value that overflowed has moved.

Source: this project's definition, kept simple so that it also works for runs of 15 updates.
"""

from collections.abc import Mapping
from statistics import median
from typing import Final

import numpy as np

from benchmark.logs.curves import Points

FIRST: Final = 5
"""Updates that define a signal's initial range."""
TIMES: Final = 3.0
"""Required distance, as a multiple of the largest among these."""
PATIENCE: Final = 2
"""Consecutive updates that must agree."""
_LEAST: Final = 1e-9
"""Smaller distances do not count as movement: constants differ by rounding."""


def moved_at(curve: Points, log_scale: bool = False) -> int | None:
    """The first update at which a signal has left its initial range.

    Args:
        curve: One value per update; non-finite values are outside every range.
        log_scale: Whether to use its logarithm; values that are not above 0 are then left out.

    Returns:
        An update; None if it never does, or there are too few values.
    """
    compared = _compared(curve, log_scale)
    if compared is None:
        return None
    steps, values = compared.steps, compared.values
    middle = float(np.median(values[:FIRST]))
    limit = max(TIMES * float(np.abs(values[:FIRST] - middle).max()), _LEAST)
    away = ~(np.abs(values - middle) <= limit)
    for place in range(FIRST, values.size - PATIENCE + 1):
        if away[place : place + PATIENCE].all():
            return int(steps[place])
    return None


def first_judged(curve: Points, log_scale: bool = False) -> int | None:
    """The first update at which a movement of a signal can be detected.

    A run that collapses no later than this cannot show a warning and does not count as one without.

    Args:
        curve: See `moved_at`.
        log_scale: Likewise; values that are left out make it later.

    Returns:
        An update; None if there are too few values, or the first ones are not finite.
    """
    compared = _compared(curve, log_scale)
    return None if compared is None else int(compared.steps[FIRST])


def _compared(curve: Points, log_scale: bool) -> Points | None:
    """The curve to compare with its first values; None if no update can be compared."""
    steps, values = curve.steps, curve.values
    if log_scale:
        keep = ~(values <= 0)
        steps, values = steps[keep], np.log(values[keep])
    if values.size < FIRST + PATIENCE or not np.isfinite(values[:FIRST]).all():
        return None
    return Points(steps, values)


def first_movers(moves: Mapping[str, int | None]) -> tuple[str, ...]:
    """The signals that moved before all others; several if they moved at the same update.

    Args:
        moves: Updates by signal for one run; None if a signal did not move.
    """
    known = {name: step for name, step in moves.items() if step is not None}
    return tuple(name for name, step in known.items() if step == min(known.values()))


def median_lead(leads: list[int]) -> float | None:
    """Median over runs of the updates between a signal's movement and the loss."""
    return median(leads) if leads else None
