"""What somebody sees of the page, as a value, and its query.

    query_of(State(protocol="v1", panels="built-in"))   # tab=board&protocol=v1&panels=built-in

`leaderboard.page.query` reads one, `leaderboard.page.shown` says what the board has of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final
from urllib.parse import urlencode

from leaderboard.board.board import BUILT_IN, FIELD
from leaderboard.table.columns import COLUMNS, RANK, SUCCESS

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
