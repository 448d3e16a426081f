"""Converts a query, or the values of the page's controls, to a view that exists.

    opened = open_query(board, parsed(query))     # what a link or a control asks for
    opened.state                                  # a view that exists, whatever was asked for
    opened.ignored                                # requested values that are not shown

Queries are untrusted: only values that the board knows are accepted, and the words of a search. A
control offers exactly what a query may contain: `choices_of`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final
from urllib.parse import parse_qs

from benchmark.evaluation.protocol import NAME, PIXELS, THINKING
from leaderboard.board.board import Board, panel_sets
from leaderboard.board.protocols import PanelFacts
from leaderboard.board.rows import BoardRow
from leaderboard.page.methods import method_of
from leaderboard.page.state import (
    DEFAULTS,
    FIXED,
    FLAGS,
    MANY,
    MOST_CURVES,
    NAMES,
    NONE,
    SETS,
    SHOW,
    SIZES,
    TABS,
    USUAL,
    XS,
    State,
    default_panels,
    ranked,
    repeats_of,
    view_of,
)
from leaderboard.table.cells import text
from leaderboard.table.columns import COLUMNS, STABILITY, SUCCESS, columns_of, panel_name
from leaderboard.table.table import columns
from leaderboard.table.view import BADGES, options
from tasks.texts import cut

Choices = list[tuple[str, str]]
"""Labels and values of choices. Labels may be untrusted text, because controls show them as plain
text."""
Asked = Mapping[str, str | bool | Iterable[str] | None]
MAX_SEARCH: Final = 200
"""Maximum length of a search, in characters."""
MAX_LINK: Final = 16_000
"""Maximum length of a query, in characters; few servers accept longer ones."""
TOO_LONG: Final = "too-long"
"""Marks a parsed query that was longer than `MAX_LINK`."""
_MAX_SHOWN: Final = 3
_PROTOCOLS: Final = {
    NAME: f"{NAME}: the standard",
    THINKING: f"{THINKING}: models that think at length",
    PIXELS: f"{PIXELS}: vision-language models",
}
_CALLED: Final = {
    "panels": "task", "kinds": "kind", "bases": "base model", "base": "base model",
    "inits": "init", "badges": "badge", "columns": "column", "entries": "entry",
    "first": "entry", "second": "entry", "measure": "stability measure", "x": "axis",
}  # fmt: skip
"""Readable names of fields, if they differ from the field names."""
_MAX_WORD: Final = 60
"""Maximum number of characters of an unknown value to repeat."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """The parts of a query that are not shown; untrusted text, on one line each.

    Attributes:
        unknown: Values that do not exist.
        cut: Descriptions of valid values that were dropped because there were too many.
    """

    unknown: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """A message about them; empty if there are none."""
        said = []
        if self.unknown:
            shown = ", ".join(self.unknown[:_MAX_SHOWN])
            more = len(self.unknown) - _MAX_SHOWN
            rest = f" and {more} more" if more > 0 else ""
            said.append(f"This link asks for something that is not on the board: {shown}{rest}.")
        if self.cut:
            said.append(f"This link asks for more than is shown: {'; '.join(self.cut)}.")
        return " ".join(said)


@dataclass(frozen=True, slots=True)
class Opened:
    """A parsed query.

    Attributes:
        state: The view to show.
        ignored: Requested values that are not shown.
    """

    state: State
    ignored: Ignored


def parsed(query: str) -> dict[str, list[str]]:
    """Parse the fields of a query; if it is too long, only the first ones, with `TOO_LONG`."""
    found = parse_qs(query.lstrip("?")[:MAX_LINK])
    return found | ({TOO_LONG: ["1"]} if len(query) > MAX_LINK else {})


def open_query(board: Board, asked: Asked) -> Opened:
    """Resolve a query, or the values of the page's controls, to what exists.

    Args:
        board: The board.
        asked: Values by the names in `State`, one or several; other names are ignored.
    """
    given = {name: _texts(asked.get(name)) for name in NAMES}
    protocol = board.protocol(given["protocol"][0]) if given["protocol"] else board.protocols[0]
    known = choices_of(board, protocol.name if protocol else board.protocols[0].name)
    more = [f"an address has at most {MAX_LINK:,} characters"] if asked.get(TOO_LONG) else []
    unknown: list[str] = []
    found: dict[str, Any] = {}
    for name in NAMES:
        values = given[name]
        if name == "search":
            words = " ".join(values)
            found[name] = words[:MAX_SEARCH]
            if len(words) > MAX_SEARCH:
                more.append(f"a search has at most {MAX_SEARCH} characters")
        elif name in FLAGS:
            found[name] = values == ("1",)
            unknown += [f"{name} {text(cut(v, _MAX_WORD))}" for v in values if v not in ("1", "0")]
        elif name == "columns" and asked.get(name) is None:
            found[name] = USUAL
        else:
            offered = _offered(board, name, found, known)
            right = tuple(dict.fromkeys(value for value in values if value in offered))
            called = _CALLED.get(name, name)
            unknown += [f"{called} {text(cut(v, _MAX_WORD))}" for v in values if v not in offered]
            first = right[0] if right else getattr(DEFAULTS, name)
            found[name] = right if name in MANY else first
    if len(found["entries"]) > MOST_CURVES:
        more.append(f"only the first {MOST_CURVES} of {len(found['entries'])} entries fit")
    found["entries"] = found["entries"][:MOST_CURVES]
    found["protocol"] = found["protocol"] or board.protocols[0].name
    return Opened(_completed(board, State(**found)), Ignored(tuple(unknown), tuple(more)))


def _offered(
    board: Board, name: str, found: Mapping[str, Any], known: Mapping[str, Choices]
) -> Iterable[str]:
    """Valid values of a field; for some fields, these depend on earlier ones."""
    if name not in ("episode", "seed", "repeat"):
        # Controls offer only entries with logs; for others the page says that they have none.
        # Likewise, a link to a mean that no entry has stays valid.
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
    """Fill in fields that depend on the board or on other fields, and drop incompatible values."""
    state = replace(state, columns=tuple(name for name in state.columns if name != NONE))
    if set(state.columns) == set(USUAL):
        state = replace(state, columns=USUAL)
    if not state.panels:
        state = replace(state, panels=default_panels(board, state.protocol))
    there = {column.name for column in columns(board, view_of(board, state))}
    return state if state.sort in there else replace(state, sort=SUCCESS)


def _texts(value: str | bool | Iterable[str] | None) -> tuple[str, ...]:
    """Convert requested values to texts; an empty one requests nothing."""
    if value is None or value == "" or value is False:
        return ()
    if value is True:
        return ("1",)
    return tuple(filter(None, [value] if isinstance(value, str) else value))


@lru_cache(maxsize=8)
def choices_of(board: Board, protocol: str) -> dict[str, Choices]:
    """The choices of each field of `State` that has any, by name.

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
        "protocol": [(_PROTOCOLS.get(each.name, each.name), each.name) for each in board.protocols],
        "panels": list(panel_choices(board, protocol)),
        "any panels": _same([*SETS, *map(panel_name, panels)]),
        "track": [("all tracks", ""), *_same(known.tracks)],
        "sort": sorts,
        "kinds": _same(known.kinds),
        "bases": _same(known.bases),
        "inits": _same(known.inits),
        "badges": _same(BADGES),
        "size": [(title, name) for name, (title, _, _) in SIZES.items()],
        "columns": [(column.title, column.name) for column in COLUMNS if column.name not in FIXED],
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
    """Names of entries with their methods; duplicates include the id."""
    named = [(text(f"{row.name} \u00b7 {method_of(row)}"), row.id) for row in rows]
    names = [name for name, _ in named]
    return [(f"{name} ({own})" if names.count(name) > 1 else name, own) for name, own in named]


def _same(values: Iterable[str]) -> Choices:
    return [(text(value), value) for value in values]


def panel_choices(board: Board, protocol: str) -> tuple[tuple[str, str], ...]:
    """The choices of panels: (title, name in a query); sets first."""
    found = board.protocol(protocol)
    if found is None:
        return ()
    trained = [row for row in board.rows(protocol) if row.kind == "trained"]
    sets = panel_sets(found)
    titles = {"built-in": "All tasks (mean)", "field": "All tasks, public data (mean)"}
    several = [
        (titles[name], name)
        for name, own in SETS.items()
        # A mean that no entry has would be a table of dashes.
        if len(keys := sets.get(own, ())) > 1 and any(all(map(r.panel, keys)) for r in trained)
    ]
    single = []
    for each in found.panels:
        count = sum(row.panel(each.key) is not None for row in trained)
        if trained and not count:
            # Nothing to show yet; a link still works.
            continue
        single.append((f"{panel_title(each)} ({count})", panel_name(each)))
    return (*several, *single)


def panel_title(panel: PanelFacts) -> str:
    """The readable name of a panel; a built-in one has that of its task."""
    if panel.panel == "builtin":
        return panel.title
    return f"{panel.title}: {panel.panel.replace('_', ' ')}"
