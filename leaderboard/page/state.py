"""What somebody sees of the page: which tab, and what of the board in it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from leaderboard.board.board import BUILT_IN, FIELD, Board, panel_sets
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.table.columns import RANK, STABILITY, SUCCESS, Column, columns_of, panel_name
from leaderboard.table.view import View, default_view

TABS: Final = ("board", "stability", "curves", "entry", "compare", "submit", "about")
SETS: Final = {"built-in": BUILT_IN, "field": FIELD}
"""Sets of panels by their names in a query."""
SIZES: Final[Mapping[str, tuple[str, int | None, int | None]]] = {
    "any": ("any", None, None),
    "to-10m": ("up to 10 million", None, 10**7),
    "to-1b": ("above 10 million, to 1 billion", 10**7 + 1, 10**9),
    "to-10b": ("above 1 billion, to 10 billion", 10**9 + 1, 10**10),
    "more": ("above 10 billion", 10**10 + 1, None),
}
"""Ranges of parameters by name: title, fewest, most; every number is in one of them but `any`."""
SHOW: Final = ("all", "solved", "failed")
"""Which episodes the entry page lists."""
USUAL: Final = ("track", "init", *STABILITY, "badges", "date")
"""Columns that can be left out and are there if nobody says otherwise."""
FIXED: Final = (RANK, "name")
"""Columns that are always there, beside those of success."""
FIRST_ROWS: Final = 50
"""Entries that the board shows at first: a table of hundreds makes a browser slow."""
MOST_CURVES: Final = 6
"""Entries whose curves are drawn over each other."""


@dataclass(frozen=True, slots=True)
class State:
    """What is shown.

    Attributes:
        tab: One of `TABS`.
        protocol: Name of the protocol.
        panels: A name in `SETS`, or `task/panel` for one panel.
        track: Name of the one track that is shown; empty for all.
        search: Words that an entry must hold.
        kinds: See `leaderboard.table.view.View`, as the next three.
        bases: Base models.
        inits: Inits.
        badges: Badges.
        size: A name in `SIZES`.
        columns: Columns of the table beside rank, entry and success.
        sort: Column that it is sorted by.
        reverse: The worse first.
        all: All entries, and not only the first `FIRST_ROWS`.
        measure: Column of stability that success is compared with.
        base: Base model whose recipes are compared; empty for all.
        entries: Entries whose curves are drawn.
        entry: The entry whose page is shown.
        panel: `task/panel` whose episodes are listed or compared; empty for the first one.
        seed: Checkpoint whose play of the episode is shown; empty for the first one that ended as
            `show` asks for.
        repeat: Which of the checkpoint's plays of it, counted from 1; empty likewise.
        show: Which episodes are listed, of `SHOW`.
        episode: The episode that is shown.
        first: One entry of a comparison.
        second: The other one.
    """

    tab: str = "board"
    protocol: str = ""
    panels: str = ""
    track: str = ""
    search: str = ""
    kinds: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    inits: tuple[str, ...] = ()
    badges: tuple[str, ...] = ()
    size: str = "any"
    columns: tuple[str, ...] = USUAL
    sort: str = SUCCESS
    reverse: bool = False
    all: bool = False
    measure: str = "collapse_rate"
    base: str = ""
    entries: tuple[str, ...] = ()
    entry: str = ""
    panel: str = ""
    seed: str = ""
    repeat: str = ""
    show: str = "all"
    episode: str = ""
    first: str = ""
    second: str = ""


def view_of(board: Board, state: State) -> View:
    """What a state shows of the board's table."""
    _, least, most = SIZES[state.size]
    return View(
        protocol=state.protocol,
        panels=panels_of_name(board, state.protocol, state.panels),
        search=state.search,
        kinds=state.kinds,
        bases=state.bases,
        inits=state.inits,
        badges=state.badges,
        track=state.track,
        least_parameters=least,
        most_parameters=most,
        sort=state.sort,
        reverse=state.reverse,
    )


def panel_choices(board: Board, protocol: str) -> tuple[tuple[str, str], ...]:
    """What can be chosen as panels: (title, name in a query); sets first."""
    found = board.protocol(protocol)
    if found is None:
        return ()
    sets = panel_sets(found)
    titles = {"built-in": "built-in panels, mean over tasks", "field": "the field's panels, mean"}
    return (
        *((titles[name], name) for name, own in SETS.items() if len(sets.get(own, ())) > 1),
        *((f"{each.title}: {each.panel}", panel_name(each)) for each in found.panels),
    )


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


def choosable_columns() -> tuple[Column, ...]:
    """Columns that can be chosen: all but rank, entry and success, which are always there."""
    return tuple(column for column in columns_of(()) if column.name not in FIXED)


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
