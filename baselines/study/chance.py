"""How often chance alone gives as many collapsed runs: the exact tests of claims about collapse."""

from fractions import Fraction
from math import ceil, comb, floor
from typing import Final

RARE: Final = Fraction(1, 40)
"""Chance of what decides such a claim, if nothing is behind it: 2.5% on either side, as with the
intervals of other claims."""


def chance_of_half(count: int, runs: int) -> Fraction:
    """Chance of at least so many collapsed of some runs, where every second one collapses."""
    return Fraction(sum(comb(runs, more) for more in range(count, runs + 1)), 2**runs)


def chance_of_more(count: int, runs: int, other_count: int, other_runs: int) -> Fraction:
    """Chance that at least so many of the collapsed runs of two methods are the first one's.

    Both are taken to collapse equally often: one side of Fisher's exact test.

    Args:
        count: Collapsed runs of the first method.
        runs: All of its runs.
        other_count: Collapsed runs of the second method.
        other_runs: All of its runs.
    """
    collapsed = count + other_count
    ways = sum(
        comb(runs, own) * comb(other_runs, collapsed - own)
        for own in range(count, min(runs, collapsed) + 1)
    )
    return Fraction(ways, comb(runs + other_runs, collapsed))


def chance_text(*sides: Fraction) -> str:
    """How rare the rarer side is, rounded so that it does not seem rarer."""
    chance = min(sides)
    odds = 1 / chance
    if odds < 2:
        return f"by chance in {ceil(100 * chance)}% of cases"
    return f"by chance 1 in {floor(odds) if odds >= 10 else floor(10 * odds) / 10:,}"
