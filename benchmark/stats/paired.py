"""The estimator for "method A against method B": the difference of success, with an interval.

Everything that compares two entries, recipes or runs uses this module, so a contrast has the same
interval everywhere: in `compare`, the comment of `submit check`, the ranks and pages of the board,
`reproduce` and studies.

Both sides played the same problems, so the difference is taken per episode and the difficulty of a
problem cancels out. Entries with several checkpoints or repeats have a share of solved plays for
each episode, others 0 or 1.

Intervals have closed forms, so that a whole table can be ranked interactively. For single plays it
is Newcombe's score interval of paired rates; otherwise that method with the entries' own intervals,
which account for repeats, and with the correlation of their shares.

An entry with several checkpoints is a recipe with these as its seeds: the intervals then also
include the variance between seeds. The tests do not: they are about the given checkpoints.
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
"""Name of the interval if no side has several seeds."""
OVER_SEEDS: Final = "paired over episodes and seeds (Newcombe, Welch)"
"""Name of the interval if all sides have several seeds."""
OVER_SOME_SEEDS: Final = "paired over episodes and the seeds of one side (Newcombe, Welch)"
"""Name of the interval if only some sides have several seeds."""
NOT_PAIRED: Final = "over episodes and seeds (Newcombe, Welch), not paired"
"""Name of the interval if it is unknown which episodes a side solved."""
MCNEMAR: Final = "McNemar exact"
SIGN_FLIP: Final = "sign-flip"


@dataclass(frozen=True, slots=True)
class Side:
    """One entry on one panel.

    Attributes:
        shares: (k,) solved share of each episode's plays; None if only rates are known.
        single: Whether every episode was played once.
        success: Mean of the shares with its interval over episodes.
        seeds: Success of each checkpoint, if there are several.
        trainings: Name of the training runs behind the checkpoints: panels with the same name were
            played by the same checkpoints in the same order; others were trained separately.
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
        """Create a side from at least one play per episode, and the checkpoints' success."""
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
        """Create a recipe's side from the success rates of its training runs on one panel.

        Logs do not show which episodes were solved. The interval is that of the mean rate over the
        panel's episodes, as if all runs solved the same ones: more seeds do not make a panel
        larger. It is conservative.

        Args:
            rates: Success rate of each seed, at least one.
            episodes: Number of episodes of the panel.
        """
        rate = math.fsum(rates) / len(rates)
        return cls(None, False, wilson_rate(rate, episodes), tuple(rates))


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences between all pairs of entries.

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
        difference: Difference of success with its 95% interval; a tie if that contains 0.
        method: Name of the interval, to show with it.
        p_value: Two-sided p-value for no difference between the given checkpoints.
        test: Name of the test.
        episodes: Number of episodes that both played.
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
            first: One side, with known episodes.
            second: Another side on the same episodes.

        Raises:
            ValueError: A side's episodes are unknown, or the numbers of episodes differ.
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
    """Differences between all pairs of entries, with their intervals.

    With two entries' rates p and intervals [l, u], d = p1 - p2 and the correlation r of their
    shares: low = d - sqrt((p1-l1)^2 - 2 r (p1-l1)(u2-p2) + (u2-p2)^2), and high likewise with the
    other ends. For single plays r is the corrected phi of Newcombe's method 10; otherwise it is
    Pearson's, or 0 if an entry's shares are all the same or unknown.

    Each side of this is combined with the half-width t s of Welch's interval over seeds, as the
    root of the sum of squares: s^2 = v1 / m1 + v2 / m2 for m checkpoints whose success has variance
    v, and t from Welch's degrees of freedom; an entry with one checkpoint contributes 0, because it
    stands for itself. Noise of single plays counts in both parts, so intervals are conservative.
    Ends stay in [-1, 1].

    Source: Newcombe, Stat. Med. 17 (1998) 2635-2650, method 10; Zou and Donner, Stat. Med. 27
    (2008) 1693-1702, for intervals of any kind and for combining them; Welch, Biometrika 34 (1947)
    28-35.

    Args:
        sides: Entries on one panel, at least one.
    """
    return _joined(_over_episodes(sides), [[side.seeds] for side in sides])


def score_difference(first: Sequence[Side], second: Sequence[Side]) -> Interval:
    """Mean success over several panels, first minus second: see `score_differences`.

    Args:
        first: One side's success on each panel, at least one.
        second: Another side's success on the same panels.
    """
    found = score_differences([first, second])
    return Interval(float(found.value[0, 1]), float(found.low[0, 1]), float(found.high[0, 1]))


def score_differences(entries: Sequence[Sequence[Side]]) -> Differences:
    """Differences in mean success over several panels between all pairs, with their intervals.

    Panels have no episode in common, so their intervals over episodes are combined as independent
    ones, as in `benchmark.stats.intervals.mean_of`. So are training runs with different names
    (`Side.trainings`), which may have different numbers of seeds: their variances add up. A side
    with only a single seed in one of them stands for itself, like an entry with one checkpoint,
    because part of its spread is unknown. If one training played several panels, a seed's success
    is its mean over them. One panel gives `differences`.

    Args:
        entries: Each one's success on each panel, the same panels of all; at least one of either.
    """
    panels = [_over_episodes(sides) for sides in zip(*entries, strict=True)]
    return _joined(_mean_of_panels(panels), list(map(_parts_of_mean, entries)))


def mean_success(panels: Sequence[Side]) -> Interval:
    """Mean success over panels with its interval over episodes and seeds, in [0, 1].

    It is the difference from a side that never succeeds. With a single seed the interval is over
    episodes only.

    Args:
        panels: Success on each panel, at least one.
    """
    never = replace(panels[0], shares=None, success=Interval(0.0, 0.0, 0.0), seeds=())
    found = score_difference(panels, [never] * len(panels))
    return Interval(found.value, max(found.low, 0.0), found.high)


def _parts_of_mean(panels: Sequence[Side]) -> list[list[float]]:
    """Contribution of each training's seeds to the mean over all panels."""
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
    """Like `differences`, but for the given checkpoints; ends may leave [-1, 1]."""
    rates = np.array([side.success.value for side in sides])
    below = rates - np.array([side.success.low for side in sides])
    above = np.array([side.success.high for side in sides]) - rates
    related = _related(sides)
    value = rates[:, None] - rates[None, :]
    low = value - _side(below[:, None], above[None, :], related)
    high = value + _side(above[:, None], below[None, :], related)
    return Differences(value, low, high)


def _joined(found: Differences, seeds: Sequence[Sequence[Sequence[float]]]) -> Differences:
    """Add the variance between seeds of each side's training runs to the intervals."""
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
        ValueError: A side's episodes are unknown, or the numbers of episodes differ.
    """
    one, other = first.shares, second.shares
    if one is None or other is None or one.size != other.size:
        raise ValueError("a paired test needs two sides that played the same episodes")
    if first.single and second.single:
        return MCNEMAR, mcnemar_exact(int((one > other).sum()), int((other > one).sum()))
    return SIGN_FLIP, sign_flip((one - other).tolist())


def _related(sides: Sequence[Side]) -> Values:
    """(n, n) correlations of the entries' shares; 0 where unknown."""
    size = max((side.shares.size for side in sides if side.shares is not None), default=1)
    constant = np.zeros(size)
    shares = np.stack([constant if side.shares is None else side.shares for side in sides])
    centered = shares - shares.mean(axis=1, keepdims=True)
    product = centered @ centered.T
    # For single plays the product is (ad - bc) / n: Newcombe subtracts 1/2, down to 0.
    single = np.array([side.single for side in sides])
    corrected = np.where(product > 0, np.maximum(product - 0.5, 0.0), product)
    product = np.where(single[:, None] & single[None, :], corrected, product)
    squares = (centered**2).sum(axis=1)
    squares[np.ptp(shares, axis=1) == 0] = 0.0  # all the same, however the mean is rounded
    scale = np.sqrt(squares[:, None] * squares[None, :])
    related: Values = np.divide(product, scale, out=np.zeros_like(product), where=scale > 0)
    return related


def _of_seeds(seeds: Sequence[Sequence[Sequence[float]]]) -> Values:
    """(n, n) half-widths of Welch's intervals over the seeds of each side's training runs.

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
