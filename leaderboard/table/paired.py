"""Two entries of a board on the same episodes, and where they differ."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmark.stats.intervals import Interval
from benchmark.stats.paired import PairedDifference, Side, score_difference
from leaderboard.board.board import Board
from leaderboard.board.rows import BoardRow, PanelKey, PanelNumbers


@dataclass(frozen=True, slots=True)
class DifferingEpisode:
    """An episode with different outcomes for two entries.

    Attributes:
        episode: Its id.
        category: Its category.
        first: Solved share of the first entry's plays.
        second: Solved share of the second entry's plays.
    """

    episode: str
    category: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class EntryComparison:
    """One entry minus another on a panel.

    Attributes:
        found: The difference of success, with interval and test.
        differing: Episodes on which they differ, largest difference first.
    """

    found: PairedDifference
    differing: tuple[DifferingEpisode, ...]

    @property
    def difference(self) -> Interval:
        """Difference of success with its 95% interval; a tie if that contains 0."""
        return self.found.difference


def side(board: Board, row: BoardRow, key: PanelKey) -> Side | None:
    """An entry on a panel; None if it has not played it."""
    numbers, solved = row.panel(key), board.solved(row, key)
    if numbers is None or solved is None:
        return None
    return replace(side_of(numbers), shares=solved / numbers.plays)


def side_of(numbers: PanelNumbers) -> Side:
    """An entry on a panel, without its episodes."""
    success = Interval(numbers.success, numbers.low, numbers.high)
    seeds = tuple(each.success for each in numbers.seeds)
    return Side(None, numbers.plays == 1, success, seeds)


def compare(
    board: Board, first: BoardRow, second: BoardRow, key: PanelKey
) -> EntryComparison | None:
    """Compare two entries on a panel.

    Args:
        board: The board.
        first: One entry.
        second: Another entry.
        key: The panel.

    Returns:
        The comparison; None unless both have played it under the same protocol.
    """
    one, other = side(board, first, key), side(board, second, key)
    facts = board.panel(first, key)
    if one is None or other is None or facts is None or not _comparable(first, second, key):
        return None
    assert one.shares is not None and other.shares is not None  # a board knows all plays
    gaps = one.shares - other.shares
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
    return EntryComparison(PairedDifference.of(one, other), differing)


def mean_difference(
    board: Board, first: BoardRow, second: BoardRow, panels: Sequence[PanelKey]
) -> Interval | None:
    """One entry minus another, mean over panels; None unless both have played all of them."""
    if not all(_comparable(first, second, key) for key in panels):
        return None
    sides = [[side(board, row, key) for key in panels] for row in (first, second)]
    one, other = ([each for each in own if each is not None] for own in sides)
    return score_difference(one, other) if len(one) == len(other) == len(panels) > 0 else None


def _comparable(first: BoardRow, second: BoardRow, key: PanelKey) -> bool:
    panels = first.panel(key), second.panel(key)
    return len({panel.fingerprint for panel in panels if panel is not None}) == 1
