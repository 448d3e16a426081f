"""The estimator for "method A against method B": the difference of success, with an interval.

Everything that compares two entries, recipes or runs calls this module, so that one contrast has
one interval everywhere: `compare`, the comment of `submit check`, the ranks and pages of the board,
`reproduce` and studies.

Both sides played the same problems, so the difference is taken episode by episode, and what makes
one problem harder than another cancels out. Entries of several checkpoints or repeats have a share
of solved plays for each episode, others 0 or 1.

Intervals are closed forms, so that a whole table is ranked while somebody waits for it. Between
single plays it is Newcombe's score interval of paired rates; otherwise that method with the
entries' own intervals, which know of repeats, and with the correlation of their shares.

An entry of several checkpoints is a recipe, of which these are the seeds: the intervals then know
how much seeds differ, too. The tests do not: they are about the checkpoints as they are.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import numpy.typing as npt
from scipy import special

from benchmark.stats.intervals import (
    Interval,
    clustered_wilson,
    mcnemar_exact,
    sign_flip,
    wilson_rate,
)

Values = npt.NDArray[np.float64]

OVER_EPISODES: Final = "paired over episodes (Newcombe)"
"""Name of the interval where no side has several seeds."""
OVER_SEEDS: Final = "paired over episodes and seeds (Newcombe, Welch)"
"""Name of the interval where all sides have several seeds."""
OVER_SOME_SEEDS: Final = "paired over episodes and the seeds of one side (Newcombe, Welch)"
"""Name of the interval where a side has several seeds and another one does not."""
NOT_PAIRED: Final = "over episodes and seeds (Newcombe, Welch), not paired"
"""Name of the interval where a side does not say which episodes it solved."""
MCNEMAR: Final = "McNemar exact"
SIGN_FLIP: Final = "sign-flip"


@dataclass(frozen=True, slots=True)
class Side:
    """One entry on one panel.

    Attributes:
        shares: (k,) solved share of the plays of each episode; None where only rates are known.
        single: Every episode was played once.
        success: Their mean with its interval over episodes.
        seeds: Success of each checkpoint, where there are several.
        trainings: Which checkpoints these are: panels with the same name were played by the same
            ones, in one order; others were trained apart.
    """

    shares: Values | None
    single: bool
    success: Interval
    seeds: tuple[float, ...] = ()
    trainings: str = ""

    @classmethod
    def of(
        cls, plays: Sequence[Sequence[bool]], seeds: Sequence[float] = (), trainings: str = ""
    ) -> Self:
        """An entry's plays of each episode, each at least once, and its checkpoints' success."""
        solved, played = list(map(sum, plays)), list(map(len, plays))
        return cls(
            shares=np.array(solved) / np.array(played),
            single=max(played) == 1,
            success=clustered_wilson(solved, played),
            seeds=tuple(seeds),
            trainings=trainings,
        )

    @classmethod
    def of_rates(cls, rates: Sequence[float], episodes: int) -> Self:
        """A recipe by the success rate of each of its training runs, all on one panel.

        Logs do not say which episodes were solved. The interval is that of the mean rate over the
        panel's episodes, as if all runs solved the same ones: more seeds do not make a panel
        larger. It is, if anything, too wide.

        Args:
            rates: One for each seed, at least one.
            episodes: Of the panel.
        """
        rate = math.fsum(rates) / len(rates)
        return cls(None, False, wilson_rate(rate, episodes), tuple(rates))


@dataclass(frozen=True, slots=True)
class Differences:
    """Every entry minus every other one.

    Attributes:
        value: (n, n) success of the row's entry minus that of the column's.
        low: (n, n) lower end of its interval.
        high: (n, n) upper end.
    """

    value: Values
    low: Values
    high: Values


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """One side minus another on the episodes of a panel.

    Attributes:
        difference: Of success, with its 95% interval; a tie if that contains 0.
        method: Name of the interval, to be shown beside it.
        p_value: Two-sided, of no difference between the checkpoints as they are.
        test: Name of the test.
        episodes: That both have played.
    """

    difference: Interval
    method: str
    p_value: float
    test: str
    episodes: int

    @classmethod
    def of(cls, first: Side, second: Side) -> Self:
        """First minus second.

        Args:
            first: One side, with its episodes.
            second: Another one on the same episodes.

        Raises:
            ValueError: A side does not know its episodes, or they are not as many.
        """
        test, p_value = no_difference(first, second)
        assert first.shares is not None  # no_difference raises
        found = difference(first, second)
        return cls(found, method_of(first, second), p_value, test, first.shares.size)


def method_of(*sides: Side) -> str:
    """Name of the interval of the sides' differences."""
    if any(side.shares is None for side in sides):
        return NOT_PAIRED
    several = [len(side.seeds) > 1 for side in sides]
    if all(several):
        return OVER_SEEDS
    return OVER_SOME_SEEDS if any(several) else OVER_EPISODES


def difference(first: Side, second: Side) -> Interval:
    """First minus second, with its interval: see `differences`.

    Args:
        first: One entry.
        second: Another one on the same panel.
    """
    found = differences([first, second])
    return Interval(float(found.value[0, 1]), float(found.low[0, 1]), float(found.high[0, 1]))


def differences(sides: Sequence[Side]) -> Differences:
    """Every entry minus every other one, with their intervals.

    With two entries' rates p and intervals [l, u], d = p1 - p2 and the correlation r of their
    shares: low = d - sqrt((p1-l1)^2 - 2 r (p1-l1)(u2-p2) + (u2-p2)^2), and high likewise with the
    other ends. Between single plays r is the corrected phi of Newcombe's method 10; otherwise
    Pearson's, 0 where an entry's shares are all the same or not known.

    Each side of that is joined with the half width t s of Welch's interval over seeds, as the root
    of the sum of squares: s^2 = v1 / m1 + v2 / m2 for m checkpoints whose success has variance v,
    and t of Welch's degrees of freedom; 0 from an entry of one checkpoint, which stands for itself.
    Noise of single plays counts in both parts, so that intervals are rather too long. Ends stay in
    [-1, 1].

    Source: Newcombe, Stat. Med. 17 (1998) 2635-2650, method 10; Zou and Donner, Stat. Med. 27
    (2008) 1693-1702, for intervals of any kind and for joining them; Welch, Biometrika 34 (1947)
    28-35.

    Args:
        sides: Entries on one panel, at least one.
    """
    return _joined(_over_episodes(sides), [[side.seeds] for side in sides])


def score_difference(first: Sequence[Side], second: Sequence[Side]) -> Interval:
    """Mean success over several panels, first minus second: see `score_differences`.

    Args:
        first: A side's success on each panel, at least one.
        second: Another one's on the same panels.
    """
    found = score_differences([first, second])
    return Interval(float(found.value[0, 1]), float(found.low[0, 1]), float(found.high[0, 1]))


def score_differences(entries: Sequence[Sequence[Side]]) -> Differences:
    """Mean success over several panels, every entry minus every other one, with their intervals.

    Panels have no episode in common: their intervals over episodes are joined as independent ones,
    as in `benchmark.stats.intervals.mean_of`. So are training runs of different names
    (`Side.trainings`), of which each may have its own number of seeds: their variances add up. A
    side with a single seed of one of them stands for itself, as an entry of one checkpoint does:
    the spread is not known of all. Of one training that played several panels, a seed's success is
    its mean over them. One panel gives `differences`.

    Args:
        entries: Each one's success on each panel, the same panels of all; at least one of either.
    """
    panels = [_over_episodes(sides) for sides in zip(*entries, strict=True)]
    return _joined(_mean_of_panels(panels), list(map(_parts_of_mean, entries)))


def mean_success(panels: Sequence[Side]) -> Interval:
    """Mean success over panels with its interval over episodes and seeds, in [0, 1].

    It is the difference from a side that never succeeds. Of a single seed it is over episodes only.

    Args:
        panels: Success on each, at least one.
    """
    never = replace(panels[0], shares=None, success=Interval(0.0, 0.0, 0.0), seeds=())
    found = score_difference(panels, [never] * len(panels))
    return Interval(found.value, max(found.low, 0.0), found.high)


def _parts_of_mean(panels: Sequence[Side]) -> list[list[float]]:
    """What the seeds of each training add to the mean over all panels."""
    parts: dict[str, list[tuple[float, ...]]] = {}
    for panel in panels:
        parts.setdefault(panel.trainings, []).append(panel.seeds)
    if any(len(seeds[0]) < 2 for seeds in parts.values()):
        return []
    return [
        [math.fsum(each) / len(panels) for each in zip(*seeds, strict=True)]
        for seeds in parts.values()
    ]


def _mean_of_panels(found: Sequence[Differences]) -> Differences:
    """The mean of differences between the same entries on several panels."""
    if len(found) == 1:
        return found[0]
    value = np.mean([each.value for each in found], axis=0)
    below = np.sqrt(np.sum([(each.value - each.low) ** 2 for each in found], axis=0)) / len(found)
    above = np.sqrt(np.sum([(each.high - each.value) ** 2 for each in found], axis=0)) / len(found)
    return Differences(value, value - below, value + above)


def _over_episodes(sides: Sequence[Side]) -> Differences:
    """As `differences`, but for checkpoints as they are; ends may leave [-1, 1]."""
    rates = np.array([side.success.value for side in sides])
    below = rates - np.array([side.success.low for side in sides])
    above = np.array([side.success.high for side in sides]) - rates
    related = _related(sides)
    value = rates[:, None] - rates[None, :]
    low = value - _side(below[:, None], above[None, :], related)
    high = value + _side(above[:, None], below[None, :], related)
    return Differences(value, low, high)


def _joined(found: Differences, seeds: Sequence[Sequence[Sequence[float]]]) -> Differences:
    """Differences with the spread of the seeds of each side's training runs in their intervals."""
    trainings = _of_seeds(seeds)
    low = found.value - np.hypot(found.value - found.low, trainings)
    high = found.value + np.hypot(found.high - found.value, trainings)
    return Differences(found.value, np.maximum(low, -1.0), np.minimum(high, 1.0))


def no_difference(first: Side, second: Side) -> tuple[str, float]:
    """Test that there is no difference.

    Args:
        first: One entry.
        second: Another one on the same panel.

    Returns:
        The test's name and its p-value: McNemar's exact test between single plays, else a sign-flip
        test over episodes.

    Raises:
        ValueError: A side does not know its episodes, or they are not as many.
    """
    one, other = first.shares, second.shares
    if one is None or other is None or one.size != other.size:
        raise ValueError("a paired test needs two sides that played the same episodes")
    if first.single and second.single:
        return MCNEMAR, mcnemar_exact(int((one > other).sum()), int((other > one).sum()))
    return SIGN_FLIP, sign_flip((one - other).tolist())


def _related(sides: Sequence[Side]) -> Values:
    """(n, n) correlations of the entries' shares; 0 where they are not known."""
    size = max((side.shares.size for side in sides if side.shares is not None), default=1)
    constant = np.zeros(size)
    shares = np.stack([constant if side.shares is None else side.shares for side in sides])
    centered = shares - shares.mean(axis=1, keepdims=True)
    product = centered @ centered.T
    # Between single plays the product is (ad - bc) / n: Newcombe takes 1/2 off it, down to 0.
    single = np.array([side.single for side in sides])
    corrected = np.where(product > 0, np.maximum(product - 0.5, 0.0), product)
    product = np.where(single[:, None] & single[None, :], corrected, product)
    squares = (centered**2).sum(axis=1)
    squares[np.ptp(shares, axis=1) == 0] = 0.0  # all the same, whatever rounding makes of the mean
    scale = np.sqrt(squares[:, None] * squares[None, :])
    related: Values = np.divide(product, scale, out=np.zeros_like(product), where=scale > 0)
    return related


def _of_seeds(seeds: Sequence[Sequence[Sequence[float]]]) -> Values:
    """(n, n) half widths of Welch's intervals over the seeds of each side's training runs.

    Welch's degrees of freedom are Satterthwaite's for any number of independent variances.
    """
    several = [[each for each in trainings if len(each) > 1] for trainings in seeds]
    parts = [
        [(np.var(each, ddof=1) / len(each), len(each) - 1) for each in side] for side in several
    ]
    variance = np.array([sum(part for part, _ in side) for side in parts], dtype=np.float64)
    squares = np.array([sum(part**2 / free for part, free in side) for side in parts])
    total = variance[:, None] + variance[None, :]
    scale = squares[:, None] + squares[None, :]
    freedom = np.divide(total**2, scale, out=np.ones_like(total), where=scale > 0)
    width: Values = special.stdtrit(freedom, 0.975) * np.sqrt(total)
    return width


def _side(inner: Values, outer: Values, related: Values) -> Values:
    squared = inner**2 - 2 * related * inner * outer + outer**2
    width: Values = np.sqrt(np.maximum(squared, 0.0))
    return width
