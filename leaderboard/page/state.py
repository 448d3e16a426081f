"""What somebody sees of the page, as a value: from a query, to a query, and what it shows.

    opened = open_query(board, parsed(query))     # what a link or a control asks for
    opened.state                                  # a view that exists, whatever was asked for
    opened.ignored                                # what of it is not shown, for people
    query_of(opened.state)                        # tab=board&protocol=v1&panels=built-in&...

Queries come from outside: nothing of them is taken over but values that the board knows, and the
words of a search. What a control offers and what a query may name are the same: `choices_of`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

import pandas as pd  # type: ignore[import-untyped]

from leaderboard.board.board import BUILT_IN, FIELD, Board, panel_sets
from leaderboard.board.rows import BoardRow, PanelKey
from leaderboard.table.cells import text
from leaderboard.table.columns import (
    COLUMNS,
    RANK,
    STABILITY,
    SUCCESS,
    Column,
    columns_of,
    panel_name,
)
from leaderboard.table.table import columns, sorted_frame
from leaderboard.table.table import table as table_of
from leaderboard.table.view import BADGES, View, default_view, options, wanted

Choices = list[tuple[str, str]]
"""What is shown, and the value that stands for it. What is shown may be foreign text: controls show
texts as they are."""
Asked = Mapping[str, str | bool | Iterable[str] | None]

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
NONE: Final = "none"
"""Stands in a query for no such column at all."""
MAX_SEARCH: Final = 200
"""Characters of a search."""
MAX_LINK: Final = 16_000
"""Characters of a query that are read; what is longer, few servers take."""
TOO_LONG: Final = "too-long"
"""Stands in a parsed query that was longer than `MAX_LINK`."""
_MAX_SHOWN: Final = 3
TABS: Final[Mapping[str, tuple[str, ...]]] = {
    "board": (
        "panels", "track", "search", "kinds", "bases", "inits", "badges", "size", "columns", "sort",
        "reverse", "all",
    ),
    "stability": ("panels", "measure", "base"),
    "curves": ("entries", "x", "linear"),
    "entry": ("entry", "panel", "show", "seed", "repeat", "episode"),
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
        kinds: See `leaderboard.table.view.View`, as the next three.
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
    first: str = ""
    second: str = ""


_DEFAULTS: Final = State()
_NAMES: Final = tuple(field.name for field in fields(State))
_MANY: Final = tuple(name for name in _NAMES if isinstance(getattr(_DEFAULTS, name), tuple))
_FLAGS: Final = tuple(name for name in _NAMES if isinstance(getattr(_DEFAULTS, name), bool))


@dataclass(frozen=True, slots=True)
class Ignored:
    """What of a query is not shown; foreign text, on one line each.

    Attributes:
        unknown: What is not there.
        cut: What is there and was left out, since it is too much; in words.
    """

    unknown: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """What is said about it; empty for nothing."""
        said = []
        if self.unknown:
            shown = ", ".join(self.unknown[:_MAX_SHOWN])
            more = len(self.unknown) - _MAX_SHOWN
            rest = f" and {more} more" if more > 0 else ""
            said.append(f"Not on this board, though the address asks for it: {shown}{rest}.")
        if self.cut:
            said.append(f"The address asks for more than is shown: {'; '.join(self.cut)}.")
        return " ".join(said)


@dataclass(frozen=True, slots=True)
class Opened:
    """A query that was read.

    Attributes:
        state: What is shown.
        ignored: What was asked for and is not shown.
    """

    state: State
    ignored: Ignored


def query_of(state: State) -> str:
    """The query of a view, without a question mark."""
    pairs: list[tuple[str, str]] = [("tab", state.tab), ("protocol", state.protocol)]
    for name in TABS[state.tab]:
        value = getattr(state, name)
        if name == "columns":
            pairs += [(name, each) for each in value or (NONE,)] if value != USUAL else []
        elif name in _MANY:
            pairs += [(name, each) for each in value]
        elif name in _FLAGS:
            pairs += [(name, "1")] if value else []
        elif value and (name in _ALWAYS or value != getattr(_DEFAULTS, name)):
            pairs.append((name, value))
    return urlencode(pairs)


def parsed(query: str) -> dict[str, list[str]]:
    """The fields of a query; of one that is too long the first ones, and `TOO_LONG`."""
    found = parse_qs(query.lstrip("?")[:MAX_LINK])
    return found | ({TOO_LONG: ["1"]} if len(query) > MAX_LINK else {})


def open_query(board: Board, asked: Asked) -> Opened:
    """What a query, or the page's controls, ask for, as far as it is there.

    Args:
        board: The board.
        asked: Values by the names in `State`, one or several; other names are not looked at.
    """
    given = {name: _texts(asked.get(name)) for name in _NAMES}
    protocol = board.protocol(given["protocol"][0]) if given["protocol"] else board.protocols[0]
    known = choices_of(board, protocol.name if protocol else board.protocols[0].name)
    cut = [f"an address has at most {MAX_LINK:,} characters"] if asked.get(TOO_LONG) else []
    unknown: list[str] = []
    found: dict[str, Any] = {}
    for name in _NAMES:
        values = given[name]
        if name == "search":
            words = " ".join(values)
            found[name] = words[:MAX_SEARCH]
            if len(words) > MAX_SEARCH:
                cut.append(f"a search has at most {MAX_SEARCH} characters")
        elif name in _FLAGS:
            found[name] = values == ("1",)
        elif name == "columns" and asked.get(name) is None:
            found[name] = USUAL
        else:
            offered = _offered(board, name, found, known)
            right = tuple(dict.fromkeys(value for value in values if value in offered))
            unknown += [f"{name} {text(v[:MAX_SEARCH])}" for v in values if v not in offered]
            first = right[0] if right else getattr(_DEFAULTS, name)
            found[name] = right if name in _MANY else first
    if len(found["entries"]) > MOST_CURVES:
        cut.append(f"only the first {MOST_CURVES} of {len(found['entries'])} entries fit")
    found["entries"] = found["entries"][:MOST_CURVES]
    found["protocol"] = found["protocol"] or board.protocols[0].name
    return Opened(_completed(board, State(**found)), Ignored(tuple(unknown), tuple(cut)))


def _offered(
    board: Board, name: str, found: Mapping[str, Any], known: Mapping[str, Choices]
) -> Iterable[str]:
    """Values that a field may have; those of some depend on fields before them."""
    if name not in ("episode", "seed", "repeat"):
        # The control offers those with logs; of others the page says that they have none.
        # Likewise of a mean that nobody has: an address of it stays an address.
        wider = {"entries": "entry", "panels": "any panels"}
        offered = known[wider.get(name, name)]
        return [value for _, value in offered] + ([NONE] if name == "columns" else [])
    protocol = board.protocol(found["protocol"] or None)
    panel = (
        next((p for p in protocol.panels if panel_name(p) == found["panel"]), None)
        if protocol
        else None
    )
    row = board.row(found["entry"], found["protocol"] or None)
    if name == "episode":
        return panel.episodes if panel else ()
    if row is None:
        return ()
    if name == "seed":
        return {str(point.seed) for point in row.checkpoints}
    return repeats_of(row, found["panel"])


def _completed(board: Board, state: State) -> State:
    """Fill in what depends on the board or on other fields, and drop what does not fit them."""
    state = replace(state, columns=tuple(name for name in state.columns if name != NONE))
    if set(state.columns) == set(USUAL):
        state = replace(state, columns=USUAL)
    if not state.panels:
        state = replace(state, panels=default_panels(board, state.protocol))
    there = {column.name for column in columns(board, view_of(board, state))}
    return state if state.sort in there else replace(state, sort=SUCCESS)


def _texts(value: str | bool | Iterable[str] | None) -> tuple[str, ...]:
    """What was asked for as texts; nothing is asked for with an empty one."""
    if value is None or value == "" or value is False:
        return ()
    if value is True:
        return ("1",)
    return tuple(filter(None, [value] if isinstance(value, str) else value))


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
        name = each.title if each.panel == "builtin" else f"{each.title}: {each.panel}"
        single.append((f"{name} ({count})", panel_name(each)))
    return (*several, *single)


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


def choosable_columns() -> tuple[Column, ...]:
    """Columns that can be chosen: all but rank, entry and success, which are always there."""
    return tuple(column for column in COLUMNS if column.name not in FIXED)


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


def view_of(board: Board, state: State) -> View:
    """What a state shows of the board's table."""
    _, least, most = SIZES[state.size]
    same = ("protocol", "search", "kinds", "bases", "inits", "badges", "track", "sort", "reverse")
    return View(
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
        best = [row.id for row in rows if row.stability is not None]
        return replace(state, entries=tuple(best[:DEFAULT_CURVES]))
    if state.tab == "entry" and not state.entry and rows:
        return replace(state, entry=rows[0].id)
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
