"""What the controls of the page offer, and which view they show where nothing was asked for."""

from dataclasses import replace
from functools import lru_cache

from leaderboard.board.board import Board
from leaderboard.board.rows import BoardRow
from leaderboard.page.frame import frame_of
from leaderboard.page.state import SIZES, State, choosable_columns, default_panels, panel_choices
from leaderboard.table import cells
from leaderboard.table.columns import STABILITY, SUCCESS, columns_of
from leaderboard.table.view import options

Choices = list[tuple[str, str]]
"""What is shown, and the value that stands for it. What is shown may be foreign text: controls show
texts as they are."""

DEFAULT_CURVES = 3


def choices_of(board: Board, protocol: str) -> dict[str, Choices]:
    """What each control with choices offers, by its name in `State`.

    Args:
        board: The board.
        protocol: Name of the protocol.
    """
    known = options(board, protocol)
    found = board.protocol(protocol)
    columns = columns_of(found.panels if found else ())
    measures = [column for column in columns if column.name in STABILITY]
    sorts = [(column.title, column.name) for column in columns]
    if SUCCESS not in {column.name for column in columns}:
        sorts.insert(0, ("success", SUCCESS))
    rows = ranked(board, protocol)
    entries = _entries(rows)
    return {
        "panels": list(panel_choices(board, protocol)),
        "track": [("all tracks", ""), *_texts(known.tracks)],
        "sort": sorts,
        "kinds": _texts(known.kinds),
        "bases": _texts(known.bases),
        "inits": _texts(known.inits),
        "badges": _texts(known.badges),
        "size": [(title, name) for name, (title, _, _) in SIZES.items()],
        "columns": [(column.title, column.name) for column in choosable_columns()],
        "measure": [(column.title, column.name) for column in measures],
        "base": [("all", ""), *_texts(known.bases)],
        "entries": _entries([row for row in rows if row.stability is not None]),
        "entry": entries,
        "first": entries,
        "second": entries,
    }


def filled(board: Board, state: State) -> State:
    """A state with entries chosen where its tab needs some and none were asked for: the best."""
    if state.tab == "curves" and not state.entries:
        best = [row.id for row in ranked(board, state.protocol) if row.stability is not None]
        return replace(state, entries=tuple(best[:DEFAULT_CURVES]))
    best = [row.id for row in ranked(board, state.protocol)]
    if state.tab == "entry" and not state.entry and best:
        return replace(state, entry=best[0])
    if state.tab == "compare":
        first = state.first or _partner(board, state, state.second)
        return replace(state, first=first, second=state.second or _partner(board, state, first))
    return state


def _partner(board: Board, state: State, other: str) -> str:
    """The best entry that has played a panel that another one has, too; without one the best."""
    known = board.row(other, state.protocol)
    panels = {panel.key for panel in known.panels} if known else set()
    rows = [row for row in ranked(board, state.protocol) if row.id != other]
    common = [row for row in rows if any(panel.key in panels for panel in row.panels)]
    return next((row.id for row in common or rows), "")


@lru_cache(maxsize=8)
def ranked(board: Board, protocol: str) -> tuple[BoardRow, ...]:
    """All entries of a protocol, in the order that a visitor sees first."""
    state = State(protocol=protocol, panels=default_panels(board, protocol))
    rows = {row.id: row for row in board.rows(protocol)}
    order = dict.fromkeys([*frame_of(board, state).index, *rows]) if state.panels else rows
    # Those with a rank come before programs without weights, which only mark floor and ceiling.
    return tuple(sorted((rows[entry] for entry in order), key=lambda row: row.kind == "policy"))


def _entries(rows: list[BoardRow] | tuple[BoardRow, ...]) -> Choices:
    """Names of entries; of those that are called alike the id is shown, too."""
    names = [cells.text(row.name) for row in rows]
    return [
        (f"{name} ({row.id})" if names.count(name) > 1 else name, row.id)
        for row, name in zip(rows, names, strict=True)
    ]


def _texts(values: tuple[str, ...]) -> Choices:
    return [(cells.text(value), value) for value in values]
