"""A view of the page as the query of an address, and back: a link shows what its sender saw.

    opened = open_query(board, parse_qs(query))    # what a link or a control asks for
    opened.state                                   # a view that exists, whatever was asked for
    opened.ignored                                 # what of it does not exist here
    query_of(opened.state)                         # tab=board&protocol=v1&panels=built-in&...

Queries come from outside: nothing of them is taken over but values that the board knows, and the
words of a search.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

from leaderboard.cells import text
from leaderboard.columns import RANK, STABILITY, SUCCESS, Column, columns_of, panel_name
from leaderboard.data import BUILT_IN, FIELD, Board, panel_sets
from leaderboard.protocols import Protocol
from leaderboard.rows import PanelKey
from leaderboard.view import BADGES, View, default_view, options

TABS: Final = ("board", "stability", "curves", "entry", "compare", "submit", "about")
SETS: Final = {"built-in": BUILT_IN, "field": FIELD}
"""Sets of panels by their names in a query."""
SIZES: Final[Mapping[str, tuple[str, int | None, int | None]]] = {
    "any": ("any", None, None),
    "to-10m": ("up to 10 million", None, 10**7),
    "to-1b": ("10 million to 1 billion", 10**7, 10**9),
    "to-10b": ("1 to 10 billion", 10**9, 10**10),
    "more": ("more than 10 billion", 10**10, None),
}
"""Ranges of parameters by name: title, fewest, most."""
SHOW: Final = ("all", "solved", "failed")
"""Which episodes the entry page lists."""
USUAL: Final = ("init", *STABILITY, "badges", "date")
"""Columns that can be left out and are there if nobody says otherwise."""
FIXED: Final = (RANK, "name")
"""Columns that are always there, beside those of success."""
NONE: Final = "none"
"""Stands in a query for no such column at all."""
FIRST_ROWS: Final = 50
"""Entries that the board shows at first: a table of hundreds makes a browser slow."""
MOST_CURVES: Final = 6
"""Entries whose curves are drawn over each other."""
MAX_SEARCH: Final = 200
_MAX_VALUES = 100
_MAX_SHOWN = 3


@dataclass(frozen=True, slots=True)
class State:
    """What is shown.

    Attributes:
        tab: One of `TABS`.
        protocol: Name of the protocol.
        panels: A name in `SETS`, or `task/panel` for one panel.
        search: Words that an entry must hold.
        kinds: See `leaderboard.view.View`, as the next three.
        bases: Base models.
        inits: Inits.
        badges: Badges.
        size: A name in `SIZES`.
        columns: Columns of the table beside rank, entry and success.
        sort: Column that it is sorted by.
        reverse: The worse first.
        all: All entries, and not only the first `FIRST_ROWS`.
        measure: Column of stability that success is held against.
        base: Base model whose recipes are compared; empty for all.
        entries: Entries whose curves are drawn.
        entry: The entry whose page is shown.
        panel: `task/panel` whose episodes are listed or compared; empty for the first one.
        seed: Checkpoint whose episode is shown.
        show: Which episodes are listed, of `SHOW`.
        episode: The episode that is shown.
        first: One entry of a comparison.
        second: The other one.
    """

    tab: str = "board"
    protocol: str = ""
    panels: str = ""
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
    show: str = "all"
    episode: str = ""
    first: str = ""
    second: str = ""


_OF_TAB: Final[Mapping[str, tuple[str, ...]]] = {
    "board": (
        "panels", "search", "kinds", "bases", "inits", "badges", "size", "columns", "sort",
        "reverse", "all",
    ),
    "stability": ("panels", "measure", "base"),
    "curves": ("entries",),
    "entry": ("entry", "panel", "show", "seed", "episode"),
    "compare": ("first", "second", "panel"),
    "submit": (),
    "about": (),
}  # fmt: skip
"""The fields that a tab's view consists of, in the order of its query."""
_ALWAYS: Final = ("panels", "entry", "first", "second", "entries")
"""Fields that a query names though they have their usual value, which may change some day."""
_DEFAULTS: Final = State()
_MANY: Final = tuple(
    field.name for field in fields(State) if isinstance(getattr(_DEFAULTS, field.name), tuple)
)

Asked = Mapping[str, str | bool | Iterable[str] | None]


@dataclass(frozen=True, slots=True)
class Opened:
    """A query that was read.

    Attributes:
        state: What is shown.
        ignored: What was asked for and is not there, for people; foreign text, on one line.
    """

    state: State
    ignored: tuple[str, ...]


def query_of(state: State) -> str:
    """The query of a view, without a question mark."""
    pairs: list[tuple[str, str]] = [("tab", state.tab), ("protocol", state.protocol)]
    for name in _OF_TAB[state.tab]:
        value = getattr(state, name)
        if name == "columns":
            pairs += [(name, each) for each in value or (NONE,)] if value != USUAL else []
        elif name in _MANY:
            pairs += [(name, each) for each in value]
        elif isinstance(value, bool):
            pairs += [(name, "1")] if value else []
        elif value and (name in _ALWAYS or value != getattr(_DEFAULTS, name)):
            pairs.append((name, value))
    return urlencode(pairs)


def parsed(query: str) -> dict[str, list[str]]:
    """The fields of a query; what is beyond all bounds is left out."""
    try:
        return parse_qs(query.lstrip("?"), max_num_fields=_MAX_VALUES)
    except ValueError:
        return {}


def open_query(board: Board, asked: Asked) -> Opened:
    """What a query, or the page's controls, ask for, as far as it is there.

    Args:
        board: The board.
        asked: Values by the names in `State`, one or several; other names are not looked at.
    """
    given = {name: _texts(asked.get(name)) for name in (f.name for f in fields(State))}
    ignored: list[str] = []
    found: dict[str, Any] = {}
    protocol = board.protocol(given["protocol"][0]) if given["protocol"] else board.protocols[0]
    if protocol is None:
        ignored.append(f"protocol {text(given['protocol'][0][:MAX_SEARCH])}")
        protocol = board.protocols[0]
    known = _known(board, protocol)
    for field in fields(State):
        values = given[field.name]
        if field.name == "protocol":
            found["protocol"] = protocol.name
        elif field.name == "search":
            found["search"] = " ".join(values)[:MAX_SEARCH]
        elif field.name in ("reverse", "all"):
            found[field.name] = values == ("1",)
        elif field.name == "columns" and asked.get("columns") is None:
            found["columns"] = USUAL
        else:
            possible = known(field.name, found)
            right = tuple(dict.fromkeys(value for value in values if value in possible))
            wrong = [value for value in values if value not in possible]
            ignored += [f"{field.name} {text(value[:MAX_SEARCH])}" for value in wrong]
            many = field.name in _MANY
            found[field.name] = right if many else (right[0] if right else _usual(field.name))
    found["columns"] = tuple(name for name in found["columns"] if name != NONE)
    return Opened(_completed(board, protocol, State(**found)), tuple(ignored))


def ignored_text(ignored: tuple[str, ...]) -> str:
    """What a link has asked for in vain; empty for nothing."""
    if not ignored:
        return ""
    shown = ", ".join(ignored[:_MAX_SHOWN])
    more = f" and {len(ignored) - _MAX_SHOWN} more" if len(ignored) > _MAX_SHOWN else ""
    return f"This address asks for something that is not on this board: {shown}{more}."


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


def _completed(board: Board, protocol: Protocol, state: State) -> State:
    """Fill in what depends on the board or on other fields, and drop what does not fit them."""
    changes: dict[str, Any] = {}
    panels = state.panels or default_panels(board, protocol.name)
    changes["panels"] = panels
    chosen = [protocol.panel(key) for key in panels_of_name(board, protocol.name, panels)]
    columns = {column.name for column in columns_of(panel for panel in chosen if panel)}
    if state.sort not in columns:
        changes["sort"] = SUCCESS
    if set(state.columns) == set(USUAL):
        changes["columns"] = USUAL
    changes["entries"] = state.entries[:MOST_CURVES]
    return State(**{field.name: getattr(state, field.name) for field in fields(State)} | changes)


def _known(board: Board, protocol: Protocol) -> Callable[[str, Mapping[str, Any]], Iterable[str]]:
    """Values that a field may have; those of some depend on fields before them."""
    choices = options(board, protocol.name)
    rows = board.rows(protocol.name)
    entries = {row.id for row in rows}
    panels = {panel_name(each): each for each in protocol.panels}
    columns = {column.name for column in columns_of(protocol.panels)} | {SUCCESS}
    choosable = {column.name for column in choosable_columns()} | {NONE}
    plain: dict[str, Iterable[str]] = {
        "tab": TABS,
        "panels": {name for _, name in panel_choices(board, protocol.name)},
        "kinds": choices.kinds,
        "bases": choices.bases,
        "inits": choices.inits,
        "badges": BADGES,
        "size": SIZES,
        "columns": choosable,
        "sort": columns,
        "measure": STABILITY,
        "base": choices.bases,
        "entries": entries,
        "entry": entries,
        "panel": panels,
        "show": SHOW,
        "first": entries,
        "second": entries,
    }

    def known(name: str, found: Mapping[str, Any]) -> Iterable[str]:
        if name == "episode":
            panel = panels.get(found["panel"])
            return panel.episodes if panel else ()
        if name == "seed":
            row = board.row(found["entry"], protocol.name)
            return {str(point.seed) for point in row.checkpoints} if row else ()
        return plain[name]

    return known


def _texts(value: str | bool | Iterable[str] | None) -> tuple[str, ...]:
    """What was asked for as texts; nothing is asked for with an empty one."""
    if value is None or value == "" or value is False:
        return ()
    if value is True:
        return ("1",)
    texts = [value] if isinstance(value, str) else list(value)
    return tuple(filter(None, texts))[:_MAX_VALUES]


def _usual(name: str) -> Any:
    return getattr(_DEFAULTS, name)
