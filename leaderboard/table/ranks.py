"""Ranks as ranges: the places of an entry that are consistent with the data.

All pairs of entries that have played the same panels are compared, episode by episode
(`benchmark.stats.paired`). One is significantly better if the 95% interval of their difference does
not contain 0. An entry's range starts after all that are significantly better and ends before all
that are significantly worse: `2-5` means that one is better, three are tied with it, and all others
are worse. Ranges overlap, since ties are not transitive: a may tie with b, and b with c, while a
beats c.

Each interval is that of one comparison. Among many entries some differences will be significant by
chance: there is no correction for multiple comparisons.

Filters do not affect ranks: an entry is ranked among all entries of its track that have played the
same panels under the same protocol. More than the method differs between tracks. Inits, and runs
without a track, are ranked among each other. Scripted policies have no rank; they mark floor and
ceiling.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmark.stats.paired import Side, score_differences
from leaderboard.board.board import Board
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.table.paired import side

RANKED: Final = ("trained",)
"""Kinds of ranked entries; inits and scripted policies are references."""


@dataclass(frozen=True, slots=True)
class Rank:
    """The possible places of an entry, from 1.

    Attributes:
        first: First place after all that are significantly better.
        last: Last place before all that are significantly worse.
    """

    first: int
    last: int

    @property
    def tied(self) -> bool:
        """Whether another entry may have its place."""
        return self.first != self.last


def ranks_of(better: npt.NDArray[np.bool_]) -> list[Rank]:
    """Ranks of n entries.

    Args:
        better: (n, n) whether the row's entry is significantly better than the column's.
    """
    count = len(better)
    beaten_by, beats = better.sum(axis=0), better.sum(axis=1)
    return [Rank(1 + int(a), count - int(b)) for a, b in zip(beaten_by, beats, strict=True)]


@lru_cache(maxsize=256)
def ranks(board: Board, protocol: str, panels: tuple[PanelKey, ...]) -> Mapping[str, Rank]:
    """Ranks by success on a panel, or by the mean over several; each within its track.

    Args:
        board: The board.
        protocol: Name of the protocol.
        panels: At least one. Entries that have not played all of them have no rank.

    Returns:
        Ranks by id.
    """
    tracks: dict[str, dict[str, list[Side]]] = {}
    for row in board.rows(protocol):
        if row.kind in RANKED and (found := _sides(board, row, panels)) is not None:
            tracks.setdefault(row.track, {})[row.id] = found
    places: dict[str, Rank] = {}
    for sides in tracks.values():
        better = score_differences(list(sides.values())).low > 0
        places |= zip(sides, ranks_of(better), strict=True)
    return places


def _sides(board: Board, row: BoardRow, panels: tuple[PanelKey, ...]) -> list[Side] | None:
    found = [side(board, row, key) for key in panels]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None
