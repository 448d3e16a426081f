"""Success and stability: one against the other, and which choice of a recipe helps."""

import math
from functools import lru_cache
from typing import Any, Final

from markupsafe import Markup

from leaderboard.board.board import Board
from leaderboard.page import charts
from leaderboard.page.markup import (
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
from leaderboard.page.shown import frame_of, panels_of_name
from leaderboard.page.state import State, query_of
from leaderboard.table import cells
from leaderboard.table.columns import SUCCESS, Column, columns_of
from leaderboard.table.contrasts import Contrast, Dimension, dimensions
from leaderboard.table.ranks import RANKED
from leaderboard.tabs.plane import MOST_NAMED
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
    """What is beside the first figure."""
    if not panels_of_name(board, state.protocol, state.panels):
        return page(note("No entry has been accepted under this protocol yet."))
    return page(_against(board, state), view_link(query_of(state)))


@lru_cache(maxsize=64)
def choices_page(board: Board, state: State) -> str:
    """Which choice of a recipe helps: what is beside the second figure."""
    panels = panels_of_name(board, state.protocol, state.panels)
    found = dimensions(board, state.protocol, panels, state.base or None) if panels else ()
    shown = [each for each in found if each.contrasts or each.alone or each.unknown]
    if not any(each.contrasts for each in found):
        shown = []
    return page(
        element("h2", "Which choice helps"),
        note(
            "We compare two entries only if they differ in exactly one of the four choices of a "
            "recipe, and in the learning rate, which may be tuned for each. A gain is a difference "
            "of success in points. Its 95% interval is that of every comparison of two entries; "
            "with three pairs or more (small dots), it is over pairs. A few seeds say little, and "
            "nothing is corrected for the number of comparisons."
        )
        if shown
        else note("No two entries on this task differ in exactly one choice yet."),
        element("div", joined(map(_dimension, shown)), "lb-figures lb-few"),
    )


def _known(board: Board, state: State) -> tuple[Column, dict[str, dict[str, Any]], int, bool]:
    """The measure, entries with both numbers, how many lack one, whether any has the measure."""
    measure = next(c for c in columns_of([]) if c.name == state.measure)
    # Only what is drawn counts, so that a control of another tab recomputes nothing.
    frame = frame_of(board, State(protocol=state.protocol, panels=state.panels))
    frame = frame[frame["kind"].isin(RANKED)]
    if state.base:
        frame = frame[frame["base_model"] == state.base]
    both = frame[frame[SUCCESS].notna() & frame[measure.name].notna()]
    names = ["name", "recipe", "track", SUCCESS, _LOW, _HIGH, measure.name]
    lines: dict[str, dict[str, Any]] = both[names].to_dict("index")
    return measure, lines, len(frame) - len(both), bool(frame[measure.name].notna().any())


@lru_cache(maxsize=64)
def against_chart(board: Board, state: State) -> charts.Value:
    """Success with its interval against a measure of stability."""
    if not panels_of_name(board, state.protocol, state.panels):
        return charts.NOTHING
    measure, lines, _, _ = _known(board, state)
    if not lines:
        return charts.NOTHING
    scale = 100 if measure.unit == "share" else 1
    points = [
        {
            "name": cells.text(values["name"]),
            "recipe": cells.text(values["recipe"]),
            "track": cells.text(values["track"]),
            "x": scale * values[measure.name] if math.isfinite(values[measure.name]) else None,
            "y": 100 * values[SUCCESS],
            "low": 100 * values[_LOW],
            "high": 100 * values[_HIGH],
            "shown": cells.interval(values[SUCCESS], values[_LOW], values[_HIGH], "%"),
            "other": _shown(values[measure.name], measure.unit),
            "href": "?" + query_of(State(tab="entry", protocol=state.protocol, entry=entry)),
        }
        for entry, values in lines.items()
    ]
    title = f"{measure.title}{_of_unit(measure)}, {measure.better} is better"
    x = charts.quantity("x", title, scale={"zero": True})
    success = charts.quantity("y", "success (%)", scale={"domain": [0, 100]})
    same = {"x": x, "color": charts.by_recipe([p["recipe"] for p in points])}
    say = charts.tooltip(
        {"name": "entry", "track": "track", "shown": "success", "other": measure.title}
    )
    layers: list[charts.Spec] = [
        {
            "mark": {"type": "rule", "opacity": 0.35, "strokeWidth": 2},
            "encoding": same | {"y": success | {"field": "low"}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 110, "opacity": 0.9},
            "encoding": same | {"y": success, "tooltip": say, "href": {"field": "href"}},
        },
    ]
    if len(points) <= MOST_NAMED:
        layers.append(
            {
                "mark": {"type": "text", "dy": -12},
                "encoding": {"x": x, "y": success, "text": {"field": "recipe"}},
            }
        )
    spec = {"data": {"values": points}, "layer": layers, "width": "container", "height": 320}
    return charts.value_of(spec, f"Success against {measure.title} of {len(points)} entries")


def _of_unit(measure: Column) -> str:
    if measure.unit == "share":
        return " (%)"
    return "" if measure.unit == "ratio" else f" ({measure.unit})"


def _against(board: Board, state: State) -> Markup:
    measure, lines, left_out, there = _known(board, state)
    if not lines:
        known = "evaluated on all of these panels " if there else ""
        return note(f"No entry {known}has a number for {measure.title}: choose another task.")
    rows = []
    for entry, values in lines.items():
        query = query_of(State(tab="entry", protocol=state.protocol, entry=entry))
        shown = _shown(values[SUCCESS], "share"), _shown(values[measure.name], measure.unit)
        rows.append([link(query, line(values["name"])), line(values["recipe"]), *shown])
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
    said = element("p", _summary(len(lines), left_out, measure), "lb-count", role="status")
    return said + folded("The same as a table", listed)


def _summary(count: int, left_out: int, measure: Column) -> str:
    missing = f"; {left_out} without both numbers are not drawn" if left_out else ""
    return f"{count} entries, success against {measure.title}{missing}"


def _shown(value: float, unit: str) -> str:
    return cells.number(value, unit) + ("%" if unit == "share" else "")


def _dimension(dimension: Dimension) -> Markup:
    parts = [element("h3", dimension.name), note(_ABOUT[dimension.name])]
    if dimension.contrasts:
        parts.append(_contrasts(dimension))
    elif dimension.alone:
        parts.append(note("No pair isolates this choice yet."))
    else:
        parts.append(note("No entry of these panels says what it chose."))
    if dimension.alone:
        names = joined(map(line, dimension.alone), ", ")
        parts.append(note(joined(["Not yet compared: ", names, "."])))
    if dimension.unknown:
        parts.append(note(f"{dimension.unknown} entries do not say what they chose."))
    return element("section", joined(parts))


@lru_cache(maxsize=64)
def gains_chart(board: Board, state: State) -> charts.Value:
    """What each choice adds to success, over all dimensions that have pairs."""
    panels = panels_of_name(board, state.protocol, state.panels)
    found = dimensions(board, state.protocol, panels, state.base or None) if panels else ()
    rows = [_estimate(each.name, contrast) for each in found for contrast in each.contrasts]
    if not rows:
        return charts.NOTHING
    said = "; ".join(row["note"] for row in rows)
    return charts.error_bars(rows, "gain of success (points)", said=said)


def _estimate(dimension: str, contrast: Contrast) -> dict[str, Any]:
    found = contrast.gain
    ends = (found.low, found.high) if not math.isnan(found.low) else (found.value, found.value)
    value, low, high = (100 * each for each in (found.value, *ends))
    name = f"{cells.text(contrast.choice)} over {cells.text(contrast.over)}"
    parts = [100 * gain for gain in contrast.gains] if len(contrast.gains) > 1 else []
    said = f"{name}: {_gain(contrast)} points ({_trainings(contrast)})"
    return {
        "label": f"{dimension}: {name}", "value": value, "low": low, "high": high,
        "parts": parts, "note": said,
    }  # fmt: skip


def _trainings(contrast: Contrast) -> str:
    pairs = counted(len(contrast.gains), "pair")
    return f"{pairs}, {contrast.seeds[0]} + {contrast.seeds[1]} seeds"


def _gain(contrast: Contrast) -> str:
    if math.isnan(contrast.gain.low):
        return f"{cells.signed(100 * contrast.gain.value)}, no spread: no interval"
    return cells.points(contrast.gain)


def _contrasts(dimension: Dimension) -> Markup:
    heads = [
        Head("choice"),
        Head("over"),
        Head("gain (points)", number=True, text="with its 95% interval"),
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
