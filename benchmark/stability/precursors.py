"""Which signal moves before a training run collapses, and by how many updates.

A signal has moved where it leaves what it was at the beginning of the run. With b the first 5
values of one number of the updates, and d_t = |x_t - median(b)|, it moves at the first update t
after those with d_t > 3 max_b d, which holds for the next value, too. Numbers whose order of
magnitude matters (KL, gradient norms, ratios) are compared by their logarithms. What overflowed has
moved.

Source: this project's definition; a plain one, so that it judges runs of 15 updates as well.
"""

from collections.abc import Mapping
from statistics import median
from typing import Final

import numpy as np

from benchmark.logs.curves import Points

FIRST: Final = 5
"""Updates that say what a signal is like before anything happens."""
TIMES: Final = 3.0
"""How many times further away than any of them."""
PATIENCE: Final = 2
"""Consecutive updates that must agree."""
_LEAST: Final = 1e-9
"""Distance below which nothing has moved: constants differ by rounding."""


def moved_at(curve: Points, log_scale: bool = False) -> int | None:
    """The first update at which a signal has left the range that it began in.

    Args:
        curve: One value for each update; what is not finite has left every range.
        log_scale: Whether its logarithm counts; values that are not above 0 are then left out.

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
    """The first update at which a signal can be found to have moved.

    A run that collapses no later than this could show no warning: it is not one without.

    Args:
        curve: As for `moved_at`.
        log_scale: Likewise; the values that are left out make it later.

    Returns:
        An update; None if there are too few values, or the first ones are not finite.
    """
    compared = _compared(curve, log_scale)
    return None if compared is None else int(compared.steps[FIRST])


def _compared(curve: Points, log_scale: bool) -> Points | None:
    """What is compared with its first values; None if that is not possible at any update."""
    steps, values = curve.steps, curve.values
    if log_scale:
        keep = ~(values <= 0)
        steps, values = steps[keep], np.log(values[keep])
    if values.size < FIRST + PATIENCE or not np.isfinite(values[:FIRST]).all():
        return None
    return Points(steps, values)


def first_movers(moves: Mapping[str, int | None]) -> tuple[str, ...]:
    """The signals that moved before all others; several if they moved at one update.

    Args:
        moves: Updates by signal, of one run; None where it did not move.
    """
    known = {name: step for name, step in moves.items() if step is not None}
    return tuple(name for name, step in known.items() if step == min(known.values()))


def median_lead(leads: list[int]) -> float | None:
    """Updates between the move of a signal and the loss, median over runs."""
    return median(leads) if leads else None
