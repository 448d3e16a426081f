"""Success and stability: one against the other, and which choice of a recipe helps."""

from functools import lru_cache
from typing import Final

from markupsafe import Markup

from benchmark.statistics import Interval
from leaderboard import cells
from leaderboard.columns import SUCCESS, Column, columns_of
from leaderboard.data import Board
from leaderboard.dimensions import Dimension, Effect, dimensions
from leaderboard.figures import Estimate, Point, intervals, scatter
from leaderboard.links import State, panels_of_name, query_of
from leaderboard.markup import (
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
from leaderboard.scales import Scale
from leaderboard.tabs.board import frame_of

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
            "The four dimensions of a recipe. Entries that differ in one of the four alone, from "
            "the same init, are held against each other, episode by episode: a gain is success "
            "minus that of the reference, in points, with its 95 % interval over episodes. Their "
            "constants, such as the learning rate, may differ, too, and intervals do not know of "
            "training seeds; collapses are counted in seeds."
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
    # Only what is drawn counts, so that a control of another tab computes nothing anew.
    frame = frame_of(board, State(protocol=state.protocol, panels=state.panels))
    if state.base:
        frame = frame[frame["base_model"] == state.base]
    known = frame[frame[SUCCESS].notna() & frame[measure.name].notna()]
    left_out = len(frame) - len(known)
    lines = known[["name", "recipe", SUCCESS, measure.name]].to_dict("index")
    if not lines:
        return note("No entry of these panels has training logs: nothing is known of stability.")
    points, rows = [], []
    for entry, values in lines.items():
        query = query_of(State(tab="entry", protocol=state.protocol, entry=entry))
        success, other = values[SUCCESS], values[measure.name]
        shown = _shown(success, "share"), _shown(other, measure.unit)
        name = cells.text(values["name"])
        title = f"{name}: success {shown[0]}, {measure.title} {shown[1]}"
        points.append(Point(other, success, name, title, query))
        rows.append([link(query, line(values["name"])), line(values["recipe"]), *shown])
    unit = "" if measure.unit in ("share", "ratio") else f" ({measure.unit})"
    percent = " (%)" if measure.unit == "share" else ""
    label = f"{measure.title}{percent}{unit}, {measure.better} is better"
    x = Scale.over([values[measure.name] for values in lines.values()], measure.unit, log=True)
    figure = scatter(
        f"Success against {measure.title} of {len(points)} entries",
        points,
        x,
        Scale.share(),
        (label, "success (%)"),
    )
    return joined(
        [
            element("p", _summary(len(points), left_out, measure), "lb-count", role="status"),
            figure,
            folded(
                "The same as a table",
                table(
                    f"Success and {measure.title}",
                    [
                        Head("entry"),
                        Head("recipe"),
                        Head("success", number=True),
                        Head(measure.title, number=True, text=measure.text),
                    ],
                    rows,
                ),
            ),
        ]
    )


def _summary(count: int, left_out: int, measure: Column) -> str:
    missing = f"; {left_out} without both numbers are not drawn" if left_out else ""
    return f"{count} entries, success against {measure.title}{missing}"


def _shown(value: float, unit: str) -> str:
    return cells.number(value, unit) + (" %" if unit == "share" else "")


def _dimension(dimension: Dimension) -> Markup:
    head = element("h3", dimension.name) + note(_ABOUT[dimension.name])
    if dimension.reference is None:
        return element("section", head + note("No entry says what it chose."))
    drawn = [
        _estimate(effect.choice, effect.gain, effect.pairs)
        for effect in dimension.effects
        if effect.gain is not None
    ]
    ends = [end for each in drawn for end in (each.low, each.high)]
    figure = (
        intervals(
            f"Gain of each choice over {cells.text(dimension.reference)}",
            drawn,
            Scale.over(ends, "points"),
            f"gain over {cells.text(dimension.reference)} (points)",
            zero=True,
        )
        if drawn
        else note("No two entries differ in this choice alone.")
    )
    unknown = f"{dimension.unknown} entries do not say." if dimension.unknown else ""
    heads = [
        Head("choice"),
        Head("gain", number=True, text="success minus that of the reference, in points"),
        Head("pairs", number=True),
        Head("collapsed", number=True, text="seeds that collapsed, of those whose logs can say"),
    ]
    rows = [_effect(effect, effect.choice == dimension.reference) for effect in dimension.effects]
    listed = table(f"Choices of {dimension.name}", heads, rows)
    return element("section", joined([head, figure, listed, note(unknown) if unknown else NOTHING]))


def _estimate(choice: str, gain: Interval, pairs: int) -> Estimate:
    name = cells.text(choice)
    value, low, high = (100 * end for end in (gain.value, gain.low, gain.high))
    return Estimate(name, value, low, high, f"{name}: {points(gain)} points, {pairs} pairs")


def _effect(effect: Effect, reference: bool) -> list[Piece]:
    gain = "reference" if reference else points(effect.gain)
    seeds = f"{effect.collapsed} of {effect.seeds}" if effect.seeds else cells.UNKNOWN
    rate = effect.collapse_rate
    ends = f"{cells.percent(rate.low)}\u2013{cells.percent(rate.high)} %" if rate else ""
    return [
        line(effect.choice),
        gain,
        "" if reference else str(effect.pairs),
        joined([seeds, element("span", ends, "lb-sub")]) if ends else seeds,
    ]


def points(found: Interval | None) -> str:
    """A difference of success in points with its interval, such as `+3.1 [+0.2, +6.0]`."""
    if found is None:
        return cells.UNKNOWN
    value, low, high = (_signed(100 * end) for end in (found.value, found.low, found.high))
    return f"{value} [{low}, {high}]"


def _signed(value: float) -> str:
    shown = f"{value:+.1f}"
    return "0.0" if float(shown) == 0 else shown.replace("-", "\u2212")
