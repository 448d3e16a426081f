"""What a view shows of the board: its panels, its table, and entries where none were asked for."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import pandas as pd  # type: ignore[import-untyped]  # it comes without types

from leaderboard.board.board import Board, panel_sets
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.page.state import SETS, SIZES, State
from leaderboard.table.columns import SUCCESS, panel_name
from leaderboard.table.table import columns, sorted_frame
from leaderboard.table.table import table as table_of
from leaderboard.table.view import BoardView, default_view, wanted

DEFAULT_CURVES: Final = 3
"""Entries whose curves are drawn where none were chosen."""


def panels_of_name(board: Board, protocol: str, name: str) -> tuple[PanelKey, ...]:
    """The panels of a choice in `panel_choices`; none if it is none."""
    found = board.protocol(protocol)
    if found is None:
        return ()
    if name in SETS:
        return panel_sets(found).get(SETS[name], ())
    return tuple(each.key for each in found.panels if panel_name(each) == name)


@lru_cache(maxsize=64)
def default_panels(board: Board, protocol: str) -> str:
    """The choice of panels that a visitor sees first; empty if nobody has played any."""
    view = default_view(board, protocol)
    if len(view.panels) > 1:
        return "built-in"
    return "/".join(view.panels[0]) if view.panels else ""


def repeats_of(row: BoardRow, name: str) -> tuple[str, ...]:
    """The plays that each checkpoint of an entry has of an episode: `1`, `2` and so on.

    Args:
        row: The entry.
        name: `task/panel`; empty for its first one.

    Returns:
        Their numbers; none if the entry has not played the panel.
    """
    panels = [panel for panel in row.panels if name in ("", "/".join(panel.key))]
    if not panels:
        return ()
    return tuple(str(n) for n in range(1, panels[0].plays // len(panels[0].seeds) + 1))


def view_of(board: Board, state: State) -> BoardView:
    """What a state shows of the board's table."""
    _, least, most = SIZES[state.size]
    same = ("protocol", "search", "kinds", "bases", "inits", "badges", "track", "sort", "reverse")
    return BoardView(
        panels=panels_of_name(board, state.protocol, state.panels),
        least_parameters=least,
        most_parameters=most,
        **{name: getattr(state, name) for name in same},
    )


def frame_of(board: Board, state: State) -> pd.DataFrame:
    """The entries of a view: the same as `table.table`, of numbers that are kept."""
    view = view_of(board, state)
    by = state.sort if "/" in state.sort else SUCCESS
    frame = whole_frame(board, state.protocol, state.panels, by)
    there = {row.id for row in board.rows(state.protocol) if wanted(row, view)}
    frame = frame[frame.index.isin(there)]
    known = {column.name: column for column in columns(board, view)}
    better = known[view.sort].better if view.sort in known else "higher"
    return sorted_frame(frame, view.sort, descending=(better == "higher") != view.reverse)


@lru_cache(maxsize=32)
def whole_frame(board: Board, protocol: str, panels: str, by: str) -> pd.DataFrame:
    """All entries with some panels, ranked by the mean over them or by one of them."""
    return table_of(board, view_of(board, State(protocol=protocol, panels=panels, sort=by)))


@lru_cache(maxsize=8)
def ranked(board: Board, protocol: str) -> tuple[BoardRow, ...]:
    """All entries of a protocol, in the order that a visitor sees first."""
    state = State(protocol=protocol, panels=default_panels(board, protocol))
    rows = {row.id: row for row in board.rows(protocol)}
    order = dict.fromkeys([*frame_of(board, state).index, *rows]) if state.panels else rows
    # Those with a rank come before programs without weights, which only mark floor and ceiling.
    return tuple(sorted((rows[entry] for entry in order), key=lambda row: row.kind == "policy"))


def filled(board: Board, state: State) -> State:
    """A state with entries chosen where its tab needs some and none were asked for: the best."""
    rows = ranked(board, state.protocol)
    if state.tab == "curves" and not state.entries:
        return replace(state, entries=_curves(rows))
    if state.tab == "entry" and not state.entry and rows:
        return replace(state, entry=rows[0].id)
    if state.tab == "compare":
        first = state.first or _partner(board, state, state.second)
        return replace(state, first=first, second=state.second or _partner(board, state, first))
    return state


def _curves(rows: Sequence[BoardRow]) -> tuple[str, ...]:
    """The best entries with logs, and with them the one that collapsed most often, if any did."""
    logged = [row for row in rows if row.stability is not None]
    shown = [row.id for row in logged[:DEFAULT_CURVES]]
    fallen = max(logged, key=lambda row: row.stability_column("collapse_rate") or 0, default=None)
    if fallen is not None and fallen.stability_column("collapse_rate") and fallen.id not in shown:
        shown[-1] = fallen.id
    return tuple(shown)


def _partner(board: Board, state: State, other: str) -> str:
    """The best entry that has played a panel that another one has, too; without one the best."""
    known = board.row(other, state.protocol)
    panels = {panel.key for panel in known.panels} if known else set()
    rows = [row for row in ranked(board, state.protocol) if row.id != other]
    common = [row for row in rows if any(panel.key in panels for panel in row.panels)]
    return next((row.id for row in common or rows), "")
