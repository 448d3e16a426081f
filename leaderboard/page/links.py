"""A view of the page as the query of an address, and back: a link shows what its sender saw.

    opened = open_query(board, parse_qs(query))    # what a link or a control asks for
    opened.state                                   # a view that exists, whatever was asked for
    opened.ignored                                 # what of it is not shown, and why
    query_of(opened.state)                         # tab=board&protocol=v1&panels=built-in&...

Queries come from outside: nothing of them is taken over but values that the board knows, and the
words of a search.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

from leaderboard.board.board import Board
from leaderboard.board.protocols import Protocol
from leaderboard.page.state import (
    MOST_CURVES,
    SHOW,
    SIZES,
    TABS,
    USUAL,
    State,
    choosable_columns,
    default_panels,
    panel_choices,
    panels_of_name,
    repeats_of,
)
from leaderboard.table.cells import text
from leaderboard.table.columns import STABILITY, SUCCESS, columns_of, panel_name
from leaderboard.table.view import BADGES, options

NONE: Final = "none"
"""Stands in a query for no such column at all."""
MAX_SEARCH: Final = 200
"""Characters of a search."""
MAX_LINK: Final = 8_000
"""Characters of a link's query: what is longer, many servers do not take."""
MAX_VALUES: Final = 2_000
"""Values of a query that are looked at; a link of `MAX_LINK` characters has fewer."""
BEYOND: Final = "beyond"
"""Stands in a parsed query that had more than `MAX_VALUES` values."""
_MAX_SHOWN = 3
_OF_TAB: Final[Mapping[str, tuple[str, ...]]] = {
    "board": (
        "panels", "track", "search", "kinds", "bases", "inits", "badges", "size", "columns", "sort",
        "reverse", "all",
    ),
    "stability": ("panels", "measure", "base"),
    "curves": ("entries",),
    "entry": ("entry", "panel", "show", "seed", "repeat", "episode"),
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
class Ignored:
    """What of a query is not shown; foreign text, on one line each.

    Attributes:
        unknown: What is not there.
        cut: What is there and was left out, since it is too much; in words.
    """

    unknown: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """A query that was read.

    Attributes:
        state: What is shown; its link is no longer than `MAX_LINK`.
        ignored: What was asked for and is not shown, for people.
    """

    state: State
    ignored: Ignored


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
    """The fields of a query; of one with too many values the first, and `BEYOND`."""
    pairs = query.lstrip("?").split("&", MAX_VALUES)
    found = parse_qs("&".join(pairs[:MAX_VALUES]))
    if len(pairs) > MAX_VALUES:
        found[BEYOND] = ["1"]
    return found


def open_query(board: Board, asked: Asked) -> Opened:
    """What a query, or the page's controls, ask for, as far as it is there.

    Args:
        board: The board.
        asked: Values by the names in `State`, one or several; other names are not looked at.
    """
    given = {name: _texts(asked.get(name)) for name in (f.name for f in fields(State))}
    unknown: list[str] = []
    cut = [f"a link has at most {MAX_VALUES:,} values"] if asked.get(BEYOND) else []
    found: dict[str, Any] = {}
    protocol = board.protocol(given["protocol"][0]) if given["protocol"] else board.protocols[0]
    if protocol is None:
        unknown.append(f"protocol {text(given['protocol'][0][:MAX_SEARCH])}")
        protocol = board.protocols[0]
    known = _known(board, protocol)
    for field in fields(State):
        values = given[field.name]
        if field.name == "protocol":
            found["protocol"] = protocol.name
        elif field.name == "search":
            words = " ".join(values)
            found["search"] = words[:MAX_SEARCH]
            if len(words) > MAX_SEARCH:
                cut.append(f"a search has at most {MAX_SEARCH} characters")
        elif field.name in ("reverse", "all"):
            found[field.name] = values == ("1",)
        elif field.name == "columns" and asked.get("columns") is None:
            found["columns"] = USUAL
        else:
            possible = known(field.name, found)
            right = tuple(dict.fromkeys(value for value in values if value in possible))
            wrong = [value for value in values if value not in possible]
            unknown += [f"{field.name} {text(value[:MAX_SEARCH])}" for value in wrong]
            many = field.name in _MANY
            found[field.name] = right if many else (right[0] if right else _usual(field.name))
    found["columns"] = tuple(name for name in found["columns"] if name != NONE)
    whole = _completed(board, protocol, State(**found))
    state = _fitting(whole)
    cut += [
        f"only the first {len(kept)} of {len(there)} {name} fit"
        for name in _MANY
        if len(kept := getattr(state, name)) < len(there := getattr(whole, name))
    ]
    return Opened(state, Ignored(tuple(unknown), tuple(cut)))


def ignored_text(ignored: Ignored) -> str:
    """What a link has asked for in vain; empty for nothing."""
    said = []
    if ignored.unknown:
        shown = ", ".join(ignored.unknown[:_MAX_SHOWN])
        more = len(ignored.unknown) - _MAX_SHOWN
        rest = f" and {more} more" if more > 0 else ""
        said.append(f"This address asks for something that is not on this board: {shown}{rest}.")
    if ignored.cut:
        said.append(f"This address asks for more than is shown: {'; '.join(ignored.cut)}.")
    return " ".join(said)


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
    return replace(state, **changes)


def _fitting(state: State) -> State:
    """Of long lists the first values, so that a link to the state is no longer than `MAX_LINK`."""
    state = replace(state, entries=state.entries[:MOST_CURVES])
    if len(query_of(state)) <= MAX_LINK:
        return state
    # The columns are few and ours: they always fit.
    names = [name for name in _OF_TAB[state.tab] if name in _MANY and name != "columns"]
    kept: dict[str, Any] = dict.fromkeys(names, ())
    room = MAX_LINK - len(query_of(replace(state, **kept)))
    for name in sorted(names, key=lambda name: len(getattr(state, name))):
        for value in getattr(state, name):
            length = len(urlencode([(name, value)])) + 1
            if length > room:
                break
            room -= length
            kept[name] += (value,)
    return replace(state, **kept)


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
        "track": choices.tracks,
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
        if name == "repeat":
            row = board.row(found["entry"], protocol.name)
            return repeats_of(row, found["panel"]) if row else ()
        return plain[name]

    return known


def _texts(value: str | bool | Iterable[str] | None) -> tuple[str, ...]:
    """What was asked for as texts; nothing is asked for with an empty one."""
    if value is None or value == "" or value is False:
        return ()
    if value is True:
        return ("1",)
    texts = [value] if isinstance(value, str) else list(value)
    return tuple(filter(None, texts))


def _usual(name: str) -> Any:
    return getattr(_DEFAULTS, name)
