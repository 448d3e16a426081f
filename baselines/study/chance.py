"""Probability of as many collapsed runs by chance: the exact tests of claims about collapse."""

from fractions import Fraction
from itertools import product
from math import ceil, comb, floor
from typing import Final, NamedTuple

RARE: Final = Fraction(1, 40)
"""Significance level for such a claim: 2.5% on each side, as with the intervals of other claims."""


def chance_of_half(count: int, runs: int) -> Fraction:
    """Probability of at least `count` collapses among `runs` if half of all runs collapse."""
    return Fraction(sum(comb(runs, more) for more in range(count, runs + 1)), 2**runs)


class Counts(NamedTuple):
    """Collapsed runs of two methods on a track.

    Attributes:
        collapsed: Collapsed runs of the first method.
        runs: All runs of the first method.
        other_collapsed: Collapsed runs of the second method.
        other_runs: All runs of the second method.
    """

    collapsed: int
    runs: int
    other_collapsed: int
    other_runs: int

    def swapped(self) -> "Counts":
        """The counts with the methods swapped."""
        return Counts(self.other_collapsed, self.other_runs, self.collapsed, self.runs)


def chance_of_more(*tracks: Counts) -> Fraction:
    """Probability that at least this many of two methods' collapsed runs are the first one's.

    Under the null hypothesis both methods collapse equally often on a track, given its observed
    total: a one-sided Fisher's exact test, stratified over several tracks.
    """
    ways = {0: Fraction(1)}
    """Probability of each number of the first method's collapsed runs, over the tracks so far."""
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
    """Text with the smaller probability, rounded up so as not to exaggerate."""
    chance = min(sides)
    odds = 1 / chance
    if odds < 2:
        return f"by chance in {ceil(100 * chance)}% of cases"
    return f"by chance 1 in {floor(odds) if odds >= 10 else floor(10 * odds) / 10:,}"
