"""The content around the training curves: entries, how to read the curves, and tables."""

from collections.abc import Sequence
from functools import lru_cache

from markupsafe import Markup

from leaderboard.board.board import Board
from leaderboard.board.curves import CURVES
from leaderboard.board.rows import BoardRow
from leaderboard.board.training_rows import SeedCurves
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
from leaderboard.page.methods import entry_name, method_of
from leaderboard.page.state import State, entry_query, query_of
from leaderboard.table import cells
from leaderboard.table.survival import ends_of
from leaderboard.tabs.curve_charts import drawn_of
from tasks.texts import counted


@lru_cache(maxsize=32)
def curves_page(board: Board, state: State) -> str:
    """The tab's content."""
    rows = [row for entry in state.entries if (row := board.row(entry, state.protocol))]
    if not rows:
        return page(note("Choose entries to see their curves."))
    missing = [row for row in rows if row.stability is None]
    drawn = drawn_of(board, state)
    return page(
        element("ul", joined(element("li", _name(*each, state)) for each in drawn), "lb-names"),
        _missing(missing),
        note(
            joined(
                [
                    "Line: median over seeds. Band: min\u2013max while all seeds run. Cross: ",
                    explained("collapse", "collapse"),
                    ". Triangle: not a finite number. KL is measured from the ",
                    explained("init", "init"),
                    ", the checkpoint that training started from. Click a name in a legend to "
                    "isolate it. Long logs are thinned, peaks kept. On a log axis, values below "
                    "its lower end, including 0, are drawn there. The table separates "
                    "lines that overlap.",
                ]
            )
        ),
        folded("The same as a table", _listed(drawn) + _survival_listed(drawn))
        if drawn
        else NOTHING,
        view_link(query_of(state)),
    )


def _name(row: BoardRow, seeds: Sequence[SeedCurves], state: State) -> Piece:
    query = entry_query(state.protocol, row.id)
    panels = ", ".join(sorted({each.panel for each in seeds if each.panel}))
    count = counted(len(seeds), "seed")
    about: Piece = count
    if panels:
        about = joined([count, ", validated on the ", explained("panel", "panel"), f" {panels}"])
    told = joined([line(method_of(row)), ", ", about])
    return joined([link(query, line(row.name)), " ", element("span", told, "lb-sub")])


def _missing(rows: Sequence[BoardRow]) -> Markup:
    if not rows:
        return NOTHING
    names = joined((line(row.name) for row in rows), ", ")
    return note(joined(["Without training logs, so without curves: ", names, "."]))


def _survival_listed(drawn: Sequence[tuple[BoardRow, tuple[SeedCurves, ...]]]) -> Markup:
    """The survival curves as a table: the updates at which a seed collapsed or was last seen."""
    rows: list[list[Piece]] = []
    for row, _ in drawn:
        found = row.stability.survival if row.stability else None
        if found is None:
            continue
        for place, (step, known) in enumerate(zip(found.steps, ends_of(found), strict=True)):
            ends = cells.UNKNOWN
            if known is not None:
                ends = "\u2013".join(map(cells.percent, known))
            rows.append(
                [
                    entry_name(row),
                    f"{step:,}",
                    str(found.at_risk[place]),
                    str(found.happened[place]),
                    cells.percent(found.share[place]),
                    ends,
                ]
            )
    heads = [Head("entry"), Head("update", number=True)]
    heads += [Head("at risk", number=True, text="seeds observed up to then without a collapse")]
    heads += [Head("collapsed", number=True, text="seeds that collapsed there")]
    heads += [Head("survival (%)", number=True), Head("95% interval", number=True)]
    return table("Survival of the seeds", heads, rows, shown_caption=True) if rows else NOTHING


def _listed(drawn: Sequence[tuple[BoardRow, tuple[SeedCurves, ...]]]) -> Markup:
    heads = [Head("entry"), Head("seed", number=True), Head("updates", number=True)]
    heads += [
        Head(f"last {kind.title}" + (" (%)" if kind.unit == "share" else ""), number=True)
        for kind in CURVES.values()
    ]
    heads += [Head("collapsed at", number=True)]
    stopped = any(seed.stopped is not None for _, seeds in drawn for seed in seeds)
    if stopped:
        heads += [Head("ended early", text="why; it counts as a collapse")]
    rows: list[list[Piece]] = []
    for row, seeds in drawn:
        for seed in seeds:
            ends = [
                cells.number(found.values[-1], kind.unit) if (found := seed.of(name)) else None
                for name, kind in CURVES.items()
            ]
            rows.append(
                [
                    entry_name(row),
                    str(seed.seed),
                    cells.number(seed.last_step, "count"),
                    *(end or cells.UNKNOWN for end in ends),
                    _collapse(seed),
                    *([line(seed.stopped) if seed.stopped else "no"] if stopped else []),
                ]
            )
    return table("Last values of every seed", heads, rows, shown_caption=True)


def _collapse(seed: SeedCurves) -> str:
    if seed.collapsed is None:
        return cells.UNKNOWN
    return f"{seed.collapse_step:,}" if seed.collapsed else "no collapse"
