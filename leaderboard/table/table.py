"""The table of a view as a plain pandas frame: its entries, their order and numbers.

    view = default_view(board)                 # leaderboard.table.view
    frame = table(board, view)                 # numbers as numbers, NaN where unknown
    shown(frame, columns(board, view))         # texts for the page, titles for names
    csv_of(frame, columns(board, view))        # the same for spreadsheets

A frame is indexed by entry id. It has a column for each `columns.Column`, and additional ones: the
ends of intervals `<name>:low` and `<name>:high`; `rank:last`, the last of the places that start
with `rank`; and `collapse_rate:happened`, `collapse_rate:known` and `collapse_rate:halved`, in
seeds. `success` always exists: the mean over the panels, which belong to different tasks. Only
entries that have played all of them have one. Only success rates are averaged, never scores.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it comes without types

from benchmark.stats.formatting import collapses_text
from leaderboard.board.board import Board
from leaderboard.board.protocols import PanelFacts
from leaderboard.table import cells
from leaderboard.table.columns import (
    RANK,
    STABILITY,
    SUCCESS,
    Column,
    Line,
    columns_of,
    mean_column,
    panel_name,
)
from leaderboard.table.ranks import Rank, ranks
from leaderboard.table.view import BoardView, panels_of, wanted
from tasks.errors import UserError, suggestion

_WHOLE = ("count", "place", "parameters", "seeds")


def columns(board: Board, view: BoardView) -> tuple[Column, ...]:
    """All columns of a view's table, in order.

    Raises:
        UserError: See `table`.
    """
    return columns_of(panels_of(board, view))


def table(board: Board, view: BoardView) -> pd.DataFrame:
    """The entries of a view, in its order.

    Entries that have played none of its panels are left out. Ranks are by mean success over the
    view's panels, or by one panel's if the view is sorted by that; filters do not affect them.

    Raises:
        UserError: The protocol, a panel or the sort column is unknown, or two panels belong to the
            same task.
    """
    panels = panels_of(board, view)
    known = {column.name: column for column in columns_of(panels)}
    if view.sort not in known and view.sort != SUCCESS:
        raise UserError(f"there is no column {view.sort!r}{suggestion(view.sort, tuple(known))}")
    rows = [row for row in board.rows(view.protocol) if wanted(row, view)]
    places = _ranks(board, view, panels)
    # The mean is needed for sorting even if it has no separate column.
    shown_columns = {SUCCESS: mean_column(panels)} | known
    lines = {}
    for row in rows:
        line = Line(row, [panel.key for panel in panels], places.get(row.id))
        lines[row.id] = {
            name: cell for c in shown_columns.values() for name, cell in c.cells(line).items()
        }
    frame = _frame(lines, tuple(shown_columns.values()))
    column = known.get(view.sort)
    better = column.better if column else "higher"
    return sorted_frame(frame, view.sort, descending=(better == "higher") != view.reverse)


def sorted_frame(frame: pd.DataFrame, by: str, descending: bool) -> pd.DataFrame:
    """Sort a frame: texts ignoring case, infinities as numbers, unknown values always last.

    Ties are sorted by mean success, or without one by the mean over the panels that were played;
    for equal success, entries that maintainers have re-run come first, then the oldest. Scripted
    policies always come last, after all models.

    Args:
        frame: The frame.
        by: Name of the column.
        descending: Whether the largest comes first.
    """
    frame = frame.sort_index(kind="stable")
    if "badges" in frame:
        frame = frame.sort_values("badges", key=_is_not_rerun, kind="stable")
    # Panels are named `task/panel`; `task/panel:low` is the end of an interval.
    played = [name for name in frame if "/" in name and ":" not in name]
    if played:
        # Ranks follow the mean: rank 1 has the highest.
        worst_first = (by == SUCCESS and not descending) or (by == RANK and descending)
        means = frame[played].mean(axis="columns")
        frame = frame.loc[means.sort_values(ascending=worst_first, kind="stable").index]
    for name, falling in ((SUCCESS, True), (by, descending)):
        frame = frame.sort_values(
            name, ascending=not falling, na_position="last", kind="stable", key=_sort_key
        )
    if "kind" in frame:
        frame = frame.sort_values("kind", key=lambda kinds: kinds == "policy", kind="stable")
    return frame


def shown(frame: pd.DataFrame, chosen: Sequence[Column]) -> pd.DataFrame:
    """Format a frame as text, with column titles and unchanged rows.

    Args:
        frame: A frame from `table`.
        chosen: Columns to show, in order.
    """
    texts = {column.title: _texts(frame, column) for column in chosen}
    return pd.DataFrame(texts, index=frame.index, columns=[column.title for column in chosen])


def csv_of(frame: pd.DataFrame, chosen: Sequence[Column]) -> str:
    """A frame as CSV: the id first, numbers in full, units in the header."""
    heads, values = ["id"], [frame.index.tolist()]
    for column in chosen:
        units = [column.unit, *(unit or column.unit for _, unit, _ in column.beside)]
        for name, unit in zip(column.names, units, strict=True):
            heads.append(f"{name} [{unit}]" if unit else name)
            values.append(_plain_cells(frame[name], unit in _WHOLE))
    return cells.csv_text(heads, zip(*values, strict=True))


def _is_not_rerun(badges: Any) -> Any:
    return ~badges.str.contains("re-run", regex=False, na=False).astype(bool)


def _ranks(board: Board, view: BoardView, panels: Sequence[PanelFacts]) -> Mapping[str, Rank]:
    if not panels:
        return {}
    single = {panel_name(panel): (panel.key,) for panel in panels}
    return ranks(board, view.protocol, single.get(view.sort, view.panels))


def _frame(lines: Mapping[str, Mapping[str, Any]], known: Sequence[Column]) -> Any:
    """A frame with all columns in their types, even without rows."""
    index = pd.Index(list(lines), name="id", dtype="object")
    content = {
        name: pd.Series(
            [line[name] for line in lines.values()],
            index=index,
            dtype="float64" if column.unit else "object",
        )
        for column in known
        for name in column.names
    }
    return pd.DataFrame(content, index=index)


def _sort_key(values: Any) -> Any:
    if values.dtype == "float64":
        return values
    return values.map(lambda value: value.casefold(), na_action="ignore")


def _texts(frame: pd.DataFrame, column: Column) -> list[str]:
    values = frame[column.name].tolist()
    if not column.unit:
        return [cells.text(value) for value in values]
    beside = [frame[name].tolist() for name in column.names[1:]]
    if column.interval:
        return [cells.interval(*each) for each in zip(values, *beside, strict=True)]
    if column.name == RANK:
        return [cells.rank(*each) for each in zip(values, *beside, strict=True)]
    if column.name == STABILITY[0]:
        return [_collapses(*each) for each in zip(values, *beside, strict=True)]
    return [cells.number(value, column.unit) for value in values]


def _collapses(rate: float, happened: float, known: float, unknown: float, halved: float) -> str:
    if math.isnan(known):
        return cells.UNKNOWN
    late = 0 if math.isnan(halved) else int(halved)
    said = collapses_text(int(happened), int(known), late, cells.UNKNOWN, int(unknown))
    return said if unknown else f"{cells.number(rate, 'share')} ({said})"


def _plain_cells(values: Any, whole: bool) -> list[cells.Cell]:
    """A column's cells for a file; integers without a decimal point."""
    found: list[cells.Cell] = values.tolist()
    if not whole:
        return found
    return [int(v) if isinstance(v, float) and v.is_integer() else v for v in found]
