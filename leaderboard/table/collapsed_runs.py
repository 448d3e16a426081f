"""All training runs of a board that collapsed, and which signal moved before they did."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from benchmark.logs.curves import Points
from benchmark.stability.precursors import FIRST, first_movers, median_lead, moved_at
from leaderboard.board.board import Board
from leaderboard.board.curves import SIGNALS
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.board.training_rows import SeedCurves
from leaderboard.table.columns import Line


@dataclass(frozen=True, slots=True)
class CollapsedRun:
    """One run that collapsed.

    Attributes:
        row: Its entry.
        curves: Its curves.
        step: The update at which it collapsed.
        moves: By signal of `SIGNALS` that its log has: the update at which it moved; None if it did
            not before the collapse. Empty if that came before a signal can be judged.
    """

    row: BoardRow
    curves: SeedCurves
    step: int
    moves: Mapping[str, int | None]

    @property
    def first(self) -> tuple[str, ...]:
        """The signals that moved before all others."""
        return first_movers(self.moves)


@dataclass(frozen=True, slots=True)
class SignalSummary:
    """One signal over all runs that collapsed.

    Attributes:
        name: In `SIGNALS`.
        known: Runs that collapsed whose logs have it.
        moved: Those in which it moved before the collapse.
        first: Those in which nothing moved before it.
        lead: Updates from its move to the collapse, median over the runs in which it moved.
        held: Runs that did not collapse, on tracks with a collapse, whose logs have it.
        false_alarms: Those in which it moved all the same.
    """

    name: str
    known: int
    moved: int
    first: int
    lead: float | None
    held: int
    false_alarms: int

    @property
    def excess(self) -> float:
        """Share of collapses that it moved before, minus its share of false alarms."""
        share = self.moved / self.known if self.known else 0.0
        return share - (self.false_alarms / self.held if self.held else 0.0)


@lru_cache(maxsize=8)
def collapsed_runs(board: Board, protocol: str) -> tuple[CollapsedRun, ...]:
    """The runs that collapsed, by entry and seed."""
    found = []
    for row in board.rows(protocol):
        event = Line(row, (), None).collapse
        if event is None or not event.happened:
            continue
        for curves in board.curves(row):
            if curves.collapsed and curves.collapse_step is not None:
                step = curves.collapse_step
                found.append(CollapsedRun(row, curves, step, _moves(curves, step)))
    return tuple(found)


def _moves(curves: SeedCurves, collapse: int | None) -> dict[str, int | None]:
    """When every signal moved; before the collapse, if there was one."""
    moves: dict[str, int | None] = {}
    if collapse is not None and collapse <= FIRST:
        # Nothing was seen of it before: no signal can be judged.
        return moves
    for name, kind in SIGNALS.items():
        series = curves.of(name)
        if series is not None:
            points = Points(np.array(series.steps, np.int64), np.array(series.values, np.float64))
            at = moved_at(points, kind.log_scale)
            late = at is not None and collapse is not None and at >= collapse
            moves[name] = None if late else at
    return moves


@lru_cache(maxsize=8)
def signal_summaries(board: Board, protocol: str) -> tuple[SignalSummary, ...]:
    """Every signal over all runs; the one that tells most of a collapse comes first.

    A signal that moves in every run, such as a KL that grows with training, moves before every
    collapse, too: runs that did not collapse say how much that means. Those of tracks without any
    collapse are left out: what tells tracks apart would look like a warning.
    """
    found = collapsed_runs(board, protocol)
    tracks = {each.row.track for each in found}
    held = [
        _moves(curves, None)
        for row in board.rows(protocol)
        if row.stability is not None and row.track in tracks
        for curves in board.curves(row)
        if curves.collapsed is False
    ]
    rows = []
    for name in SIGNALS:
        known = [each for each in found if name in each.moves]
        leads = [each.step - at for each in known if (at := each.moves[name]) is not None]
        first = sum(name in each.first for each in known)
        others = [moves[name] is not None for moves in held if name in moves]
        rows.append(
            SignalSummary(
                name, len(known), len(leads), first, median_lead(leads), len(others), sum(others)
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.excess, -row.first)))


def lost_level(board: Board, row: BoardRow, init: BoardRow | None) -> tuple[PanelKey, str] | None:
    """A level that the init solves and that no seed of an entry does; None without one.

    Args:
        board: The board.
        row: The entry.
        init: The entry of its init; None if there is none.

    Returns:
        Its panel and the episode.
    """
    for numbers in row.panels if init is not None else ():
        assert init is not None
        facts = board.panel(row, numbers.key)
        before, after = board.solved(init, numbers.key), board.solved(row, numbers.key)
        if facts is None or before is None or after is None:
            continue
        lost = np.flatnonzero((before > 0) & (after == 0))
        if lost.size:
            return numbers.key, facts.episodes[int(lost[0])]
    return None
