"""How often chance alone gives as many collapsed runs: the exact tests of claims about collapse."""

from fractions import Fraction
from itertools import product
from math import ceil, comb, floor
from typing import Final, NamedTuple

RARE: Final = Fraction(1, 40)
"""Chance of what decides such a claim, if nothing is behind it: 2.5% on either side, as with the
intervals of other claims."""


def chance_of_half(count: int, runs: int) -> Fraction:
    """Chance of at least so many collapsed of some runs, where every second one collapses."""
    return Fraction(sum(comb(runs, more) for more in range(count, runs + 1)), 2**runs)


class Counts(NamedTuple):
    """Collapsed runs of two methods on a track.

    Attributes:
        collapsed: Of the first method.
        runs: All of its runs.
        other_collapsed: Of the second method.
        other_runs: All of its runs.
    """

    collapsed: int
    runs: int
    other_collapsed: int
    other_runs: int

    def swapped(self) -> "Counts":
        """The second method first."""
        return Counts(self.other_collapsed, self.other_runs, self.collapsed, self.runs)


def chance_of_more(*tracks: Counts) -> Fraction:
    """Chance that at least so many of the collapsed runs of two methods are the first one's.

    Both are taken to collapse equally often on a track, on each as often as is found there: one
    side of Fisher's exact test, over several tracks of its stratified form.
    """
    ways = {0: Fraction(1)}
    """Chance of each count of the first method's collapsed runs, over the tracks so far."""
    for one in tracks:
        both, together = one.collapsed + one.other_collapsed, one.runs + one.other_runs
        own = {
            count: Fraction(
                comb(one.runs, count) * comb(one.other_runs, both - count), comb(together, both)
            )
            for count in range(max(0, both - one.other_runs), min(one.runs, both) + 1)
        }
        summed: dict[int, Fraction] = {}
        for (before, chance), (count, share) in product(ways.items(), own.items()):
            summed[before + count] = summed.get(before + count, Fraction()) + chance * share
        ways = summed
    found = sum(one.collapsed for one in tracks)
    return sum((chance for count, chance in ways.items() if count >= found), Fraction())


def chance_text(*sides: Fraction) -> str:
    """How rare the rarer side is, rounded so that it does not seem rarer."""
    chance = min(sides)
    odds = 1 / chance
    if odds < 2:
        return f"by chance in {ceil(100 * chance)}% of cases"
    return f"by chance 1 in {floor(odds) if odds >= 10 else floor(10 * odds) / 10:,}"
