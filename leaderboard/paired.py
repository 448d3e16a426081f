"""Two entries on the same episodes: the difference, its interval, and where they differ.

Both played the same problems, so the difference is taken episode by episode, and what makes one
problem harder than another cancels out. Entries of several checkpoints or repeats have a share of
solved plays for each episode, others 0 or 1.

Intervals are closed forms, so that a whole table is ranked while somebody waits for it. Between
single plays it is the one of `arlarena-bench compare` (Newcombe's score interval of paired rates);
otherwise that method with the entries' own intervals, which know of repeats, and with the
correlation of their shares.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmark.statistics import Interval, mcnemar_exact, newcombe_paired, sign_flip
from leaderboard.data import Board
from leaderboard.rows import PanelKey, Row

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Side:
    """One entry on one panel.

    Attributes:
        shares: (k,) solved share of the plays of each episode.
        single: Every episode was played once.
        success: Their mean with its interval.
    """

    shares: Shares
    single: bool
    success: Interval


@dataclass(frozen=True, slots=True)
class DifferingEpisode:
    """An episode that two entries did not play alike.

    Attributes:
        episode: Its id.
        category: Its category.
        first: Solved share of the first entry's plays.
        second: Of the second one's.
    """

    episode: str
    category: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """One entry minus another on a panel.

    Attributes:
        difference: Of success, with its 95 % interval; a tie if that holds 0.
        p_value: Of no difference: McNemar's exact test between single plays, else a sign-flip test
            over episodes.
        test: Name of the test.
        episodes: Episodes of the panel.
        differing: Those on which they differ, largest difference first.
    """

    difference: Interval
    p_value: float
    test: str
    episodes: int
    differing: tuple[DifferingEpisode, ...]


def side(board: Board, row: Row, key: PanelKey) -> Side | None:
    """An entry on a panel; None if it has not played it."""
    numbers, solved = row.panel(key), board.solved(row, key)
    if numbers is None or solved is None:
        return None
    success = Interval(numbers.success, numbers.low, numbers.high)
    return Side(solved / numbers.plays, numbers.plays == 1, success)


def difference(first: Side, second: Side) -> Interval:
    """First minus second, with its interval.

    With the entries' rates p and intervals [l, u], d = p1 - p2 and the correlation r of their
    shares: low = d - sqrt((p1-l1)^2 - 2 r (p1-l1)(u2-p2) + (u2-p2)^2), and high likewise with the
    other ends. Between single plays r is the corrected phi of `newcombe_paired`; otherwise
    Pearson's, 0 where an entry's shares are all the same. Ends stay in [-1, 1].

    Source: Newcombe, Stat. Med. 17 (1998) 2635-2650, method 10; Zou and Donner, Stat. Med. 27
    (2008) 1693-1702, for intervals of any kind.

    Args:
        first: One entry.
        second: Another one on the same panel.
    """
    if first.single and second.single:
        return newcombe_paired(*_table(first, second))
    related = _correlation(first.shares, second.shares)
    one, other = first.success, second.success
    value = one.value - other.value
    low = value - _side(one.value - one.low, other.high - other.value, related)
    high = value + _side(one.high - one.value, other.value - other.low, related)
    return Interval(value, max(-1.0, low), min(1.0, high))


def mean_of(intervals: Sequence[Interval]) -> Interval:
    """The unweighted mean of numbers that were measured independently, with its interval.

    low = m - sqrt(sum_i (v_i - l_i)^2) / n, and high likewise: panels have no episode in common.
    One number is given back as it is.

    Source: Zou and Donner, Stat. Med. 27 (2008) 1693-1702.

    Args:
        intervals: At least one, all of one unit.
    """
    if len(intervals) == 1:
        return intervals[0]
    count = len(intervals)
    value = math.fsum(each.value for each in intervals) / count
    below = math.sqrt(math.fsum((each.value - each.low) ** 2 for each in intervals)) / count
    above = math.sqrt(math.fsum((each.high - each.value) ** 2 for each in intervals)) / count
    return Interval(value, value - below, value + above)


def compare(board: Board, first: Row, second: Row, key: PanelKey) -> Comparison | None:
    """Compare two entries on a panel.

    Args:
        board: Where they are.
        first: One entry.
        second: Another one.
        key: The panel.

    Returns:
        None if they have not both played it under one protocol.
    """
    one, other = side(board, first, key), side(board, second, key)
    facts = board.panel(first, key)
    if one is None or other is None or facts is None or not _comparable(first, second, key):
        return None
    gaps = one.shares - other.shares
    if one.single and other.single:
        _, only_first, only_second, _ = _table(one, other)
        test, p_value = "McNemar exact", mcnemar_exact(only_first, only_second)
    else:
        test, p_value = "sign-flip", sign_flip(gaps.tolist())
    order = sorted(np.flatnonzero(gaps).tolist(), key=lambda place: (-abs(gaps[place]), place))
    differing = tuple(
        DifferingEpisode(
            facts.episodes[place],
            facts.categories[place],
            float(one.shares[place]),
            float(other.shares[place]),
        )
        for place in order
    )
    return Comparison(difference(one, other), p_value, test, gaps.size, differing)


def _comparable(first: Row, second: Row, key: PanelKey) -> bool:
    panels = first.panel(key), second.panel(key)
    return len({panel.fingerprint for panel in panels if panel is not None}) == 1


def _table(first: Side, second: Side) -> tuple[int, int, int, int]:
    """Episodes that both, only the first, only the second, and neither have solved."""
    one, other = first.shares > 0, second.shares > 0
    both, neither = int((one & other).sum()), int((~one & ~other).sum())
    return both, int((one & ~other).sum()), int((~one & other).sum()), neither


def _correlation(first: Shares, second: Shares) -> float:
    ones, others = first - first.mean(), second - second.mean()
    scale = math.sqrt(float((ones**2).sum()) * float((others**2).sum()))
    return float((ones * others).sum()) / scale if scale > 0 else 0.0


def _side(inner: float, outer: float, related: float) -> float:
    return math.sqrt(max(0.0, inner**2 - 2 * related * inner * outer + outer**2))
