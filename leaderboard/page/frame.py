"""The table of what somebody sees, kept between events."""

from functools import lru_cache

import pandas as pd  # type: ignore[import-untyped]

from leaderboard.board.board import Board
from leaderboard.page.state import State, view_of
from leaderboard.table.columns import SUCCESS
from leaderboard.table.table import columns, sorted_frame
from leaderboard.table.table import table as table_of
from leaderboard.table.view import wanted


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
