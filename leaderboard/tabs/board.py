"""The board: all entries of a view as one table with graphics in its rows."""

from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

import pandas as pd  # type: ignore[import-untyped]  # it comes without types
from markupsafe import Markup

from leaderboard.board.board import Board
from leaderboard.board.rows import OPEN, BoardRow
from leaderboard.page.glossary import ONE_SEED, WORDS, explained
from leaderboard.page.marks import below_init_chip, collapse_chip, interval_bar, sparkline
from leaderboard.page.markup import (
    NOTHING,
    Piece,
    element,
    facts,
    folded,
    framed,
    joined,
    line,
    link,
    note,
    outside,
    page,
    view_link,
)
from leaderboard.page.methods import method_of
from leaderboard.page.state import (
    FIRST_ROWS,
    FIXED,
    USUAL,
    State,
    frame_of,
    panels_of_name,
    query_of,
    view_of,
    whole_frame,
)
from leaderboard.table import cells
from leaderboard.table.columns import (
    COLUMNS,
    DEPENDABLE,
    RANK,
    SUCCESS,
    Column,
    Line,
    is_noise,
    success_of,
)
from leaderboard.table.ranks import RANKED
from leaderboard.table.table import columns, csv_of
from leaderboard.table.view import panels_of
from leaderboard.tabs.answer import init_success, order_of_track
from leaderboard.tabs.published import published_section
from leaderboard.tabs.success import validated_on
from tasks.texts import counted, plural

_GROUPS: Final = ("success", "stability", "entry", "recipe", "proof")
_COLLAPSE: Final = "collapse_rate"
_CSV: Final = "leaderboard.csv"
_RATED: Final = frozenset(column.name for column in COLUMNS if column.better is not None)
"""Columns that have a better direction, apart from success."""
_SHORT: Final = {
    "rank": "rank",
    "collapse_rate": "collapse",
    DEPENDABLE: "dependable",
    "max_drawdown": "drawdown",
    "mismatch_p95": "mismatch P95",
}
"""Short column titles; the explanations have the full ones."""
_UNITS: Final = {"share": "%", "place": "", "count": "", "parameters": "", "": ""}
_WORDS: Final = {
    DEPENDABLE: "dependable",
    RANK: "rank",
    _COLLAPSE: "collapse",
    "worst_seed": "worst_seed",
    "max_drawdown": "drawdown",
    "retention": "retention",
    "mismatch_p95": "mismatch",
    "badges": "badges",
    "track": "track",
    "init": "init",
}
"""Columns whose headers open an explanation."""


def chosen(board: Board, state: State) -> tuple[Column, ...]:
    """Columns of the table: the fixed ones, and those selected in the state.

    The most important ones come first, so that narrow screens show them: success, then stability. A
    mean is followed by its collapses, then by its panels. Without a selection by the visitor,
    uninformative columns are left out (`uninformative`).
    """
    wanted = {*state.columns, *FIXED}
    if state.columns == USUAL:
        wanted -= uninformative(board, state.protocol, state.panels)
    found = columns(board, view_of(board, state))
    shown = [column for column in found if column.is_success or column.name in wanted]
    mean = any(column.name == SUCCESS for column in shown)

    def place(column: Column) -> int:
        if column.name in FIXED:
            return 0
        if mean and column.name in (SUCCESS, DEPENDABLE, _COLLAPSE):
            return 1
        return 2 + _GROUPS.index(column.group)

    return tuple(sorted(shown, key=place))


@lru_cache(maxsize=64)
def uninformative(board: Board, protocol: str, panels: str) -> frozenset[str]:
    """Default columns in which all ranked entries are equal, unknown, or below the noise."""
    frame = whole_frame(board, protocol, panels, SUCCESS)
    frame = frame[frame["kind"].isin(RANKED)]
    # Keep the numbers of a single entry; its track and badges are in the answer above.
    texts = {column.name for column in COLUMNS if not column.unit}
    found = set()
    for name in USUAL:
        values = frame[name].dropna()
        if (
            values.empty
            or is_noise(name, values)
            or (values.nunique() == 1 and (len(frame) > 1 or name in texts))
        ):
            found.add(name)
    # Always show known collapses, even if there are none, and dependable success.
    worth = {_COLLAPSE: f"{_COLLAPSE}:known", DEPENDABLE: DEPENDABLE}
    return frozenset(found - {name for name, by in worth.items() if frame[by].notna().any()})


def csv(board: Board, state: State) -> str:
    """The table of a view as CSV, with all columns."""
    return csv_of(frame_of(board, state), columns(board, view_of(board, state)))


@lru_cache(maxsize=64)
def board_page(board: Board, state: State) -> str:
    """The tab's content."""
    view = view_of(board, state)
    if not view.panels:
        return page(note("No entry has been accepted under this protocol yet."))
    frame = frame_of(board, state)
    query = query_of(state)
    count = len(board.rows(state.protocol))
    noun = plural(count, "entry")
    shown = f"{len(frame)} of {count} {noun}" if len(frame) != count else f"{count} {noun}"
    by = next((c.title for c in columns(board, view) if c.name == state.sort), "success")
    direction = ", worst first" if state.reverse else ""
    ranked, apart = frame["kind"].isin(RANKED), _apart(frame, state)
    entries = _by_track(frame[ranked]) if apart else frame[ranked]
    cut = not state.all and len(entries) > FIRST_ROWS
    top = pd.concat([_first(entries, apart) if cut else entries, frame[~ranked]])
    first = f"; showing {'the first of each track' if apart else f'the first {FIRST_ROWS}'}"
    first = first + ("" if ranked.all() else " and the references") if cut else ""
    clear = link(query_of(State(protocol=state.protocol, panels=state.panels)), "Clear all filters")
    return page(
        element("p", f"{shown}, sorted by {by}{direction}{first}", "lb-count", role="status"),
        _table(board, state, top, apart)
        if len(frame)
        else note(joined(["No entry matches these filters. ", clear, "."])),
        _more(state, len(frame)) if cut else NOTHING,
        _legend(),
        view_link(query, element("a", "Download CSV", href=f"{_CSV}?{query}", download=_CSV),
                  element("a", "All data (JSON)", href="leaderboard.json", download="")),
        _around(board, state.protocol, state.panels),
    )  # fmt: skip


def _more(state: State, count: int) -> Markup:
    query = query_of(replace(state, all=True))
    return element("p", link(query, f"Show all {count} entries"), "lb-foot")


def _legend() -> Markup:
    """How to read a row, in one line."""
    return note(
        joined(
            [
                "Bar: success with its ", explained("interval", "95% CI"),
                "; small dots: seeds; tick: the ", explained("init", "init"),
                ". Curve: success of every seed while training; cross: ",
                explained("collapse", "collapse"), ". Columns that are the same for all entries "
                "are hidden; choose them under \u201cFilters and columns\u201d.",
            ]
        ),
        "lb-reading",
    )  # fmt: skip


def _apart(frame: pd.DataFrame, state: State) -> bool:
    """Whether to group rows by track: yes if sorted by quality, which is compared within tracks."""
    tracks = frame["track"][frame["kind"].isin(RANKED)].nunique()
    return tracks > 1 and (state.sort == SUCCESS or "/" in state.sort or state.sort in _RATED)


def _by_track(frame: pd.DataFrame) -> pd.DataFrame:
    """Entries grouped by track.

    Tracks with ranks come first (for a mean over tasks: those that train all of them). Within both
    groups, tracks are sorted by `order_of_track`.
    """
    tracks = frame.groupby("track")[RANK]
    sizes, places = tracks.size(), tracks.count()
    order = sorted(sizes.index, key=lambda one: (not places[one], *order_of_track(one, sizes[one])))
    return pd.concat([frame[frame["track"] == name] for name in order])


def _first(entries: pd.DataFrame, apart: bool) -> pd.DataFrame:
    """The first `FIRST_ROWS` entries; with tracks, the best of each, then the second best.

    Tracks without ranks, whose entries lack some of the panels, contribute only the best entry.
    """
    if not apart:
        return entries.head(FIRST_ROWS)
    places = entries.groupby("track").cumcount()
    places = places[entries[RANK].notna() | (places == 0)]
    kept = places.sort_values(kind="stable").index[:FIRST_ROWS]
    return entries[entries.index.isin(kept)]


def _table(board: Board, state: State, frame: pd.DataFrame, apart: bool) -> Markup:
    ranked = frame["kind"].isin(RANKED)
    shown = chosen(board, state)
    if apart and state.columns == USUAL:
        # All entries of a track have the same init.
        shown = tuple(column for column in shown if column.name not in ("track", "init"))
    heads = joined(_head(column, state) for column in shown)
    by = state.sort if "/" in state.sort else SUCCESS
    row = partial(
        _row, board, state.protocol, state.panels, by, tuple(column.name for column in shown)
    )
    rows = []
    for track in frame["track"][ranked].unique() if apart else [""]:
        own = ranked & (frame["track"] == track) if apart else ranked
        title = joined([explained("track", "Track"), " ", line(track)])
        rows += [_divider(title, len(shown))] if apart else []
        rows += [element("tr", row(entry)) for entry in frame.index[own]]
    references = [element("tr", row(entry), "lb-reference") for entry in frame.index[~ranked]]
    if references:
        title = joined(
            ["Reference, not ranked: scripted policies and ", explained("init", "inits")]
        )
        rows.append(_divider(title, len(shown)))
    return framed("Entries of the leaderboard", heads, joined([*rows, *references]), "lb-board")


def _divider(title: Markup, columns_shown: int) -> Markup:
    head = element("th", title, colspan=str(columns_shown), scope="colgroup")
    return element("tr", head, "lb-divider")


@lru_cache(maxsize=8192)
def _row(
    board: Board, protocol: str, panels: str, by: str, names: tuple[str, ...], entry: str
) -> Markup:
    """The cells of an entry, which do not depend on filters and order."""
    row = board.row(entry, protocol)
    assert row is not None  # it is in the frame
    state = State(protocol=protocol, panels=panels, sort=by)
    known = _columns(board, protocol, panels)
    values = dict(whole_frame(board, protocol, panels, by).loc[entry])
    return joined(_cell(board, row, known[name], values, state) for name in names)


@lru_cache(maxsize=32)
def _columns(board: Board, protocol: str, panels: str) -> dict[str, Column]:
    view = view_of(board, State(protocol=protocol, panels=panels))
    return {column.name: column for column in columns(board, view)}


def _head(column: Column, state: State) -> Markup:
    """A column header that sorts by the column, and reverses the order if it is already sorted."""
    # For a single panel, the mean has no column of its own.
    alone = state.sort == SUCCESS and "/" in state.panels and column.is_success
    current = alone or column.name == state.sort
    target = replace(state, sort=column.name, reverse=current and not state.reverse)
    falls = (column.better == "higher") != state.reverse
    order = "descending" if falls else "ascending"
    mark = element("span", "\u2193" if falls else "\u2191", aria_hidden="true")
    css = " ".join(filter(None, ["num" if column.unit else "", _css(column)]))
    unit = _UNITS.get(column.unit, "") if column.name != _COLLAPSE else ""
    title: Piece = _title(column) + (f" ({unit})" if unit else "")
    text = joined([title, " ", mark]) if current else title
    sorted_by = {"aria_sort": order} if current else {}
    go = link(query_of(target), text)
    word = _WORDS.get(column.name)
    if word:
        mark = element("span", f"What is {WORDS[word].title.lower()}?", "lb-sr")
        go += explained(word, joined([element("span", "?", aria_hidden="true"), mark]))
    return element("th", go, css, scope="col", title=column.text, **sorted_by)


def _title(column: Column) -> str:
    return _SHORT.get(column.name, column.title.removesuffix(" (builtin)"))


def _css(column: Column) -> str:
    if column.is_success:
        return "lb-success"
    return {RANK: "lb-rank", "name": "lb-name", _COLLAPSE: "lb-left"}.get(column.name, "")


def _cell(
    board: Board, row: BoardRow, column: Column, values: dict[str, Any], state: State
) -> Markup:
    name = column.name
    said = {"data_label": _title(column)}
    if name == "name":
        return element("th", _name(row, values, state), "lb-name", scope="row")
    if name == RANK:
        shown = cells.rank(values[RANK], values[f"{RANK}:last"])
        none = " lb-none" if shown == cells.UNKNOWN else ""
        return element("td", shown, f"num lb-rank{none}", **said)
    if name == DEPENDABLE:
        shown = _dependable(row, values)
        return element("td", shown, "num lb-none" if shown == cells.UNKNOWN else "num", **said)
    if column.is_success:
        shown = _success(board, row, column, values, state)
        css = "num lb-success" + (" lb-none" if shown == cells.UNKNOWN else "")
        return element("td", shown, css, **said)
    if name == _COLLAPSE:
        chip = _collapse(row)
        none = " lb-none" if chip == cells.UNKNOWN else ""
        return element("td", chip, f"lb-left{none}", **said)
    if not column.unit:
        css = "lb-badges" if name == "badges" else ""
        return element("td", _text(name, values[name]), css, **said)
    shown = cells.number(values[name], column.unit)
    if shown == cells.UNKNOWN:
        return element("td", shown, "num lb-none", **said)
    on = validated_on(board, row, state.panels) if name == "worst_seed" else ""
    beside = element("span", line(on), "lb-sub") if on else NOTHING
    return element("td", element("span", joined([shown, beside])), "num", **said)


def _name(row: BoardRow, values: dict[str, Any], state: State) -> Markup:
    target = State(tab="entry", protocol=state.protocol, entry=row.id)
    size = cells.number(row.parameters, "parameters")
    weights = cells.text(row.base_model) + (f" {size}" if size != cells.UNKNOWN else "")
    about: list[Piece] = [line(method_of(row))]
    about += [weights] if row.base_model else []
    about += [outside(values[each], each) for each in ("code", "paper") if values[each]]
    named = link(query_of(target), line(row.name))
    text = element("span", joined([named, element("span", joined(about, " \u00b7 "), "lb-sub")]))
    return element("div", joined([text, sparkline(row.sparks, row.method)]), "lb-named")


def _success(
    board: Board, row: BoardRow, column: Column, values: dict[str, Any], state: State
) -> Piece:
    value, low, high = (values[name] for name in column.names)
    if value != value:  # noqa: PLR0124 - NaN
        return cells.UNKNOWN
    mean = column.name == SUCCESS
    keys = panels_of_name(board, state.protocol, state.panels if mean else column.name)
    numbers = row.panel(keys[0]) if len(keys) == 1 else None
    seeds = [each.success for each in numbers.seeds] if numbers else []
    init = init_success(board, row, keys) if row.kind == "trained" else None
    ends = f"{cells.percent(low)}\u2013{cells.percent(high)}"
    below = below_init_chip(value, init)
    shown = element("span", joined([cells.percent(value), element("span", ends, "lb-sub"), below]))
    bar = interval_bar(low, high, value, seeds, init)
    return element("div", joined([shown, bar]), "lb-measured")


def _dependable(row: BoardRow, values: dict[str, Any]) -> Piece:
    value, low, high = (values[f"{DEPENDABLE}{end}"] for end in ("", ":low", ":high"))
    if value != value:  # noqa: PLR0124 - NaN
        # Without logs nothing is known; with logs, a single seed cannot predict another one.
        single = row.stability is not None and len(row.checkpoints) == 1
        return element("span", "1 seed", "lb-sub", title=ONE_SEED) if single else cells.UNKNOWN
    ends = f"{cells.percent(low)}\u2013{cells.percent(high)}"
    return element("span", joined([cells.percent(value), element("span", ends, "lb-sub")]))


def _collapse(row: BoardRow) -> Piece:
    whole = Line(row, (), None)
    event = whole.collapse
    if event is None or event.low is None or event.high is None:
        few = row.stability is not None
        return element("span", whole.unjudged, "lb-sub") if few else cells.UNKNOWN
    steps = [spark.collapse for spark in row.sparks if spark.collapse is not None]
    first = min(steps, default=None)
    ends = event.low, event.high
    return collapse_chip(event.happened, event.known, ends, first, whole.unknown, whole.halved)


def _text(name: str, value: str | None) -> Piece:
    if name == "badges" and value:
        return joined(element("span", badge, "lb-badge") for badge in value.split(", "))
    if name in ("code", "paper") and value:
        return outside(value, name)
    return line(value)


@lru_cache(maxsize=32)
def _around(board: Board, protocol: str, panels: str) -> Markup:
    """The content below the table, which does not depend on filters and order."""
    state = State(protocol=protocol, panels=panels)
    panels_shown = panels_of(board, view_of(board, state))
    published = published_section(panels_shown, protocol, _here(board, state))
    return joined([_how_to_read(board, state), published, _refused(board)])


def _here(board: Board, state: State) -> dict[str, Piece]:
    """The best entry of each recipe on the selected panels, to show beside the published numbers.

    Stress tracks are excluded, because they are designed to break methods, unlike the paper's
    settings. So are entries without a track, because their recipe's name is only a claim.
    """
    keys = panels_of_name(board, state.protocol, state.panels)
    best: dict[str, tuple[float, str]] = {}
    for row in board.rows(state.protocol):
        found = success_of(row, keys) if row.kind == "trained" else None
        if found is not None and row.track != OPEN and not row.track.endswith("-stress"):
            name = row.recipe.lower()
            best[name] = max((found.value, row.track), best.get(name, (0.0, "")))
    return {
        recipe: joined([cells.percent(value), element("span", line(track), "lb-sub")])
        for recipe, (value, track) in best.items()
    }


def _how_to_read(board: Board, state: State) -> Markup:
    """Explanations of all columns, ranks and ranges."""
    terms = []
    for column in columns(board, view_of(board, state)):
        unit = _UNITS.get(column.unit, column.unit)
        better = f"; {column.better} is better" if column.better else ""
        text = f"{column.text}{better}"
        terms.append((column.title + (f" ({unit})" if unit else ""), text))
    words = [(word.title, " ".join(word.text)) for word in WORDS.values()]
    rule = note("A dash is unknown, never 0. References mark floor, ceiling and start.")
    return folded("What ranks and columns mean", joined([rule, facts([*words, *terms])]))


def _refused(board: Board) -> Markup:
    """The submissions that are not on the board, by name, so that none is dropped silently."""
    if not board.refused:
        return NOTHING
    lines = joined(
        element("li", joined([line(each.id), ": ", line(each.reasons[0] if each.reasons else "")]))
        for each in board.refused
    )
    count = counted(len(board.refused), "submission")
    return folded(f"Not accepted: {count}", element("ul", lines))
