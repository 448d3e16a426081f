"""What somebody sees of the page, as a value: its query, and what the board has of it.

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
XS: Final = ("updates", "episodes", "tokens", "seconds")
"""What training curves can be drawn over."""
FIXED: Final = (RANK, "name")
"""Columns that are always there, beside those of success."""
USUAL: Final = tuple(each.name for each in COLUMNS if each.usual and each.name not in FIXED)
"""Columns that can be left out and are there if nobody says otherwise."""
FIRST_ROWS: Final = 30
"""Entries that the board shows at first: a table of hundreds makes a browser slow."""
MOST_CURVES: Final = 6
"""Entries whose curves are drawn over each other."""
DEFAULT_CURVES: Final = 3
"""Entries whose curves are drawn where none were chosen."""
NONE: Final = "none"
"""Stands in a query for no such column at all."""
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
"""The tabs, and the fields that a tab's view consists of, in the order of its query."""
_ALWAYS: Final = ("panels", "entry", "first", "second", "entries")
"""Fields that a query names though they have their usual value, which may change some day."""


@dataclass(frozen=True, slots=True)
class State:
    """What is shown.

    Attributes:
        tab: One of `TABS`.
        protocol: Name of the protocol.
        panels: A name in `SETS`, or `task/panel` for one panel.
        track: Name of the one track that is shown; empty for all.
        search: Words that an entry must hold.
        kinds: See `leaderboard.table.view.BoardView`, as the next three.
        bases: Base models.
        inits: Inits.
        badges: Badges.
        size: A name in `SIZES`.
        columns: Columns of the table beside rank, entry and success.
        sort: Column that it is sorted by.
        reverse: The worst first.
        all: All entries, and not only the first `FIRST_ROWS`.
        measure: Column of stability that success is compared with.
        base: Base model whose recipes are compared; empty for all.
        entries: Entries whose curves are drawn.
        x: What curves are drawn over, of `XS`.
        linear: No axis is logarithmic.
        entry: The entry whose page is shown.
        panel: `task/panel` whose episodes are listed or compared; empty for the first one.
        seed: Checkpoint whose play of the episode is shown; empty for the first one that ended as
            `show` asks for.
        repeat: Which of the checkpoint's plays of it, counted from 1; empty likewise.
        show: Which episodes are listed, of `SHOW`.
        episode: The episode that is shown.
        beside: It is shown as the init and every seed played it, beside each other.
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
"""What a field is where nobody says otherwise; below it the names of all, of lists, of flags."""
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
    view = view_of(board, State(protocol=protocol, panels=panels))
    if by == SUCCESS:
        return table_of(board, view)
    places = ranks(board, protocol, panels_of_name(board, protocol, by))
    frame = whole_frame(board, protocol, panels, SUCCESS)
    known = [places.get(entry) for entry in frame.index]
    # The ranks are all that differs.
    first = [place.first if place else math.nan for place in known]
    last = [place.last if place else math.nan for place in known]
    return frame.assign(**{RANK: first, f"{RANK}:last": last})


@lru_cache(maxsize=8)
def ranked(board: Board, protocol: str) -> tuple[BoardRow, ...]:
    """All entries of a protocol, in the order that a visitor sees first."""
    state = State(protocol=protocol, panels=default_panels(board, protocol))
    rows = {row.id: row for row in board.rows(protocol)}
    order = dict.fromkeys([*frame_of(board, state).index, *rows]) if state.panels else rows
    # Those with a rank come before programs without weights, which only mark floor and ceiling.
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
    """The track with the most logs, of several the best: curves of two tracks do not compare."""
    tracks: dict[str, list[BoardRow]] = {}
    for row in rows:
        if row.stability is not None:
            tracks.setdefault(row.track, []).append(row)
    return max(tracks.values(), key=len, default=[])


def curves_of(rows: Sequence[BoardRow]) -> tuple[str, ...]:
    """Entries whose curves are drawn of a track: the best, and the one that collapses most surely.

    That is the one whose collapse rate has an interval with the highest lower end: 4 of 5 seeds say
    more than 1 of 1.

    Args:
        rows: Entries of the track, the best first.
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
    """The best entry that has played a panel that another one has, too.

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
