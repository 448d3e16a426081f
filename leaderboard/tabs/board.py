"""The board: all entries of a view as one table, and below it what the paper published."""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import pandas as pd  # type: ignore[import-untyped]  # it comes without types
from markupsafe import Markup

from leaderboard.board.board import Board
from leaderboard.page.markup import (
    NOTHING,
    Piece,
    element,
    facts,
    folded,
    framed,
    joined,
    line,
    link,
    note,
    outside,
    page,
    view_link,
)
from leaderboard.page.state import (
    FIRST_ROWS,
    FIXED,
    State,
    frame_of,
    query_of,
    view_of,
    whole_frame,
)
from leaderboard.table import cells
from leaderboard.table.columns import RANK, SUCCESS, Column
from leaderboard.table.table import columns, csv_of
from leaderboard.table.view import panels_of
from leaderboard.tabs.published import published_section

_GROUPS: Final = ("success", "stability", "entry", "recipe", "proof")
_COLLAPSE: Final = "collapse_rate"
_CSV: Final = "leaderboard.csv"
_SHORT: Final = {
    "rank": "rank",
    "collapse_rate": "collapse",
    "max_drawdown": "drawdown",
    "mismatch_p95": "mismatch P95",
}
"""Short titles of columns; the whole one stands in the explanations."""


def chosen(board: Board, state: State) -> tuple[Column, ...]:
    """Columns of the table: those that are always there, and those of the state.

    What a visitor comes for stands first, also where the page is narrow: success, then stability.
    Beside a mean stands how often it collapses, before the panels that it is the mean of.
    """
    wanted = {*state.columns, *FIXED}
    found = columns(board, view_of(board, state))
    shown = [column for column in found if column.interval or column.name in wanted]
    mean = any(column.name == SUCCESS for column in shown)

    def place(column: Column) -> int:
        if column.name in FIXED:
            return 0
        if mean and column.name in (SUCCESS, _COLLAPSE):
            return 1
        return 2 + _GROUPS.index(column.group)

    return tuple(sorted(shown, key=place))


def csv(board: Board, state: State) -> str:
    """The table of a view as a file for spreadsheets, with all columns."""
    return csv_of(frame_of(board, state), columns(board, view_of(board, state)))


@lru_cache(maxsize=64)
def board_page(board: Board, state: State) -> str:
    """The tab's content."""
    view = view_of(board, state)
    if not view.panels:
        return page(note("No entry has been accepted under this protocol yet."))
    frame = frame_of(board, state)
    query = query_of(state)
    count = len(board.rows(state.protocol))
    noun = "entry" if count == 1 else "entries"
    shown = f"{len(frame)} of {count} {noun}" if len(frame) != count else f"{count} {noun}"
    by = next((c.title for c in columns(board, view) if c.name == state.sort), "success")
    direction = ", the worse first" if state.reverse else ""
    top = frame if state.all else frame.head(FIRST_ROWS)
    cut = f"; the first {len(top)} are shown" if len(top) < len(frame) else ""
    return page(
        element("p", f"{shown}, sorted by {by}{direction}{cut}", "lb-count", role="status"),
        _table(board, state, top) if len(frame) else note("No entry fits these filters."),
        _more(state, len(frame)) if cut else NOTHING,
        view_link(query, element("a", "Download CSV", href=f"{_CSV}?{query}", download=_CSV)),
        _around(board, state.protocol, state.panels),
    )


def _more(state: State, count: int) -> Markup:
    query = query_of(replace(state, all=True))
    return element("p", link(query, f"Show all {count} entries"), "lb-foot")


def _table(board: Board, state: State, frame: pd.DataFrame) -> Markup:
    shown = chosen(board, state)
    heads = joined(_head(column, state) for column in shown)
    by = state.sort if "/" in state.sort else SUCCESS
    contents = _contents(board, state.protocol, state.panels, by, tuple(c.name for c in shown))
    rows = [
        element("tr", contents[entry], "unranked" if math.isnan(rank) else "")
        for entry, rank in zip(frame.index, frame[RANK], strict=True)
    ]
    return framed("Entries of the leaderboard", heads, joined(rows), "lb-board")


@lru_cache(maxsize=32)
def _contents(
    board: Board, protocol: str, panels: str, by: str, names: tuple[str, ...]
) -> dict[str, Markup]:
    """The cells of every entry, by its id: filters and orders do not change them."""
    state = State(protocol=protocol, panels=panels, sort=by)
    known = {column.name: column for column in columns(board, view_of(board, state))}
    frame = whole_frame(board, protocol, panels, by)
    return {
        entry: joined(_cell(entry, known[name], values, state) for name in names)
        for entry, values in zip(frame.index, frame.to_dict("records"), strict=True)
    }


def _head(column: Column, state: State) -> Markup:
    """A title that sorts: by this column, and when it does so already, the other way round."""
    # Of a single panel the mean has no column of its own.
    alone = state.sort == SUCCESS and "/" in state.panels and column.interval
    current = alone or column.name == state.sort
    target = replace(state, sort=column.name, reverse=current and not state.reverse)
    falls = (column.better == "higher") != state.reverse
    order = "descending" if falls else "ascending"
    mark = element("span", "\u2193" if falls else "\u2191", aria_hidden="true")
    css = " ".join(filter(None, ["num" if column.unit else "", _css(column)]))
    text = joined([_title(column), " ", mark]) if current else _title(column)
    sorted_by = {"aria_sort": order} if current else {}
    go = link(query_of(target), text)
    return element("th", go, css, scope="col", title=column.text, **sorted_by)


def _title(column: Column) -> str:
    return _SHORT.get(column.name, column.title.removesuffix(" (builtin)"))


def _css(column: Column) -> str:
    return {RANK: "lb-rank", "name": "lb-name"}.get(column.name, "")


def _cell(entry: str, column: Column, values: dict[str, Any], state: State) -> Markup:
    name = column.name
    if name == "name":
        return element("th", _name(entry, values, state), "lb-name", scope="row")
    if name == RANK:
        shown = cells.rank(values[RANK], values[f"{RANK}:last"])
        return element("td", shown, "num lb-rank")
    if not column.unit:
        css = "lb-badges" if name == "badges" else ""
        return element("td", _text(name, values[name]), css)
    return element("td", _number(column, values), "num")


def _name(entry: str, values: dict[str, Any], state: State) -> Markup:
    target = State(tab="entry", protocol=state.protocol, entry=entry)
    size = cells.number(values["parameters"], "parameters")
    weights = cells.text(values["base_model"]) + (f" {size}" if size != cells.UNKNOWN else "")
    about = [values["kind"] if values["kind"] != "trained" else cells.text(values["recipe"])]
    about += [weights] if values["base_model"] else []
    below: list[Piece] = [*about, *_outside(values)]
    return joined(
        [
            link(query_of(target), line(values["name"])),
            element("span", joined(below, " \u00b7 "), "lb-sub"),
        ]
    )


def _outside(values: dict[str, Any]) -> list[Markup]:
    return [outside(values[name], name) for name in ("code", "paper") if values[name]]


def _text(name: str, value: str | None) -> Piece:
    if name == "badges" and value:
        return joined(element("span", badge, "lb-badge") for badge in value.split(", "))
    if name in ("code", "paper") and value:
        return outside(value, name)
    return line(value)


def _number(column: Column, values: dict[str, Any]) -> Piece:
    value = values[column.name]
    if column.interval:
        low, high = values[f"{column.name}:low"], values[f"{column.name}:high"]
        shown = cells.percent(value) if value == value else cells.UNKNOWN  # noqa: PLR0124 - NaN
        if shown == cells.UNKNOWN:
            return shown
        ends = f"{cells.percent(low)}\u2013{cells.percent(high)}"
        return joined([shown, element("span", ends, "lb-sub")])
    if column.name == "collapse_rate" and value == value:  # noqa: PLR0124 - NaN
        seeds = f"{values['collapse_rate:happened']:.0f} of {values['collapse_rate:known']:.0f}"
        return joined([cells.number(value, "share"), element("span", seeds, "lb-sub")])
    return cells.number(value, column.unit)


@lru_cache(maxsize=32)
def _around(board: Board, protocol: str, panels: str) -> Markup:
    """What stands below a table of some panels, whatever its filters and its order."""
    state = State(protocol=protocol, panels=panels)
    return joined(
        [
            _how_to_read(board, state),
            published_section(panels_of(board, view_of(board, state)), protocol),
            _refused(board),
        ]
    )


def _how_to_read(board: Board, state: State) -> Markup:
    """What every column is, and what ranks and ranges mean."""
    units = {"share": "%", "place": "", "count": "", "parameters": "", "ratio": "", "": ""}
    terms = []
    for column in columns(board, view_of(board, state)):
        unit = units.get(column.unit, column.unit)
        better = f"; {column.better} is better" if column.better else ""
        text = f"{column.text}{better}"
        terms.append((column.title + (f" ({unit})" if unit else ""), text))
    rule = note(
        "A rank is the range of places that noise leaves open in the entry's track: behind all of "
        "it that are surely better, before all that are surely worse. A track pins everything of "
        "a training but the method; entries on none are ranked as open ones. One is surely "
        "better where the 95 % interval of the paired difference does not hold 0; nothing is "
        "corrected for many comparisons. The small numbers below a success rate are its 95 % "
        "interval over episodes; below a collapse rate they are seeds. A dash is unknown, never "
        "0. Filters move no rank. Policies are programs without weights and have none: they mark "
        "floor and ceiling."
    )
    return folded("What ranks and columns mean", joined([rule, facts(terms)]))


def _refused(board: Board) -> Markup:
    """Submissions that are not on the board, by name: nothing is dropped silently."""
    if not board.refused:
        return NOTHING
    lines = joined(
        element("li", joined([line(each.id), ": ", line(each.reasons[0] if each.reasons else "")]))
        for each in board.refused
    )
    return folded(f"Not accepted any more: {len(board.refused)}", element("ul", lines))
