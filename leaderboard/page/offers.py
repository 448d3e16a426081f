"""What the page's controls offer; a query may name the same, and nothing else."""

from collections.abc import Iterable
from functools import lru_cache

from leaderboard.board.board import Board, panel_sets
from leaderboard.board.rows import BoardRow
from leaderboard.page.shown import ranked
from leaderboard.page.state import FIXED, SETS, SHOW, SIZES, TABS, XS
from leaderboard.table.cells import text
from leaderboard.table.columns import COLUMNS, STABILITY, SUCCESS, Column, columns_of, panel_name
from leaderboard.table.view import BADGES, options

Choices = list[tuple[str, str]]
"""What is shown, and the value that stands for it. What is shown may be foreign text: controls show
texts as they are."""


@lru_cache(maxsize=8)
def choices_of(board: Board, protocol: str) -> dict[str, Choices]:
    """What can be chosen of each field of `State` that has choices, by its name.

    Args:
        board: The board.
        protocol: Name of the protocol.
    """
    known = options(board, protocol)
    found = board.protocol(protocol)
    panels = found.panels if found else ()
    all_columns = columns_of(panels)
    sorts = [(column.title, column.name) for column in all_columns]
    if SUCCESS not in {column.name for column in all_columns}:
        sorts.insert(0, ("success", SUCCESS))
    rows = ranked(board, protocol)
    entries = _entries(rows)
    return {
        "tab": [(name, name) for name in TABS],
        "protocol": [(each.name, each.name) for each in board.protocols],
        "panels": list(panel_choices(board, protocol)),
        "any panels": _same([*SETS, *map(panel_name, panels)]),
        "track": [("all tracks", ""), *_same(known.tracks)],
        "sort": sorts,
        "kinds": _same(known.kinds),
        "bases": _same(known.bases),
        "inits": _same(known.inits),
        "badges": _same(BADGES),
        "size": [(title, name) for name, (title, _, _) in SIZES.items()],
        "columns": [(column.title, column.name) for column in choosable_columns()],
        "measure": [(each.title, each.name) for each in all_columns if each.name in STABILITY],
        "base": [("all", ""), *_same(known.bases)],
        "panel": _same(map(panel_name, panels)),
        "show": _same(SHOW),
        "x": _same(XS),
        "entries": _entries([row for row in rows if row.stability is not None]),
        "entry": entries,
        "first": entries,
        "second": entries,
    }


def _entries(rows: Iterable[BoardRow]) -> Choices:
    """Names of entries; of those that are called alike the id is shown, too."""
    named = [(text(row.name), row.id) for row in rows]
    names = [name for name, _ in named]
    return [(f"{name} ({own})" if names.count(name) > 1 else name, own) for name, own in named]


def _same(values: Iterable[str]) -> Choices:
    return [(text(value), value) for value in values]


def panel_choices(board: Board, protocol: str) -> tuple[tuple[str, str], ...]:
    """What can be chosen as panels: (title, name in a query); sets first."""
    found = board.protocol(protocol)
    if found is None:
        return ()
    trained = [row for row in board.rows(protocol) if row.kind == "trained"]
    sets = panel_sets(found)
    titles = {"built-in": "All tasks (mean)", "field": "All tasks, public data (mean)"}
    several = [
        (titles[name], name)
        for name, own in SETS.items()
        # A mean that nobody has is a table of dashes.
        if len(keys := sets.get(own, ())) > 1 and any(all(map(r.panel, keys)) for r in trained)
    ]
    single = []
    for each in found.panels:
        count = sum(row.panel(each.key) is not None for row in trained)
        name = (
            each.title
            if each.panel == "builtin"
            else f"{each.title}: {each.panel.replace('_', ' ')}"
        )
        single.append((f"{name} ({count})", panel_name(each)))
    return (*several, *single)


def choosable_columns() -> tuple[Column, ...]:
    """Columns that can be chosen: all but rank, entry and success, which are always there."""
    return tuple(column for column in COLUMNS if column.name not in FIXED)
