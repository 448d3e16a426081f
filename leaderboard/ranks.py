"""Ranks, which are ranges: entries that cannot be told apart share one.

Entries stand in the order of their success, the oldest first among equals. The first one leads the
first group. Each next one joins the group as long as the 95 % interval of its paired difference to
the group's leader (`leaderboard.paired`) holds 0; the first that does not leads the next group. All
of a group have one rank, from the group's first place to its last: `2-5` says that four entries
stand behind one, in an order that is noise.

Two things follow. Two neighbours of different groups may be a tie with each other: it is the leader
that a group is held against. And filters move no rank: it is the entry's among all that have played
the same panels under the same protocol. Scripted policies have none; they mark floor and ceiling.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from benchmark.statistics import Interval
from leaderboard.data import Board
from leaderboard.paired import Side, difference, mean_of, side
from leaderboard.rows import PanelKey, Row

RANKED: Final = ("init", "trained")
"""Kinds of entries that are ranked."""


@dataclass(frozen=True, slots=True)
class Rank:
    """The places that an entry may have, from 1.

    Attributes:
        first: Of its group's leader.
        last: Of its group's last entry.
        leader: Id of the group's leader.
    """

    first: int
    last: int
    leader: str

    @property
    def tied(self) -> bool:
        """Whether another entry shares it."""
        return self.first != self.last


def rank_groups(
    scores: Sequence[tuple[str, float]], differ: Callable[[str, str], bool]
) -> dict[str, Rank]:
    """Ranks of entries whose scores are known.

    Args:
        scores: (id, score), higher is better, in any order. Ids are in the order of time.
        differ: Whether a leader and an entry behind it can be told apart.
    """
    ordered = sorted(scores, key=lambda pair: (-pair[1], pair[0]))
    groups: list[list[str]] = []
    for entry, _ in ordered:
        if groups and not differ(groups[-1][0], entry):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    ranks: dict[str, Rank] = {}
    for group in groups:
        first = len(ranks) + 1
        ranks |= {entry: Rank(first, first + len(group) - 1, group[0]) for entry in group}
    return ranks


@lru_cache(maxsize=256)
def ranks(board: Board, protocol: str, panels: tuple[PanelKey, ...]) -> Mapping[str, Rank]:
    """Ranks by success on a panel, or by the mean over several.

    Args:
        board: The board.
        protocol: Name of the protocol.
        panels: At least one. Entries that have not played all of them have no rank.

    Returns:
        By id.
    """
    sides = {
        row.id: found
        for row in board.rows(protocol)
        if row.kind in RANKED and (found := _sides(board, row, panels)) is not None
    }
    scores = [(entry, mean_of([each.success for each in s]).value) for entry, s in sides.items()]

    def differ(leader: str, entry: str) -> bool:
        pairs = zip(sides[leader], sides[entry], strict=True)
        gap: Interval = mean_of([difference(one, other) for one, other in pairs])
        return not gap.low <= 0 <= gap.high

    return rank_groups(scores, differ)


def _sides(board: Board, row: Row, panels: tuple[PanelKey, ...]) -> list[Side] | None:
    found = [side(board, row, key) for key in panels]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None
