"""Newcombe's interval by the formula for one pair, to compare with the product's matrix form."""

import math

from benchmark.stats.intervals import Interval, wilson


def newcombe_paired(both: int, only_first: int, only_second: int, neither: int) -> Interval:
    """Score interval of the difference (first minus second) of two paired success rates.

    Newcombe's method 10. With the Wilson intervals [l1, u1] and [l2, u2] of the two rates:
    low = d - sqrt((p1-l1)^2 - 2 phi (p1-l1)(u2-p2) + (u2-p2)^2),
    high = d + sqrt((p2-l2)^2 - 2 phi (p2-l2)(u1-p1) + (u1-p1)^2).
    phi is the correlation of the paired outcomes a (both), b, c, d (neither): its numerator ad - bc
    is reduced by n/2, at most to 0, if it is positive; phi is 0 if a rate is 0 or 1.
    The bounds stay in [-1, 1]; two identical players still get an interval of positive width.

    Source: Newcombe, Stat. Med. 17 (1998) 2635-2650, method 10.

    Raises:
        ValueError: There are no pairs, or a count is negative.
    """
    total = both + only_first + only_second + neither
    if total == 0 or min(both, only_first, only_second, neither) < 0:
        raise ValueError("needs at least one pair and no negative counts")
    first = wilson(both + only_first, total)
    second = wilson(both + only_second, total)
    phi = _corrected_phi(both, only_first, only_second, neither)
    value = (only_first - only_second) / total

    def side(inner: float, outer: float) -> float:
        return math.sqrt(max(0.0, inner**2 - 2 * phi * inner * outer + outer**2))

    low = value - side(first.value - first.low, second.high - second.value)
    high = value + side(second.value - second.low, first.high - first.value)
    return Interval(value, max(-1.0, low), min(1.0, high))


def _corrected_phi(both: int, only_first: int, only_second: int, neither: int) -> float:
    margins = (both + only_first) * (only_second + neither) * (both + only_second)
    margins *= only_first + neither
    if margins == 0:
        return 0.0
    total = both + only_first + only_second + neither
    product = both * neither - only_first * only_second
    numerator = max(product - total / 2, 0.0) if product > 0 else product
    return numerator / math.sqrt(margins)
