"""The table of a view: which entries, in which order, with which numbers; plain pandas.

    view = default_view(board)                 # leaderboard.table.view
    frame = table(board, view)                 # numbers as numbers, NaN where unknown
    shown(frame, columns(board, view))         # texts for the page, titles for names
    csv_of(frame, columns(board, view))        # the same for spreadsheets

A frame is indexed by entry id. It has a column for each `columns.Column`, with these beside them:
the ends of intervals `<name>:low` and `<name>:high`; `rank:last`, the last of the places that begin
with `rank`; and `collapse_rate:happened` and `collapse_rate:known`, in seeds. `success` is there
always: the mean over the panels, which are of different tasks. Only entries that have played all of
them have one. Success rates alone are averaged, never scores.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it comes without types

from benchmark.stats.intervals import Interval, mean_of
from leaderboard.board.board import Board
from leaderboard.board.protocols import PanelFacts
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.table import cells
from leaderboard.table.columns import RANK, STABILITY, SUCCESS, Column, columns_of, panel_name
from leaderboard.table.ranks import Rank, ranks
from leaderboard.table.view import View, badges_of, init_of, panels_of, wanted
from tasks.errors import UserError, near

_COLLAPSE = "collapse_rate"
_WHOLE = ("count", "place", "parameters")


def columns(board: Board, view: View) -> tuple[Column, ...]:
    """All columns of a view's table, in order.

    Raises:
        UserError: See `table`.
    """
    return columns_of(panels_of(board, view))


def table(board: Board, view: View) -> pd.DataFrame:
    """The entries of a view, in its order.

    Entries that have played none of its panels are left out. Ranks are by mean success over the
    view's panels, or by one panel's where the view is sorted by that; no filter moves them.

    Raises:
        UserError: The protocol, a panel or the column to sort by is unknown, or two panels are of
            one task.
    """
    panels = panels_of(board, view)
    known = {column.name: column for column in columns_of(panels)}
    if view.sort not in known and view.sort != SUCCESS:
        raise UserError(f"there is no column {view.sort!r}{near(view.sort, tuple(known))}")
    rows = [row for row in board.rows(view.protocol) if wanted(row, view)]
    places = _ranks(board, view, panels)
    lines = {row.id: _line(row, panels, places.get(row.id)) for row in rows}
    frame = _frame(lines, _line_names(panels), set(_number_names(known.values())))
    column = known.get(view.sort)
    better = column.better if column else "higher"
    return sorted_frame(frame, view.sort, descending=(better == "higher") != view.reverse)


def sorted_frame(frame: pd.DataFrame, by: str, descending: bool) -> pd.DataFrame:
    """Sort a frame: texts in any case, infinities as numbers, what is unknown always last.

    Equals stand in the order of mean success, then of their ids: the oldest first.

    Args:
        frame: The frame.
        by: Name of the column.
        descending: The largest first.
    """
    frame = frame.sort_index(kind="stable")
    for name, falling in ((SUCCESS, True), (by, descending)):
        frame = frame.sort_values(
            name, ascending=not falling, na_position="last", kind="stable", key=_sort_key
        )
    return frame


def shown(frame: pd.DataFrame, chosen: Sequence[Column]) -> pd.DataFrame:
    """A frame as texts: columns by their titles, rows as they are.

    Args:
        frame: Of `table`.
        chosen: Columns to show, in order.
    """
    texts = {column.title: _texts(frame, column) for column in chosen}
    return pd.DataFrame(texts, index=frame.index, columns=[column.title for column in chosen])


def csv_of(frame: pd.DataFrame, chosen: Sequence[Column]) -> str:
    """A frame as a CSV file: the id first, numbers in full, units in the header."""
    heads, values = ["id"], [frame.index.tolist()]
    for column in chosen:
        unit = f" [{column.unit}]" if column.unit else ""
        for name in (column.name, *_beside(column)):
            seeds = name.startswith(f"{_COLLAPSE}:")
            heads.append(f"{name} [seeds]" if seeds else f"{name}{unit}")
            values.append(_plain_cells(frame[name], seeds or column.unit in _WHOLE))
    return cells.csv_text(heads, zip(*values, strict=True))


def success_of(row: BoardRow, panels: Sequence[PanelKey]) -> Interval | None:
    """Mean success over panels with its interval; None unless all of them were played."""
    played = [numbers for key in panels if (numbers := row.panel(key)) is not None]
    if not played or len(played) < len(panels):
        return None
    return mean_of([Interval(each.success, each.low, each.high) for each in played])


def _ranks(board: Board, view: View, panels: Sequence[PanelFacts]) -> Mapping[str, Rank]:
    if not panels:
        return {}
    single = {panel_name(panel): (panel.key,) for panel in panels}
    return ranks(board, view.protocol, single.get(view.sort, view.panels))


def _frame(lines: Mapping[str, dict[str, Any]], names: Sequence[str], numeric: set[str]) -> Any:
    """A frame with all columns of their types, be it without rows."""
    index = pd.Index(list(lines), name="id", dtype="object")
    content = {
        name: pd.Series(
            [line[name] for line in lines.values()],
            index=index,
            dtype="float64" if name in numeric else "object",
        )
        for name in names
    }
    return pd.DataFrame(content, index=index)


def _line_names(panels: Sequence[PanelFacts]) -> list[str]:
    names = [SUCCESS, f"{SUCCESS}:low", f"{SUCCESS}:high"]
    for column in columns_of(panels):
        names += [column.name, *_beside(column)]
    return list(dict.fromkeys(names))


def _beside(column: Column) -> list[str]:
    """Names of the numbers that a column has beside it."""
    if column.interval:
        return [f"{column.name}:low", f"{column.name}:high"]
    if column.name == _COLLAPSE:
        return [f"{_COLLAPSE}:happened", f"{_COLLAPSE}:known"]
    return [f"{RANK}:last"] if column.name == RANK else []


def _number_names(columns: Any) -> list[str]:
    numbers = [SUCCESS, f"{SUCCESS}:low", f"{SUCCESS}:high"]
    return numbers + [n for c in columns if c.unit for n in (c.name, *_beside(c))]


def _line(row: BoardRow, panels: Sequence[PanelFacts], rank: Rank | None) -> dict[str, Any]:
    """One entry's cells, by name; None is unknown."""
    keys = [panel.key for panel in panels]
    played = [numbers for key in keys if (numbers := row.panel(key)) is not None]
    whole = len(played) == len(keys)
    line: dict[str, Any] = {
        RANK: rank.first if rank else None,
        f"{RANK}:last": rank.last if rank else None,
        "name": row.name,
        "kind": row.kind,
        "recipe": row.recipe,
        "track": row.track,
        "base_model": row.base_model,
        "parameters": row.parameters,
        "init": init_of(row),
        "advantage": row.choices.advantage,
        "clipping": row.choices.clipping,
        "aggregation": row.choices.aggregation,
        "sampling": row.choices.sampling,
        "setting": row.choices.setting,
        "seeds": len(row.checkpoints),
        "format_valid": sum(p.format_valid for p in played) / len(played) if whole else None,
        "errors": sum(p.errors for p in played),
        "badges": ", ".join(badges_of(row)) or None,
        "date": row.date,
        "authors": ", ".join(row.authors),
        "code": row.code,
        "paper": row.paper,
    }
    line |= _with_ends(SUCCESS, success_of(row, keys))
    for panel in panels:
        line |= _with_ends(panel_name(panel), success_of(row, [panel.key]))
    events = {event.name: event for event in row.stability.events} if row.stability else {}
    collapse = events.get("collapse")
    line |= {name: row.stability_column(name) for name in STABILITY}
    line |= {
        f"{_COLLAPSE}:happened": collapse.happened if collapse else None,
        f"{_COLLAPSE}:known": collapse.known if collapse else None,
    }
    return line


def _with_ends(name: str, found: Interval | None) -> dict[str, float | None]:
    if found is None:
        return dict.fromkeys((name, f"{name}:low", f"{name}:high"))
    return {name: found.value, f"{name}:low": found.low, f"{name}:high": found.high}


def _sort_key(values: Any) -> Any:
    if values.dtype == "float64":
        return values
    return values.map(lambda value: value.casefold(), na_action="ignore")


def _texts(frame: pd.DataFrame, column: Column) -> list[str]:
    values = frame[column.name].tolist()
    if not column.unit:
        return [cells.text(value) for value in values]
    beside = [frame[name].tolist() for name in _beside(column)]
    if column.interval:
        return [cells.interval(*each) for each in zip(values, *beside, strict=True)]
    if column.name == RANK:
        return [cells.rank(*each) for each in zip(values, *beside, strict=True)]
    if column.name == _COLLAPSE:
        return [_collapses(*each) for each in zip(values, *beside, strict=True)]
    return [cells.number(value, column.unit) for value in values]


def _collapses(rate: float, happened: float, known: float) -> str:
    text = cells.number(rate, "share")
    return text if text == cells.UNKNOWN else f"{text} ({happened:.0f} of {known:.0f})"


def _plain_cells(values: Any, whole: bool) -> list[cells.Cell]:
    """A column's cells for a file; whole numbers without a point."""
    found: list[cells.Cell] = values.tolist()
    if not whole:
        return found
    return [int(v) if isinstance(v, float) and v.is_integer() else v for v in found]
