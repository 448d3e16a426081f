"""The state of the page as a value, with its query and its part of the board.

    query_of(State(protocol="v1", panels="built-in"))   # tab=board&protocol=v1&panels=built-in
    frame_of(board, state)                              # its table

`leaderboard.page.query` reads a query.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Final
from urllib.parse import urlencode

import pandas as pd  # type: ignore[import-untyped]  # it comes without types

from leaderboard.board.board import BUILT_IN, FIELD, Board, panel_sets
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.table.columns import COLUMNS, RANK, SUCCESS, Line, panel_name
from leaderboard.table.ranks import ranks
from leaderboard.table.table import columns, sorted_frame
from leaderboard.table.table import table as table_of
from leaderboard.table.view import BoardView, default_view, wanted

SETS: Final = {"built-in": BUILT_IN, "field": FIELD}
"""Sets of panels, by their names in a query."""
SIZES: Final[Mapping[str, tuple[str, int | None, int | None]]] = {
    "any": ("any", None, None),
    "to-10m": ("up to 10 million", None, 10**7),
    "to-1b": ("above 10 million, to 1 billion", 10**7 + 1, 10**9),
    "to-10b": ("above 1 billion, to 10 billion", 10**9 + 1, 10**10),
    "more": ("above 10 billion", 10**10 + 1, None),
}
"""Ranges of parameters by name: title, minimum, maximum; all but `any` cover each number once."""
SHOW: Final = ("all", "solved", "failed")
"""Filters for the episodes that the entry page lists."""
XS: Final = ("updates", "episodes", "tokens", "seconds")
"""Possible x axes of training curves."""
FIXED: Final = (RANK, "name")
"""Columns that are always shown, besides those of success."""
USUAL: Final = tuple(each.name for each in COLUMNS if each.usual and each.name not in FIXED)
"""Optional columns that are shown by default."""
FIRST_ROWS: Final = 30
"""Number of entries that the board shows at first: a table of hundreds slows down browsers."""
MOST_CURVES: Final = 6
"""Maximum number of entries whose curves are drawn in one figure."""
DEFAULT_CURVES: Final = 3
"""Number of entries whose curves are drawn by default."""
NONE: Final = "none"
"""In a query, means no optional columns at all."""
TABS: Final[Mapping[str, tuple[str, ...]]] = {
    "board": (
        "panels", "track", "search", "kinds", "bases", "inits", "badges", "size", "columns", "sort",
        "reverse", "all",
    ),
    "stability": ("panels", "measure", "base"),
    "curves": ("entries", "x", "linear"),
    "entry": ("entry", "panel", "show", "seed", "repeat", "episode", "beside"),
    "compare": ("first", "second", "panel"),
    "collapses": (),
    "paper": (),
    "coverage": (),
    "submit": (),
    "about": (),
}  # fmt: skip
"""The tabs, and the fields of each tab's view in the order of its query."""
_ALWAYS: Final = ("panels", "entry", "first", "second", "entries")
"""Fields that a query always contains, because their defaults may change over time."""


@dataclass(frozen=True, slots=True)
class State:
    """The current view.

    Attributes:
        tab: One of `TABS`.
        protocol: Name of the protocol.
        panels: A name in `SETS`, or `task/panel` for one panel.
        track: Name of the track to show; empty for all.
        search: Words that an entry must contain.
        kinds: See `leaderboard.table.view.BoardView`; likewise the next three.
        bases: Base models.
        inits: Inits.
        badges: Badges.
        size: A name in `SIZES`.
        columns: Columns of the table besides rank, entry and success.
        sort: Column to sort by.
        reverse: Whether to show the worst first.
        all: Whether to show all entries instead of the first `FIRST_ROWS`.
        measure: Stability column to compare with success.
        base: Base model whose recipes are compared; empty for all.
        entries: Entries whose curves are drawn.
        x: The x axis of curves, one of `XS`.
        linear: Whether to avoid logarithmic axes.
        entry: The entry on the entry page.
        panel: `task/panel` whose episodes are listed or compared; empty for the first one.
        seed: Checkpoint whose play of the episode is shown; empty for the first one that passes the
            filter `show`.
        repeat: Number of the checkpoint's play of it, from 1; empty likewise.
        show: Filter for the listed episodes, one of `SHOW`.
        episode: The episode to show.
        beside: Whether to show the plays of the init and of every seed side by side.
        first: First entry of a comparison.
        second: Second entry of a comparison.
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
    measure: str = "retention"
    base: str = ""
    entries: tuple[str, ...] = ()
    x: str = "updates"
    linear: bool = False
    entry: str = ""
    panel: str = ""
    seed: str = ""
    repeat: str = ""
    show: str = "all"
    episode: str = ""
    beside: bool = False
    first: str = ""
    second: str = ""


DEFAULTS: Final = State()
"""Default values of all fields; below are the names of all fields, of lists and of flags."""
NAMES: Final = tuple(field.name for field in fields(State))
MANY: Final = tuple(name for name in NAMES if isinstance(getattr(DEFAULTS, name), tuple))
FLAGS: Final = tuple(name for name in NAMES if isinstance(getattr(DEFAULTS, name), bool))


def query_of(state: State) -> str:
    """The query of a view, without a question mark."""
    pairs: list[tuple[str, str]] = [("tab", state.tab), ("protocol", state.protocol)]
    for name in TABS[state.tab]:
        value = getattr(state, name)
        if name == "columns":
            pairs += [(name, each) for each in value or (NONE,)] if value != USUAL else []
        elif name in MANY:
            pairs += [(name, each) for each in value]
        elif name in FLAGS:
            pairs += [(name, "1")] if value else []
        elif value and (name in _ALWAYS or value != getattr(DEFAULTS, name)):
            pairs.append((name, value))
    return urlencode(pairs)


def entry_query(protocol: str, entry: str) -> str:
    """The query of an entry's page."""
    return query_of(State(tab="entry", protocol=protocol, entry=entry))


def panels_of_name(board: Board, protocol: str, name: str) -> tuple[PanelKey, ...]:
    """The panels of a choice from `panel_choices`; empty if it is not one."""
    found = board.protocol(protocol)
    if found is None:
        return ()
    if name in SETS:
        return panel_sets(found).get(SETS[name], ())
    return tuple(each.key for each in found.panels if panel_name(each) == name)


@lru_cache(maxsize=64)
def default_panels(board: Board, protocol: str) -> str:
    """The initial choice of panels; empty if no panel has been played."""
    view = default_view(board, protocol)
    if len(view.panels) > 1:
        return "built-in"
    return "/".join(view.panels[0]) if view.panels else ""


def repeats_of(row: BoardRow, name: str) -> tuple[str, ...]:
    """Numbers of the plays that each checkpoint of an entry has of an episode: `1`, `2` and so on.

    Args:
        row: The entry.
        name: `task/panel`; empty for its first one.

    Returns:
        The numbers; empty if the entry has not played the panel.
    """
    panels = [panel for panel in row.panels if name in ("", "/".join(panel.key))]
    if not panels:
        return ()
    return tuple(str(n) for n in range(1, panels[0].plays // len(panels[0].seeds) + 1))


def view_of(board: Board, state: State) -> BoardView:
    """The view of the board's table for a state."""
    _, least, most = SIZES[state.size]
    same = ("protocol", "search", "kinds", "bases", "inits", "badges", "track", "sort", "reverse")
    return BoardView(
        panels=panels_of_name(board, state.protocol, state.panels),
        least_parameters=least,
        most_parameters=most,
        **{name: getattr(state, name) for name in same},
    )


def frame_of(board: Board, state: State) -> pd.DataFrame:
    """The entries of a view, as in `table.table`, but from cached numbers."""
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
    """All entries with the given panels, ranked by the mean over them or by a single one."""
    view = view_of(board, State(protocol=protocol, panels=panels))
    if by == SUCCESS:
        return table_of(board, view)
    places = ranks(board, protocol, panels_of_name(board, protocol, by))
    frame = whole_frame(board, protocol, panels, SUCCESS)
    known = [places.get(entry) for entry in frame.index]
    # Only the ranks differ.
    first = [place.first if place else math.nan for place in known]
    last = [place.last if place else math.nan for place in known]
    return frame.assign(**{RANK: first, f"{RANK}:last": last})


@lru_cache(maxsize=8)
def ranked(board: Board, protocol: str) -> tuple[BoardRow, ...]:
    """All entries of a protocol, in their default order."""
    state = State(protocol=protocol, panels=default_panels(board, protocol))
    rows = {row.id: row for row in board.rows(protocol)}
    order = dict.fromkeys([*frame_of(board, state).index, *rows]) if state.panels else rows
    # Entries with a rank come before programs without weights, which only mark floor and ceiling.
    return tuple(sorted((rows[entry] for entry in order), key=lambda row: row.kind == "policy"))


def filled(board: Board, state: State) -> State:
    """A state with entries chosen where its tab needs some and none were asked for: the best.

    Curves and comparisons are those of the state's track, and of its panel if it is a single one.
    """
    rows = ranked(board, state.protocol)
    if state.tab == "curves" and not state.entries:
        return replace(state, entries=curves_of(_widest_track(_chosen(board, state, rows))))
    if state.tab == "entry" and not state.entry and rows:
        return replace(state, entry=rows[0].id)
    if state.tab == "compare":
        first = state.first or _partner(board, state, state.second)
        return replace(state, first=first, second=state.second or _partner(board, state, first))
    return state


def _chosen(board: Board, state: State, rows: Sequence[BoardRow]) -> list[BoardRow]:
    """The entries on the state's track that have played its panel; all, if it has neither."""
    panels = panels_of_name(board, state.protocol, state.panels)
    key = panels[0] if len(panels) == 1 else None
    return [
        row
        for row in rows
        if state.track in ("", row.track) and (key is None or row.panel(key) is not None)
    ]


def _widest_track(rows: Sequence[BoardRow]) -> list[BoardRow]:
    """Entries of the track with the most logs (ties: the best one); tracks are not comparable."""
    tracks: dict[str, list[BoardRow]] = {}
    for row in rows:
        if row.stability is not None:
            tracks.setdefault(row.track, []).append(row)
    return max(tracks.values(), key=len, default=[])


def curves_of(rows: Sequence[BoardRow]) -> tuple[str, ...]:
    """Default entries for the curves of a track: the best, and the one that most surely collapses.

    The latter has the highest lower confidence limit of its collapse rate: 4 of 5 seeds are more
    evidence than 1 of 1.

    Args:
        rows: Entries of the track, best first.
    """
    logged = [row for row in rows if row.stability is not None]
    shown = [row.id for row in logged[:DEFAULT_CURVES]]

    def surely(row: BoardRow) -> float:
        event = Line(row, (), None).collapse
        return (event.low or 0) if event and event.happened else 0

    fallen = max(logged, key=surely, default=None)
    if fallen is not None and surely(fallen) and fallen.id not in shown:
        shown[DEFAULT_CURVES - 1 :] = [fallen.id]
    return tuple(shown)


def _partner(board: Board, state: State, other: str) -> str:
    """The best entry that has a panel in common with another one.

    One of the other's track comes first: what differs there is the method. Without another one it
    is the best of the track with the most logs, among the state's.
    """
    known = board.row(other, state.protocol)
    rows = [row for row in ranked(board, state.protocol) if row.id != other]
    if known is None:
        rows = _chosen(board, state, rows)
        return next((row.id for row in _widest_track(rows) or rows), "")
    panels = {panel.key for panel in known.panels}
    common = [row for row in rows if any(panel.key in panels for panel in row.panels)]
    alike = [row for row in common if (row.kind, row.track) == (known.kind, known.track)]
    return next((row.id for row in alike or common or rows), "")
