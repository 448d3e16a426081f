"""Success and stability: one against the other, and which choice of a recipe helps."""

import math
from functools import lru_cache
from typing import Final

from markupsafe import Markup

from benchmark.stats.intervals import Interval
from leaderboard.board.board import Board
from leaderboard.page.figures import ErrorBar, Point, intervals, scatter
from leaderboard.page.markup import (
    Head,
    Piece,
    element,
    joined,
    line,
    link,
    note,
    page,
    table,
    view_link,
)
from leaderboard.page.scales import Scale
from leaderboard.page.state import State, frame_of, panels_of_name, query_of
from leaderboard.table import cells
from leaderboard.table.columns import SUCCESS, Column, columns_of
from leaderboard.table.contrasts import Contrast, Dimension, dimensions
from tasks.texts import counted

_LOW, _HIGH = f"{SUCCESS}:low", f"{SUCCESS}:high"
_ABOUT: Final = {
    "advantage": "how advantages are computed",
    "clipping": "importance sampling and its limits",
    "aggregation": "how token losses become one",
    "sampling": "which episodes an update learns from",
}


@lru_cache(maxsize=64)
def stability_page(board: Board, state: State) -> str:
    """The tab's content."""
    panels = panels_of_name(board, state.protocol, state.panels)
    if not panels:
        return page(note("No entry has been accepted under this protocol yet."))
    return page(
        _against(board, state),
        view_link(query_of(state)),
        element("h2", "Which choice helps"),
        note(
            "The four dimensions of a recipe. Two entries are compared if they trained from the "
            "same init with the same configuration in all but one of the four and the learning "
            "rate, which may be tuned for each. A gain is a difference of success in points. Its "
            "95 % interval is that of every comparison of two entries; where there are three "
            "pairs of entries or more (small dots), it is over pairs. A few seeds say little, and "
            "nothing is corrected for the number of comparisons."
        ),
        element(
            "div",
            joined(
                _dimension(each)
                for each in dimensions(board, state.protocol, panels, state.base or None)
            ),
            "lb-figures lb-few",
        ),
    )


def _against(board: Board, state: State) -> Markup:
    measure = next(c for c in columns_of([]) if c.name == state.measure)
    # Only what is drawn counts, so that a control of another tab recomputes nothing.
    frame = frame_of(board, State(protocol=state.protocol, panels=state.panels))
    if state.base:
        frame = frame[frame["base_model"] == state.base]
    known = frame[frame[SUCCESS].notna() & frame[measure.name].notna()]
    left_out = len(frame) - len(known)
    lines = known[["name", "recipe", SUCCESS, _LOW, _HIGH, measure.name]].to_dict("index")
    if not lines:
        known = "has played all of these panels and " if frame[measure.name].notna().any() else ""
        return note(f"No entry {known}has a number for {measure.title}: choose other panels.")
    points, rows = [], []
    for entry, values in lines.items():
        query = query_of(State(tab="entry", protocol=state.protocol, entry=entry))
        success, other = values[SUCCESS], values[measure.name]
        shown = _shown(success, "share"), _shown(other, measure.unit)
        name = cells.text(values["name"])
        title = f"{name}: success {shown[0]}, {measure.title} {shown[1]}"
        ends = (values[_LOW], values[_HIGH])
        points.append(Point(other, success, ends, name, title, query))
        rows.append([link(query, line(values["name"])), line(values["recipe"]), *shown])
    unit = "" if measure.unit in ("share", "ratio") else f" ({measure.unit})"
    percent = " (%)" if measure.unit == "share" else ""
    label = f"{measure.title}{percent}{unit}, {measure.better} is better"
    x = Scale.over([values[measure.name] for values in lines.values()], measure.unit, log=True)
    listed = table(
        f"Success and {measure.title}",
        [
            Head("entry"),
            Head("recipe"),
            Head("success", number=True),
            Head(measure.title, number=True, text=measure.text),
        ],
        rows,
    )
    figure = scatter(
        f"Success with its 95 % interval against {measure.title} of {len(points)} entries",
        points,
        x,
        Scale.share(),
        (label, "success (%)"),
    )
    return joined(
        [
            element("p", _summary(len(points), left_out, measure), "lb-count", role="status"),
            element("div", figure + listed, "lb-beside"),
        ]
    )


def _summary(count: int, left_out: int, measure: Column) -> str:
    missing = f"; {left_out} without both numbers are not drawn" if left_out else ""
    return f"{count} entries, success against {measure.title}{missing}"


def _shown(value: float, unit: str) -> str:
    return cells.number(value, unit) + (" %" if unit == "share" else "")


def _dimension(dimension: Dimension) -> Markup:
    parts = [element("h3", dimension.name), note(_ABOUT[dimension.name])]
    if dimension.contrasts:
        parts += [_gains(dimension), _contrasts(dimension)]
    elif dimension.alone:
        parts.append(note("No two entries differ in this choice alone."))
    else:
        parts.append(note("No entry of these panels says what it chose."))
    if dimension.alone:
        names = joined(map(line, dimension.alone), ", ")
        parts.append(note(joined(["Chosen, and without a counterpart: ", names, "."])))
    if dimension.unknown:
        parts.append(note(f"{dimension.unknown} entries do not say what they chose."))
    return element("section", joined(parts))


def _gains(dimension: Dimension) -> Markup:
    drawn = [_estimate(contrast) for contrast in dimension.contrasts]
    ends = [end for each in drawn for end in (each.low, each.high, *each.parts)]
    return intervals(
        f"What each choice of {dimension.name} adds to success",
        drawn,
        Scale.over(ends, "points"),
        "gain of success (points)",
        zero=True,
    )


def _estimate(contrast: Contrast) -> ErrorBar:
    found = contrast.gain
    ends = (found.low, found.high) if not math.isnan(found.low) else (found.value, found.value)
    value, low, high = (100 * each for each in (found.value, *ends))
    name = f"{cells.text(contrast.choice)} over {cells.text(contrast.over)}"
    label = f"{name} ({_trainings(contrast)})"
    parts = tuple(100 * gain for gain in contrast.gains) if len(contrast.gains) > 1 else ()
    return ErrorBar(label, value, low, high, f"{name}: {_gain(contrast)} points", parts)


def _trainings(contrast: Contrast) -> str:
    pairs = counted(len(contrast.gains), "pair")
    return f"{pairs}, {contrast.seeds[0]} + {contrast.seeds[1]} seeds"


def _gain(contrast: Contrast) -> str:
    if math.isnan(contrast.gain.low):
        return f"{_signed(100 * contrast.gain.value)}, no spread: no interval"
    return points(contrast.gain)


def _contrasts(dimension: Dimension) -> Markup:
    heads = [
        Head("choice"),
        Head("over"),
        Head("gain (points)", number=True, text="with its 95 % interval"),
        Head("interval"),
        Head("trainings"),
        Head("collapsed", number=True, text="seeds of the choice that collapsed"),
        Head("of the other", number=True, text="seeds of the other choice that collapsed"),
        Head("setting"),
    ]
    rows: list[list[Piece]] = [
        [
            line(each.choice),
            line(each.over),
            _gain(each),
            each.method,
            _trainings(each),
            *(f"{side.happened} of {side.known}" for side in each.collapses),
            joined(map(line, each.settings), "; "),
        ]
        for each in dimension.contrasts
    ]
    return table(f"Gains of {dimension.name}", heads, rows)


def points(found: Interval | None) -> str:
    """A difference of success in points with its interval, such as `+3.1 [+0.2, +6.0]`."""
    if found is None:
        return cells.UNKNOWN
    value, low, high = (_signed(100 * end) for end in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]"


def _signed(value: float) -> str:
    shown = f"{value:+.1f}"
    return "0.0" if float(shown) == 0 else shown.replace("-", "\u2212")
