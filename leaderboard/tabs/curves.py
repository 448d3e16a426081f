"""Training curves: several entries over each other, their seeds as bands, collapses marked."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from markupsafe import Markup

from benchmark.stats.bands import at_common_places
from leaderboard.board.board import Board
from leaderboard.board.curves import CURVES, CurveKind
from leaderboard.board.rows import BoardRow
from leaderboard.board.training_rows import SeedCurves, Series, Survival
from leaderboard.page.figures import Curve, legend, plot
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
from leaderboard.page.scales import Scale
from leaderboard.page.state import State, query_of
from leaderboard.table import cells
from tasks.texts import counted

_MAX_PLACES: Final = 130
"""Places of a band: a plot is hardly wider in pixels than twice that."""

_Points = tuple[tuple[float, float], ...]
_Band = tuple[tuple[float, float, float], ...]


@lru_cache(maxsize=32)
def curves_page(board: Board, state: State) -> str:
    """The tab's content."""
    rows = [row for entry in state.entries if (row := board.row(entry, state.protocol))]
    if not rows:
        return page(note("Choose entries to see their curves."))
    missing = [row for row in rows if row.stability is None]
    drawn = [(row, board.curves(row)) for row in rows if row.stability is not None]
    return page(
        legend(_name(row, seeds, state) for row, seeds in drawn),
        _missing(missing),
        element(
            "div",
            joined([*(_figure(name, drawn) for name in CURVES), _survival(drawn)]),
            "lb-figures",
        )
        if drawn
        else NOTHING,
        note(
            "A line is the median of the seeds, a band goes from the lowest to the highest seed "
            "while all of them run. A cross is a collapse; a triangle at the upper edge is a "
            "value that is not finite. Long logs are thinned out, their peaks are kept. What "
            "is below a logarithmic axis, 0 among it, lies on its lower end. The band of survival "
            "is its 95 % interval at each update, unknown while all seeds are left, or none. Lines "
            "may lie on each other: the table tells them apart."
        ),
        folded("The same as a table", _listed(drawn) + _survival_listed(drawn))
        if drawn
        else NOTHING,
        view_link(query_of(state)),
    )


def _name(row: BoardRow, seeds: Sequence[SeedCurves], state: State) -> Piece:
    query = query_of(State(tab="entry", protocol=state.protocol, entry=row.id))
    panels = ", ".join(sorted({each.panel for each in seeds if each.panel}))
    count = counted(len(seeds), "seed")
    about = f"{count}, validated on {panels}" if panels else count
    return joined([link(query, line(row.name)), " ", element("span", about, "lb-sub")])


def _missing(rows: Sequence[BoardRow]) -> Markup:
    if not rows:
        return NOTHING
    names = joined((line(row.name) for row in rows), ", ")
    return note(joined(["Without training logs, so without curves: ", names, "."]))


def _figure(name: str, drawn: Sequence[tuple[BoardRow, tuple[SeedCurves, ...]]]) -> Markup:
    kind = CURVES[name]
    curves, values, steps = [], [], [0.0]
    for colour, (_, seeds) in enumerate(drawn):
        series = [(seed, found) for seed in seeds if (found := seed.of(name)) is not None]
        if not series:
            continue
        curves.append(_curve(colour, series, crossed=name == "success"))
        values += [value for _, found in series for value in found.values]
        steps += [float(found.steps[-1]) for _, found in series]
    unit = " (%)" if kind.unit == "share" else f" ({kind.unit})"
    head = element("h2", kind.title + unit) + note(kind.text)
    if not curves:
        return element("section", head + note("Not measured."))
    y = Scale.over(values, kind.unit, kind.log_scale)
    figure = plot(_alternative(kind, drawn, name), curves, _updates(steps), y, "update")
    return element("section", head + figure)


def _updates(steps: Sequence[float]) -> Scale:
    return Scale(0.0, max([1.0, *steps]), "updates")


def _alternative(
    kind: CurveKind, drawn: Sequence[tuple[BoardRow, tuple[SeedCurves, ...]]], name: str
) -> str:
    """What a figure shows, in words: where every curve ends."""
    parts = []
    for row, seeds in drawn:
        ends = [found.values[-1] for seed in seeds if (found := seed.of(name)) is not None]
        if ends:
            shown = cells.number(float(np.median(ends)), kind.unit)
            parts.append(f"{cells.text(row.name)} ends at {shown}")
    return f"{kind.title}: {'; '.join(parts)} (median of the seeds)"


def _curve(
    colour: int, series: Sequence[tuple[SeedCurves, Series]], crossed: bool = False
) -> Curve:
    lines = [_finite(found) for _, found in series]
    overflows = {
        float(step)
        for _, found in series
        for step, value in zip(found.steps, found.values, strict=True)
        if not math.isfinite(value)
    }
    marks = []
    for (seed, _), points in zip(series, lines, strict=True):
        if crossed and seed.collapsed and seed.collapse_step is not None and points:
            marks.append((float(seed.collapse_step), _at(points, float(seed.collapse_step))))
    middle, band = _summary(lines)
    return Curve(colour, (), middle, band, tuple(marks), tuple(sorted(overflows)))


def _finite(series: Series) -> _Points:
    return tuple(
        (float(step), value)
        for step, value in zip(series.steps, series.values, strict=True)
        if math.isfinite(value)
    )


def _at(points: _Points, step: float) -> float:
    return float(np.interp(step, [x for x, _ in points], [y for _, y in points]))


def _summary(lines: Sequence[_Points]) -> tuple[_Points, _Band]:
    """Median and range of the seeds where all of them have values; one seed has no range."""
    known = [points for points in lines if points]
    found = at_common_places([(*np.array(points).T,) for points in known]) if known else None
    if found is None:
        return (), ()
    places, values = found
    if len(known) == 1 and places.size <= 3 * _MAX_PLACES:
        return known[0], ()
    bins = np.array_split(np.arange(places.size), min(_MAX_PLACES, places.size))
    at = [float(places[own].mean()) for own in bins]
    middle = [float(np.median(values[:, own])) for own in bins]
    low = [float(values[:, own].min()) for own in bins]
    high = [float(values[:, own].max()) for own in bins]
    band = tuple(zip(at, low, high, strict=True)) if len(known) > 1 else ()
    return tuple(zip(at, middle, strict=True)), band


def _survival(drawn: Sequence[tuple[BoardRow, tuple[SeedCurves, ...]]]) -> Markup:
    """Seeds that have not collapsed, by Kaplan and Meier."""
    curves, parts = [], []
    for colour, (row, seeds) in enumerate(drawn):
        found = row.stability.survival if row.stability else None
        if found is None:
            continue
        last = max([seed.last_step or 0 for seed in seeds] + [0])
        curves.append(_stairs(colour, found, float(last)))
        end = found.share[-1] if found.share else 1.0
        parts.append(f"{cells.text(row.name)} ends at {cells.percent(end)}")
    head = element("h2", "survival (%)") + note(
        "seeds that have not collapsed, by Kaplan and Meier"
    )
    if not curves:
        return element("section", head + note("No log can say whether it collapsed."))
    steps = [x for curve in curves for x, _ in curve.middle]
    title = f"survival: {'; '.join(parts)}"
    return element("section", head + plot(title, curves, _updates(steps), Scale.share(), "update"))


def _stairs(colour: int, found: Survival, last: float) -> Curve:
    steps = (0.0, *map(float, found.steps))
    shares = (1.0, *found.share)
    middle = tuple(zip(steps, shares, strict=True))
    end = max(last, steps[-1])
    line_ = (*middle, (end, shares[-1]))
    return Curve(colour, (), line_, _interval(found, end), step=True)


def _interval(found: Survival, end: float) -> _Band:
    """The interval as a staircase, where the data bound it: between shares of 1 and of 0."""
    ends = list(zip(found.steps, found.low, found.high, strict=True))
    band = [
        (float(step), low, high) for step, low, high in ends if low is not None and high is not None
    ]
    if not band:
        return ()
    # It holds until the next step, which is the one at which nothing is left, or to the end.
    later = [float(step) for step in found.steps if step > band[-1][0]]
    return (*band, (later[0] if later else end, *band[-1][1:]))


def _survival_listed(drawn: Sequence[tuple[BoardRow, tuple[SeedCurves, ...]]]) -> Markup:
    """The staircases: every update at which a seed collapsed, or was last seen."""
    rows: list[list[Piece]] = []
    for row, _ in drawn:
        found = row.stability.survival if row.stability else None
        if found is None:
            continue
        for place, step in enumerate(found.steps):
            low, high = found.low[place], found.high[place]
            ends = cells.UNKNOWN
            if low is not None and high is not None:
                ends = f"{cells.percent(low)}\u2013{cells.percent(high)}"
            rows.append(
                [
                    line(row.name),
                    f"{step:,}",
                    str(found.at_risk[place]),
                    str(found.happened[place]),
                    cells.percent(found.share[place]),
                    ends,
                ]
            )
    heads = [Head("entry"), Head("update", number=True)]
    heads += [Head("at risk", number=True, text="seeds that were seen until then, not collapsed")]
    heads += [Head("collapsed", number=True, text="seeds that collapsed there")]
    heads += [Head("survival (%)", number=True), Head("95 % interval", number=True)]
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
                    line(row.name),
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
