"""Compares two entries on the same episodes: differences, intervals, and differing episodes."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from markupsafe import Markup

from benchmark.stats.formatting import p_digits, whole_percent
from benchmark.stats.paired import NOT_PAIRED
from benchmark.track_schema import DIMENSIONS
from leaderboard.board.board import Board
from leaderboard.board.protocols import PanelFacts
from leaderboard.board.rows import OPEN, BoardRow
from leaderboard.page import charts
from leaderboard.page.glossary import explained
from leaderboard.page.markup import (
    NOTHING,
    Head,
    Piece,
    element,
    folded,
    joined,
    line,
    link,
    note,
    page,
    table,
    view_link,
)
from leaderboard.page.methods import method_name, method_of
from leaderboard.page.state import State, query_of
from leaderboard.table import cells
from leaderboard.table.columns import COLUMNS, Line, panel_name
from leaderboard.table.equal import equal_means
from leaderboard.table.paired import DifferingEpisode, EntryComparison, compare
from leaderboard.tabs.curve_charts import curve_chart
from leaderboard.tabs.success import fallen_text
from tasks.texts import counted

MAX_LISTED: Final = 100
"""Maximum number of differing episodes listed."""


@lru_cache(maxsize=64)
def compare_page(board: Board, state: State) -> str:
    """The content below the figures."""
    first, second = (board.row(each, state.protocol) for each in (state.first, state.second))
    if first is None or second is None or first.id == second.id:
        return ""
    panels = (board.protocol(state.protocol) or board.protocols[0]).panels
    known = {panel_name(panel): panel for panel in panels}
    found = _compared(board, first, second, state.protocol)
    if not found:
        return page(view_link(query_of(state)))
    chosen = state.panel if state.panel in found else next(iter(found))
    apart = joined(["They have not both played ", line(state.panel), "."])
    return page(
        note(apart, "lb-notice") if state.panel not in ("", chosen) else NOTHING,
        _side_by_side(board, first, second),
        _listed(first, second, found, state),
        _while_training(board, first, second, known),
        view_link(query_of(state)),
        element("h2", f"Episodes of {chosen}, won and lost"),
        _grid(board, first, second, known[chosen]),
        folded(
            f"As a table: {counted(len(found[chosen].differing), 'episode')} on which they differ",
            _differing(first, second, found[chosen], known[chosen]),
        ),
    )


@lru_cache(maxsize=64)
def compare_lead(board: Board, state: State) -> str:
    """The text above the figures: which of the two entries is better, and by how much."""
    first, second = (board.row(each, state.protocol) for each in (state.first, state.second))
    if first is None or second is None:
        return page(note("Choose two entries."))
    if first.id == second.id:
        return page(note("Choose two different entries."))
    found = _compared(board, first, second, state.protocol)
    if not found:
        return page(note("These entries share no panel, so they can't be compared."))
    return page(_headline(first, second, found))


def _verdict(first: BoardRow, second: BoardRow, found: EntryComparison) -> Piece:
    if found.difference.low <= 0 <= found.difference.high:
        return "a tie"
    better = first if found.difference.value > 0 else second
    return joined([line(better.name), " is better"])


def _headline(first: BoardRow, second: BoardRow, found: dict[str, EntryComparison]) -> Markup:
    names = [
        joined([element("strong", line(each.name)), f" ({cells.text(method_of(each))})"])
        for each in (first, second)
    ]
    if len(found) == 1:
        ((panel, only),) = found.items()
        said = [names[0], " minus ", names[1], f" on {panel}: ", cells.points(only.difference)]
        text = joined([*said, " points, ", _verdict(first, second, only), "."])
    else:
        ties = sum(each.difference.low <= 0 <= each.difference.high for each in found.values())
        count = counted(len(found), "panel")
        several = "all are ties" if ties == len(found) else f"{ties} are ties"
        tied = f"; {'1 is a tie' if ties == 1 else several}" if ties else ""
        text = joined(
            [names[0], " minus ", names[1], f" on {count} that both have played{tied}."]
        )  # fmt: skip
    return (
        element("p", text, "lb-answer", role="status")
        + _once(first, second)
        + _apart(first, second)
    )


def _once(first: BoardRow, second: BoardRow) -> Markup:
    """A notice, if an entry has one seed, that the intervals do not cover other seeds."""
    single = [line(row.name) for row in (first, second) if row.one_seed]
    if not single:
        return NOTHING
    verb = "has one seed" if len(single) == 1 else "have one seed each"
    said = f" {verb}, and another seed may differ by more than the intervals say."
    return note(joined([joined(single, " and "), said]), "lb-notice")


def _apart(first: BoardRow, second: BoardRow) -> Markup:
    """A notice that two trained entries may differ in more than methods, unless on one track."""
    trained = first.kind == second.kind == "trained"
    if not trained or (first.track == second.track and first.track != OPEN):
        return NOTHING
    return note("They are not on one track: more than their methods may differ.", "lb-notice")


@lru_cache(maxsize=64)
def compare_curves(board: Board, state: State) -> charts.Value:
    """Success of both entries during training, overlaid."""
    both = [row for each in (state.first, state.second) if (row := board.row(each, state.protocol))]
    logged = tuple(dict.fromkeys(row.id for row in both if row.stability is not None))
    if not logged:
        return charts.NOTHING
    drawn = State(tab="curves", protocol=state.protocol, entries=logged)
    return curve_chart("success", board, drawn)


@lru_cache(maxsize=64)
def compare_chart(board: Board, state: State) -> charts.Value:
    """The differences on all panels that both entries have played."""
    first, second = (board.row(each, state.protocol) for each in (state.first, state.second))
    if first is None or second is None or first.id == second.id:
        return charts.NOTHING
    found = _compared(board, first, second, state.protocol)
    rows = [
        {
            "label": name,
            "value": 100 * each.difference.value,
            "low": 100 * each.difference.low,
            "high": 100 * each.difference.high,
            "note": f"{name}: {cells.points(each.difference)} points",
        }
        for name, each in found.items()
    ]
    if not rows:
        return charts.NOTHING
    said = "; ".join(str(row["note"]) for row in rows)
    return charts.error_bars(rows, "difference (points)", said=said)


def _compared(
    board: Board, first: BoardRow, second: BoardRow, protocol: str
) -> dict[str, EntryComparison]:
    panels = (board.protocol(protocol) or board.protocols[0]).panels
    return {
        panel_name(panel): result
        for panel in panels
        if (result := compare(board, first, second, panel.key)) is not None
    }


_STABILITY: Final = ("worst_seed", "max_drawdown", "retention")
_CELLS: Final = ("both", "first", "second", "none")
"""CSS classes of the cells in the episode grid."""
_CHOICES: Final = (*DIMENSIONS, "setting")


def _side_by_side(board: Board, first: BoardRow, second: BoardRow) -> Markup:
    """Stability of both entries, and the differences between their configurations."""
    known = {column.name: column for column in COLUMNS}
    rows: list[list[Piece]] = []
    wholes = [Line(each, (), None) for each in (first, second)]
    if any(whole.collapse or whole.halved for whole in wholes):
        late = [", ", explained("halved", "halved")] if any(each.halved for each in wholes) else []
        head = joined([explained("collapse", "seeds that collapsed"), *late])
        rows.append([head, *map(fallen_text, wholes)])
    for name in _STABILITY:
        column = known[name]
        values = [
            cells.number(each.stability_column(name), column.unit) for each in (first, second)
        ]
        if values != [cells.UNKNOWN] * 2:
            unit = " (%)" if column.unit == "share" else ""
            rows.append([column.title + unit, *values])
    if (first.track, second.track) != (OPEN, OPEN):
        rows.append(["track", line(first.track), line(second.track)])
    same = []
    for name in _CHOICES:
        one, other = (getattr(each.choices, name) for each in (first, second))
        if one != other:
            rows.append([name, line(one), line(other)])
        elif one is not None:
            same.append(name)
    heads = [Head("stability and configuration"), Head(line(first.name)), Head(line(second.name))]
    alike = note(f"Same in both: {', '.join(same)}.") if same else NOTHING
    listed = table("Stability and configuration", heads, rows, "lb-pair") if rows else NOTHING
    both = [row.id for row in (first, second) if row.stability is not None]
    curves = State(tab="curves", protocol=first.protocol, entries=tuple(both))
    over = element("p", link(query_of(curves), "All their curves")) if both else NOTHING
    return joined([listed, alike, over])


def _listed(
    first: BoardRow, second: BoardRow, found: dict[str, EntryComparison], state: State
) -> Markup:
    tested = _tested(first, second)
    tests = [
        Head("p", number=True, text="for the hypothesis that these checkpoints do not differ"),
        Head("test"),
    ]
    heads = [
        Head(explained("panel", "panel")),
        *_sides(first, second),
        Head("difference (points, 95% CI)", number=True),
        Head("interval", text="what it covers: episodes, and seeds where an entry has several"),
        *(tests if tested else []),
        Head("episodes", number=True),
        Head("differ on", number=True, text="episodes that one entry solved more often"),
        Head("verdict", text="a tie if the interval contains 0"),
    ]
    listed = table(
        "Paired differences",
        heads,
        [_row(first, second, name, each, state) for name, each in found.items()],
    )
    untested = note(
        "No p-value: the interval is over seeds, too; a test would cover only these checkpoints."
    )
    return listed if tested else listed + untested


def _sides(first: BoardRow, second: BoardRow, what: str = "success") -> list[Head]:
    """Headers of two columns: the methods or, if both are the same, first and second."""
    names = [cells.text(method_name(row.method)) for row in (first, second)]
    if names[0] == names[1]:
        names = ["first", "second"]
    texts = [f"{what} of the {place} entry" for place in ("first", "second")]
    return [
        Head(f"{name} (%)", number=True, text=text) for name, text in zip(names, texts, strict=True)
    ]


def _tested(first: BoardRow, second: BoardRow) -> bool:
    """Whether interval and test concern the same quantity, which requires single checkpoints."""
    return all(len(row.checkpoints) == 1 for row in (first, second))


def _row(
    first: BoardRow, second: BoardRow, name: str, found: EntryComparison, state: State
) -> Sequence[Piece]:
    task, _, panel = name.partition("/")
    rates = [each.panel((task, panel)) for each in (first, second)]
    target = State(
        tab="compare", protocol=state.protocol, first=first.id, second=second.id, panel=name
    )
    return [
        link(query_of(target), name),
        *(cells.percent(each.success) if each else cells.UNKNOWN for each in rates),
        cells.points(found.difference),
        found.found.method,
        *([p_digits(found.found.p_value), found.found.test] if _tested(first, second) else []),
        cells.number(found.found.episodes, "count"),
        cells.number(len(found.differing), "count"),
        _verdict(first, second, found),
    ]


def _while_training(
    board: Board, first: BoardRow, second: BoardRow, panels: Mapping[str, PanelFacts]
) -> Markup:
    """Success at equal updates and at equal episodes; empty if the logs do not contain enough."""
    episodes = {name: len(panel.episodes) for name, panel in panels.items()}
    means = equal_means(board.curves(first), board.curves(second), episodes)
    if not means:
        return NOTHING
    heads = [
        Head("after"),
        *_sides(first, second),
        Head("difference (points, 95% CI)", number=True),
    ]
    rows = [
        [
            f"{cells.number(each.limit, 'count')} {each.by}",
            cells.percent(each.first),
            cells.percent(each.second),
            cells.UNKNOWN if each.difference is None else cells.points(each.difference),
        ]
        for each in means
    ]
    about = (
        "Means over seeds, up to the end of the shortest of their training runs; interpolated "
        f"between validations. Interval: {NOT_PAIRED}."
    )
    return joined(
        [
            element("h2", f"While training, on {means[0].panel}"),
            note(about),
            table("Success at equal cost", heads, rows),
        ]
    )


def _grid(board: Board, first: BoardRow, second: BoardRow, panel: PanelFacts) -> Markup:
    """A grid of episodes: cells show which entry solved each more often, and link to its play."""
    solved = [board.solved(row, panel.key) for row in (first, second)]
    numbers = [row.panel(panel.key) for row in (first, second)]
    one, other = (
        counts / number.plays
        for counts, number in zip(solved, numbers, strict=True)
        if counts is not None and number is not None
    )
    cells_shown, totals = [], dict.fromkeys(_CELLS, 0)
    for episode, category, a, b in zip(
        panel.episodes, panel.categories, one.tolist(), other.tolist(), strict=True
    ):
        css = "first" if a > b else "second" if b > a else "both" if a else "none"
        totals[css] += 1
        row, share = (first, a) if a >= b else (second, b)
        target = State(
            tab="entry", protocol=row.protocol, entry=row.id, panel=panel_name(panel),
            show="all" if share in (0, 1) else "solved", episode=episode,
        )  # fmt: skip
        said = f"{cells.text(episode)}, {cells.text(category)}: first {whole_percent(a)}%, "
        said += f"second {whole_percent(b)}%"
        name = element("span", said, "lb-sr")
        cells_shown.append(link(query_of(target), name, f"lb-cell lb-cell-{css}", title=said))
    texts = {
        "both": "solved by both alike", "first": joined([line(first.name), " more often"]),
        "second": joined([line(second.name), " more often"]), "none": "solved by neither",
    }  # fmt: skip
    legend = joined(
        (
            element("span", joined([element("i", "", f"lb-cell lb-cell-{css}"), " ", text,
                                    f": {totals[css]}"]))
            for css, text in texts.items()
        ),
        " ",
    )  # fmt: skip
    return element("p", legend, "lb-cells-key") + element("div", joined(cells_shown), "lb-cells")


def _differing(
    first: BoardRow, second: BoardRow, found: EntryComparison, panel: PanelFacts
) -> Markup:
    if not found.differing:
        return note("None: they have solved the same ones.")
    shown = found.differing[:MAX_LISTED]
    heads = [
        Head("episode"),
        Head(cells.text(panel.category_name)),
        *_sides(first, second, "solved plays"),
        Head("turns"),
    ]
    name = panel_name(panel)
    rows = [_episode(first, second, each, name) for each in shown]
    more = len(found.differing) - len(shown)
    rest = note(f"{more} more are not listed.") if more else NOTHING
    return table(f"Episodes of {name} on which they differ", heads, rows) + rest


def _episode(
    first: BoardRow, second: BoardRow, each: DifferingEpisode, name: str
) -> Sequence[Piece]:
    sides = ((first, "first", each.first), (second, "second", each.second))
    most = max(each.first, each.second)
    ways = [
        link(
            query_of(
                State(
                    tab="entry",
                    protocol=row.protocol,
                    entry=row.id,
                    panel=name,
                    # If outcomes are mixed, open a play with the outcome that makes the difference.
                    show="all" if share in (0, 1) else "solved" if share == most else "failed",
                    episode=each.episode,
                )
            ),
            text,
            aria_label=f"{each.episode}, {text} entry",
        )
        for row, text, share in sides
    ]
    return [
        line(each.episode),
        line(each.category),
        whole_percent(each.first),
        whole_percent(each.second),
        joined(ways, " \u00b7 "),
    ]
