"""All collapsed training runs of a board, and which signals moved before the collapse.

Smoothing delays a collapse: a signal that moves between the first validation that shows the loss
(the fall, `benchmark.stability.collapse.fall_step`) and the collapse gives no warning. So only
moves before the fall count, as in `benchmark.stability.early_warning`.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from benchmark.logs.curves import Points
from benchmark.stability.collapse import fall_step
from benchmark.stability.early_warning import margin, share_after
from benchmark.stability.precursors import first_judged, first_movers, median_lead, moved_at
from benchmark.stats.intervals import Interval
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
        fall: The update of the first validation that shows the loss, at most `step`.
        moves: For each of the `SIGNALS` that could have moved before the fall, the update at which
            it did; None if it did not. A signal is absent if the log lacks it, or if the run fell
            no later than at the first update at which the signal is judged.
    """

    row: BoardRow
    curves: SeedCurves
    step: int
    fall: int
    moves: Mapping[str, int | None]

    @property
    def first(self) -> tuple[str, ...]:
        """The signals that moved before all others."""
        return first_movers(self.moves)


@dataclass(frozen=True, slots=True)
class SignalSummary:
    """One signal over all collapsed runs.

    Attributes:
        name: Its name in `SIGNALS`.
        known: Number of collapsed runs in which it could have moved before the fall.
        moved: Number of these in which it did.
        first: Number of these in which nothing moved before it.
        lead: Median updates from its move to the fall, over the runs in which it moved.
        held: Number of runs without collapse, on tracks with `known` runs, in which it could have
            moved.
        false_alarms: Number of `held` runs in which it moved, each watched as long as the `known`
            runs of its track (`benchmark.stability.early_warning.share_after`): a sum of shares.
        matched: Number of `known` runs on tracks that also have `held` ones.
        matched_moved: Number of these in which it moved.
        expected: Number of `matched` runs in which it would have moved if it did so as often as in
            the `held` runs of their tracks.
    """

    name: str
    known: int
    moved: int
    first: int
    lead: float | None
    held: int
    false_alarms: Fraction
    matched: int
    matched_moved: int
    expected: Fraction

    @property
    def margin(self) -> Interval | None:
        """Share of `matched` runs in which it moved, minus the expected share, with its interval.

        None without runs of both kinds on one track.
        """
        if not self.matched:
            return None
        usual = self.expected / self.matched
        return margin(self.matched_moved, self.matched, usual * self.held, self.held)


@lru_cache(maxsize=8)
def collapsed_runs(board: Board, protocol: str) -> tuple[CollapsedRun, ...]:
    """The collapsed runs, by entry and seed."""
    found = []
    for row in board.rows(protocol):
        event = Line(row, (), None).collapse
        if event is None or not event.happened:
            continue
        for curves in board.curves(row):
            if curves.collapsed and curves.collapse_step is not None:
                fall = _fall(curves, curves.collapse_step)
                moves = {
                    name: at if at is not None and at < fall else None
                    for name, (start, at) in _moves(curves).items()
                    if start < fall
                }
                found.append(CollapsedRun(row, curves, curves.collapse_step, fall, moves))
    return tuple(found)


def _fall(curves: SeedCurves, collapse: int) -> int:
    """The first validation that shows the loss; the collapse if the curve does not show it."""
    success = curves.of("success")
    if success is None or success.measured > len(success.steps):
        return collapse
    place = fall_step(success.values)
    return collapse if place is None else min(success.steps[place], collapse)


def _moves(curves: SeedCurves) -> dict[str, tuple[int, int | None]]:
    """First judged update of every judged signal, and the update at which it moved."""
    moves = {}
    for name, kind in SIGNALS.items():
        series = curves.of(name)
        if series is not None:
            points = Points(np.array(series.steps, np.int64), np.array(series.values, np.float64))
            start = first_judged(points, kind.log_scale)
            if start is not None:
                moves[name] = start, moved_at(points, kind.log_scale)
    return moves


@lru_cache(maxsize=8)
def signal_summaries(board: Board, protocol: str) -> tuple[SignalSummary, ...]:
    """Every signal over all runs, the most predictive first.

    Signals without a comparison come last.

    A signal that moves in every run, such as a KL that grows with training, also moves before every
    collapse, so runs without collapse serve as controls. They are watched as long as the collapsed
    ones, since a longer run has more time for a move. Both are compared within tracks: a signal
    that only distinguishes tracks would look like a warning. Runs with too few validations to show
    that they have not collapsed are excluded.
    """
    found = collapsed_runs(board, protocol)
    falls: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for each in found:
        for name in each.moves:
            falls[each.row.track, name].append(each.fall)
    tracks = {each.row.track for each in found}
    held = [
        (row.track, _moves(curves))
        for row in board.rows(protocol)
        if row.stability is not None and row.track in tracks
        for curves in board.curves(row)
        if curves.collapsed is False
    ]
    rows = []
    for name in SIGNALS:
        known = [each for each in found if name in each.moves]
        leads = [each.fall - at for each in known if (at := each.moves[name]) is not None]
        first = sum(name in each.first for each in known)
        others: defaultdict[str, list[Fraction]] = defaultdict(list)
        for track, moves in held:
            start, moved = moves.get(name, (None, None))
            if start is not None:
                later = [fall for fall in falls[track, name] if start < fall]
                others[track] += [share_after(moved, later)] if later else []
        usual = {track: sum(all_, Fraction()) / len(all_) for track, all_ in others.items() if all_}
        matched = [each for each in known if each.row.track in usual]
        rows.append(
            SignalSummary(
                name=name,
                known=len(known),
                moved=len(leads),
                first=first,
                lead=median_lead(leads),
                held=sum(map(len, others.values())),
                false_alarms=sum((sum(all_, Fraction()) for all_ in others.values()), Fraction()),
                matched=len(matched),
                matched_moved=sum(each.moves[name] is not None for each in matched),
                expected=sum((usual[each.row.track] for each in matched), Fraction()),
            )
        )
    return tuple(sorted(rows, key=_most_telling_first))


def _most_telling_first(each: SignalSummary) -> tuple[bool, float, int]:
    found = each.margin
    return found is None, 0.0 if found is None else -found.value, -each.first


def lost_level(board: Board, row: BoardRow, init: BoardRow | None) -> tuple[PanelKey, str] | None:
    """A level that the init solves but no seed of an entry does; None if there is none.

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
