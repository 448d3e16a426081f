"""A figure of every method's success, with its interval, seeds, init, and collapses."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from benchmark.stats.formatting import collapses_text
from leaderboard.board.board import Board
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.page import charts
from leaderboard.page.dots import Dot, dot_plot
from leaderboard.page.marks import collapsed_text
from leaderboard.page.methods import short_tracks
from leaderboard.page.state import State, entry_query, frame_of, panels_of_name
from leaderboard.table import cells
from leaderboard.table.columns import Line, success_of
from leaderboard.tabs.answer import init_success, order_of_track


@lru_cache(maxsize=64)
def success_chart(board: Board, state: State) -> charts.Value:
    """Success with its interval, one row per entry, grouped by track and best first."""
    panels = panels_of_name(board, state.protocol, state.panels)
    known = _trained(board, state, panels)
    if not known:
        return charts.NOTHING
    dots = [_dot(board, state, panels, *pair) for pair in zip(known, tracks_of(known), strict=True)]
    ends = (end for dot in dots for end in (dot.high, dot.start, *(at for at, _ in dot.seeds)))
    top = max([10.0, *(end for end in ends if end is not None)])
    axis = {"scale": {"domain": [0, 10 * math.ceil(top / 10)]}}
    return dot_plot(dots, "success (%)", axis, "success")


def tracks_of(rows: Sequence[BoardRow]) -> list[str]:
    """Names of the entries' tracks in a figure; empty if all are on the same track."""
    names = [cells.text(row.track) for row in rows]
    return short_tracks(names) if len(set(names)) > 1 else [""] * len(names)


def by_track(rows: Sequence[BoardRow]) -> list[BoardRow]:
    """Entries grouped by track, with their order within a track unchanged."""
    sizes = Counter(row.track for row in rows)
    return sorted(rows, key=lambda row: order_of_track(row.track, sizes[row.track]))


def fallen_text(whole: Line) -> str:
    """How many seeds of an entry collapsed, and how many others halved: `2 of 5, 1 halved`."""
    event = whole.collapse
    happened, known = (event.happened, event.known) if event else (0, 0)
    return collapses_text(happened, known, whole.halved, cells.UNKNOWN, whole.unknown)


def fallen_of(row: BoardRow) -> tuple[str, bool]:
    """How many seeds of an entry collapsed or halved, in words, and whether any did."""
    whole = Line(row, (), None)
    event = whole.collapse
    said = whole.unjudged
    if event is not None:
        said = collapsed_text(event.happened, event.known, whole.unknown, whole.halved, " of ")
    return said, bool(whole.halved or (event and event.happened))


def validated_on(board: Board, row: BoardRow, panels: str) -> str:
    """What an entry was validated on in training; empty if that is the one panel shown."""
    found = {seed.panel for seed in board.curves(row)} - {None, panels}
    if "/" not in panels or len(found) != 1:
        return ""
    name = found.pop() or ""
    return f"{1 + name.count(',')} tasks" if name.startswith("mean of ") else name


def fallen_seeds(row: BoardRow) -> set[int]:
    """Seeds of an entry that collapsed."""
    return {spark.seed for spark in row.sparks if spark.collapse is not None}


def _trained(board: Board, state: State, panels: Sequence[PanelKey]) -> list[BoardRow]:
    if not panels:
        return []
    shown = frame_of(board, State(protocol=state.protocol, panels=state.panels, track=state.track))
    rows = [row for entry in shown.index if (row := board.row(entry, state.protocol))]
    return by_track([row for row in rows if row.kind == "trained" and success_of(row, panels)])


def _dot(board: Board, state: State, panels: Sequence[PanelKey], row: BoardRow, track: str) -> Dot:
    success, start = success_of(row, panels), init_success(board, row, panels)
    assert success is not None  # `_trained` only returns entries that have it
    said, fell = fallen_of(row)
    whole = Line(row, (), None)
    event = whole.collapse
    # Short, since phones have little space beside the axis; the tooltip has the full text.
    end = said if event is None or event.happened else ""
    if whole.halved and not (event and event.happened):
        end = f"{whole.halved} halved"
    model = f"{cells.text(row.base_model)}, {cells.number(row.parameters, 'parameters')}"
    return Dot(
        method=row.method,
        track=track,
        name=row.name,
        href=f"?{entry_query(state.protocol, row.id)}",
        value=100 * success.value,
        shown=cells.interval(success.value, success.low, success.high, "%"),
        end=end,
        is_bad=fell,
        low=100 * success.low,
        high=100 * success.high,
        start=None if start is None else 100 * start,
        seeds=_seeds(row, panels),
        told={"collapse": said, "model": model},
    )


def _seeds(row: BoardRow, panels: Sequence[PanelKey]) -> tuple[tuple[float, bool], ...]:
    """Mean success of every seed over the panels, and whether it collapsed."""
    fallen = fallen_seeds(row)
    played = [numbers for key in panels if (numbers := row.panel(key)) is not None]
    seeds = [{each.seed: each.success for each in numbers.seeds} for numbers in played]
    return tuple(
        (100 * math.fsum(each[seed] for each in seeds) / len(seeds), seed in fallen)
        for seed in (seeds[0] if len(seeds[0]) > 1 or fallen else ())
    )
