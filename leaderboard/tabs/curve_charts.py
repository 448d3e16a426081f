"""Figures of training curves: median and range over seeds, collapses, and a clickable legend."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from benchmark.plots.colors import look_of_recipe
from benchmark.stats.bands import at_common_places
from benchmark.stats.intervals import exact
from leaderboard.board.board import Board
from leaderboard.board.curves import CURVES
from leaderboard.board.rows import BoardRow
from leaderboard.board.training_rows import SeedCurves, StoredSeries, Survival
from leaderboard.page import charts
from leaderboard.page.methods import method_name, short_tracks
from leaderboard.page.state import State
from leaderboard.table import cells
from leaderboard.table.survival import ends_of

MAX_PLACES: Final = 130
"""Maximum number of points of a band; plots are barely twice as wide in pixels."""
MAX_POINTED: Final = 50
"""Maximum number of points of a line with tooltips: each is an element, and more would be closer
together than a pointer is wide."""
DECADES: Final = 7
"""Maximum number of decades of a logarithmic axis; smaller values are drawn at its lower end."""
_LOG_SPAN: Final = 30.0
"""Ratio of the largest to the smallest value above which an axis is logarithmic."""

_DASHES: Final = ([1, 0], [5, 3], [2, 2], [8, 3, 2, 3], [12, 4], [12, 3, 3, 3])

Points = tuple[tuple[float, float], ...]
Drawn = Sequence[tuple[BoardRow, tuple[SeedCurves, ...]]]


def drawn_of(board: Board, state: State) -> list[tuple[BoardRow, tuple[SeedCurves, ...]]]:
    """The selected entries that have logs, with their curves."""
    rows = [row for entry in state.entries if (row := board.row(entry, state.protocol))]
    return [(row, board.curves(row)) for row in rows if row.stability is not None]


def labels_of(drawn: Drawn) -> list[str]:
    """Names of curves: methods; if these are not unique, with tracks or entry names."""
    methods = [cells.text(method_name(row.method)) for row, _ in drawn]
    if len(set(methods)) == len(methods):
        return methods
    tracks = short_tracks([cells.text(row.track) for row, _ in drawn])
    both = [f"{method}, {track}" for method, track in zip(methods, tracks, strict=True)]
    if len(set(both)) == len(both):
        return both
    entries = [cells.text(row.name) for row, _ in drawn]
    names = [f"{method}: {entry}" for method, entry in zip(methods, entries, strict=True)]
    return [
        name if names.count(name) == 1 else f"{method}: {row.id}"
        for (row, _), name, method in zip(drawn, names, methods, strict=True)
    ]


@lru_cache(maxsize=256)
def curve_chart(name: str, board: Board, state: State) -> charts.Value:
    """A figure of one metric during the training of the selected entries.

    Args:
        name: The metric's key in `CURVES`.
        board: The board.
        state: Its fields `entries`, `x` and `linear` are used.
    """
    drawn = drawn_of(board, state)
    kind = CURVES[name]
    scale = 100.0 if kind.unit == "share" else 1.0
    lines: list[dict[str, Any]] = []
    bands: list[dict[str, Any]] = []
    marks, beyond, said = [], [], []
    for label, (_, seeds) in zip(labels_of(drawn), drawn, strict=True):
        known = [
            (seed, found)
            for seed in seeds
            if (found := seed.of(name)) is not None and _has_axis(seed, state.x)
        ]
        runs = [_points(seed, found, state.x, scale) for seed, found in known]
        middle, band = summary(runs)
        lines += [{"label": label, "x": x, "y": y} for x, y in middle]
        bands += [{"label": label, "x": x, "low": low, "high": high} for x, low, high in band]
        if name == "success":
            marks += _crosses(label, known, runs, state.x)
        beyond += [
            {"label": label, "x": x, "said": "not a finite number"}
            for x in _overflows(known, state.x)
        ]
        if middle:
            said.append(f"{label} ends at {cells.number(middle[-1][1] / scale, kind.unit)}")
    title = kind.title + charts.unit_of(kind.unit)
    if not lines:
        return not_measured(title, kind.text)
    values = [line["y"] for line in lines] + [b[end] for b in bands for end in ("low", "high")]
    axis = axis_of(values, kind.log_scale and not state.linear)
    parts = _Parts(lines, bands, marks, beyond)
    spec = _spec(drawn, parts, title, kind.text, _OF_X[state.x], axis)
    return charts.value_of(spec, f"{title}: {'; '.join(said)} (median of the seeds)")


@lru_cache(maxsize=64)
def survival_chart(board: Board, state: State) -> charts.Value:
    """The Kaplan-Meier estimate of the share of seeds that have not collapsed."""
    drawn = drawn_of(board, state)
    lines, bands = [], []
    for label, (row, seeds) in zip(labels_of(drawn), drawn, strict=True):
        found = row.stability.survival if row.stability else None
        if found is None:
            continue
        last = max([0, *(seed.last_step or 0 for seed in seeds)])
        stairs, band = _stairs(found, float(last))
        lines += [{"label": label, "x": x, "y": 100 * y} for x, y in stairs]
        bands += [{"label": label, "x": x, "low": 100 * a, "high": 100 * b} for x, a, b in band]
    title, about = "survival (%)", "seeds that have not collapsed (Kaplan\u2013Meier), band: 95% CI"
    if not lines:
        return not_measured(title, about)
    axis = {"scale": {"domain": [0, 100]}}
    spec = _spec(drawn, _Parts(lines, bands, [], []), title, about, "update", axis, step=True)
    return charts.value_of(spec, f"{title}: {about}")


class _Parts(NamedTuple):
    """The parts of a figure, as rows of data."""

    lines: list[dict[str, Any]]
    bands: list[dict[str, Any]]
    marks: list[dict[str, Any]]
    beyond: list[dict[str, Any]]


def not_measured(title: str, about: str) -> charts.Value:
    """A placeholder for a metric that no log contains."""
    spec = {
        "title": {"text": title, "subtitle": about}, "width": "container", "height": 60,
        "data": {"values": [{"text": "Not measured"}]},
        "mark": {"type": "text"}, "encoding": {"text": {"field": "text"}},
    }  # fmt: skip
    return charts.value_of(spec, f"{title}: not measured")


def _spec(
    drawn: Drawn,
    parts: _Parts,
    title: str,
    about: str,
    of_x: str,
    axis: charts.Spec,
    step: bool = False,
) -> charts.Spec:
    labels = labels_of(drawn)
    room = min(_NAME_LIMIT, 6 * max(map(len, labels))) + 8 if len(labels) > 1 else 8
    return {
        "title": {"text": title, "subtitle": about},
        "data": {"values": parts.lines},
        "layer": _layers(drawn, parts, title, of_x, axis, "step-after" if step else "linear"),
        "width": "container",
        "height": _HEIGHT,
        # Room for the names to the right of the lines.
        "padding": {"left": 4, "top": 4, "right": room, "bottom": 4},
    }


def _layers(
    drawn: Drawn, parts: _Parts, title: str, of_x: str, axis: charts.Spec, order: str
) -> list[charts.Spec]:
    """Layers for bands, lines, points with tooltips, collapses, non-finite values, and names."""
    labels = labels_of(drawn)
    color, dash = _recipes(drawn, labels)
    x = charts.quantity("x", of_x, scale={"nice": False, "zero": True})
    shown = {"condition": {"param": "on", "value": 1}, "value": 0.08}
    # Intervals of few seeds are wide and overlap, so they are fainter.
    depth = 0.16 if order == "linear" else 0.07
    faint = {"condition": {"param": "on", "value": depth}, "value": 0.02}
    same = {"color": color, "x": x}
    say = [
        {"field": "label", "title": "recipe"},
        {"field": "x", "type": "quantitative", "title": of_x, "format": ",.4~g"},
        {"field": "y", "type": "quantitative", "title": title, "format": ",.3~g"},
    ]
    toggle = {"name": "on", "select": {"type": "point", "fields": ["label"]}, "bind": "legend"}
    y = charts.quantity("y", "", **axis)
    band_y = {"y": charts.quantity("low", "", **axis), "y2": {"field": "high"}}
    layers: list[charts.Spec] = [
        {
            "data": {"values": parts.bands},
            "mark": {"type": "area", "interpolate": order},
            "encoding": same | band_y | {"opacity": faint},
        },
        {
            "params": [toggle],
            "mark": {"type": "line", "strokeWidth": 2, "interpolate": order},
            "encoding": same | {"y": y, "strokeDash": dash, "opacity": shown},
        },
        {
            # The style sheet shows the point under the pointer; a Vega selection would be slower.
            **_near_pointer(parts.lines),
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 0},
            "encoding": same | {"y": y, "tooltip": say},
        },
        {
            "data": {"values": parts.marks},
            "mark": {"type": "text", "text": "\u2715", "fontSize": 17, "fontWeight": 700},
            "encoding": same | {"y": y, "opacity": shown,
                                "tooltip": [{"field": "said", "title": "collapse"}]},
        },
        {
            "data": {"values": parts.beyond},
            "mark": {"type": "point", "shape": "triangle-up", "filled": True, "size": 60},
            "encoding": same | {"y": {"value": 4},
                                "tooltip": [{"field": "said", "title": "value"}]},
        },
    ]  # fmt: skip
    if len(labels) > 1:
        layers.append(
            {
                "data": {"values": _ends(parts.lines, axis)},
                "mark": {"type": "text", "align": "left", "dx": 6, "fontSize": 11,
                         "limit": _NAME_LIMIT, "dy": {"expr": "datum.dy"}},
                "encoding": same | {"y": y, "opacity": shown, "text": {"field": "label"}},
            }
        )  # fmt: skip
    return layers


def _near_pointer(lines: list[dict[str, Any]]) -> charts.Spec:
    """Data of the points with tooltips; empty if these are all points."""
    most = max(Counter(line["label"] for line in lines).values(), default=0)
    step = math.ceil(most / MAX_POINTED)
    return {"data": {"values": lines[::step]}} if step > 1 else {}


def _recipes(drawn: Drawn, labels: list[str]) -> tuple[charts.Spec, charts.Spec]:
    """Color and dash encodings that distinguish the selected entries."""
    looks = [look_of_recipe(row.method) for row, _ in drawn]
    hues = [hue for hue, _ in looks]
    # Variants of a recipe share its hue and have different dash patterns.
    dashes = [
        _DASHES[(dashed + 2 * looks[:place].count((hue, dashed))) % len(_DASHES)]
        for place, (hue, dashed) in enumerate(looks)
    ]
    # As many columns as fit into the narrowest figure.
    columns = max(1, min(3, _LEGEND_WIDTH // (7 * max(map(len, labels)) + 40)))
    legend = {"symbolType": "stroke", "columns": columns} if len(labels) > 1 else None
    color = {
        "field": "label", "type": "nominal", "legend": legend,
        "scale": {"domain": labels, "range": [f"var(--lb-{hue})" for hue in hues]},
    }  # fmt: skip
    dash = {
        "field": "label", "type": "nominal", "legend": legend,
        "scale": {"domain": labels, "range": dashes},
    }  # fmt: skip
    return color, dash


def _ends(lines: Sequence[dict[str, Any]], axis: charts.Spec) -> list[dict[str, Any]]:
    """Positions of the lines' names: at the end of each line, without overlap."""
    last = list({line["label"]: line for line in lines}.values())
    end = max(line["x"] for line in last)
    # The name of a line that ends early is above its end, since a longer line may continue there.
    last = [line | {"dy": 0 if line["x"] == end else -8} for line in last]
    low: float
    high: float
    low, high = axis["scale"].get("domain") or (0.0, max([line["y"] for line in lines]))
    log = axis["scale"].get("type") == "log"
    if not high > low:
        return last

    def height(y: float) -> float:
        if not log:
            return _HEIGHT * (y - low) / (high - low)
        return _HEIGHT * math.log(max(y, low) / low) / math.log(high / low)

    near = _NAME_WIDTH * max(line["x"] for line in last)
    boxes = [(line["x"], line["x"] + near, height(line["y"])) for line in last]
    found = charts.spread_near_labels(boxes, _NAME_HEIGHT, _HEIGHT)
    shares = [each / _HEIGHT for each in found]
    at = [low * (high / low) ** each if log else low + each * (high - low) for each in shares]
    return [line | {"y": y} for line, y in zip(last, at, strict=True)]


_HEIGHT: Final = 190.0
"""Height of a figure in pixels. `_NAME_HEIGHT` is in pixels, `_NAME_WIDTH` a share of the width."""
_NAME_HEIGHT: Final = 13.0
_NAME_WIDTH: Final = 0.3
_NAME_LIMIT: Final = 100
_LEGEND_WIDTH: Final = 340
_OF_X: Final = {
    "updates": "update",
    "episodes": "training episodes",
    "tokens": "response tokens sampled",
    "seconds": "seconds of compute",
}


def axis_of(values: Sequence[float], log: bool) -> charts.Spec:
    """Scale and ticks of an axis, logarithmic only if the ratio of values exceeds `_LOG_SPAN`.

    Args:
        values: All values in the figure.
        log: Whether a logarithmic axis is allowed.
    """
    positive = [value for value in values if value > 0]
    if log and positive and max(positive) > _LOG_SPAN * min(positive):
        high = 10.0 ** math.ceil(math.log10(max(positive)) + 1e-9)
        low = max(10.0 ** math.floor(math.log10(min(positive))), high / 10**DECADES)
        scale = {"type": "log", "domain": [low, high], "clamp": True}
        powers = range(round(math.log10(low)), round(math.log10(high)) + 1)
        step = math.ceil(len(powers) / 5)
        ticks = [10.0**power for power in powers[::step]]
        return {"scale": scale, "axis": {"format": "~g", "values": ticks}}
    return {"scale": {"zero": True}}


def _places(seed: SeedCurves, x: str) -> Callable[[float], float]:
    """A function from an update to its position on the axis, if the log has it (`_has_axis`)."""
    if x == "updates":
        return float
    total = seed.of(x)
    assert total is not None
    # All totals are 0 before the first update.
    steps, values = np.array((0, *total.steps)), np.array((0.0, *total.values))
    return lambda step: float(np.interp(step, steps, values))


def _has_axis(seed: SeedCurves, x: str) -> bool:
    return x == "updates" or seed.of(x) is not None


def _points(seed: SeedCurves, series: StoredSeries, x: str, scale: float) -> Points:
    at = _places(seed, x)
    return tuple(
        (at(step), scale * value)
        for step, value in zip(series.steps, series.values, strict=True)
        if math.isfinite(value)
    )


def _overflows(known: Sequence[tuple[SeedCurves, StoredSeries]], x: str) -> list[float]:
    found = {
        _places(seed, x)(step)
        for seed, series in known
        for step, value in zip(series.steps, series.values, strict=True)
        if not math.isfinite(value)
    }
    return sorted(found)


def _crosses(
    label: str, known: Sequence[tuple[SeedCurves, StoredSeries]], runs: Sequence[Points], x: str
) -> list[dict[str, Any]]:
    marks = []
    for (seed, _), points in zip(known, runs, strict=True):
        if seed.collapsed and seed.collapse_step is not None and points:
            place = _places(seed, x)(seed.collapse_step)
            value = float(np.interp(place, [a for a, _ in points], [b for _, b in points]))
            said = f"{label}, seed {seed.seed}, update {seed.collapse_step}"
            marks.append({"label": label, "x": place, "y": value, "said": said})
    return marks


def summary(
    lines: Sequence[Points],
) -> tuple[Points, tuple[tuple[float, float, float], ...]]:
    """Median and range over seeds at points where all of them have values.

    A single seed has no range.
    """
    known = [points for points in lines if points]
    found = at_common_places([(*np.array(points).T,) for points in known]) if known else None
    if found is None:
        return (), ()
    places, values = found
    if len(known) == 1 and places.size <= 3 * MAX_PLACES:
        return known[0], ()
    bins = np.array_split(np.arange(places.size), min(MAX_PLACES, places.size))
    at = [float(places[own].mean()) for own in bins]
    middle = [float(np.median(values[:, own])) for own in bins]
    low = [float(values[:, own].min()) for own in bins]
    high = [float(values[:, own].max()) for own in bins]
    band = tuple(zip(at, low, high, strict=True)) if len(known) > 1 else ()
    return tuple(zip(at, middle, strict=True)), band


def _stairs(found: Survival, last: float) -> tuple[Points, Sequence[tuple[float, float, float]]]:
    """The survival step function up to the last update, and its interval as far as it is known."""
    steps, shares = (0.0, *map(float, found.steps)), (1.0, *found.share)
    end = max(last, steps[-1])
    line = (*zip(steps, shares, strict=True), (end, shares[-1]))
    # Before the first event, all seeds survive.
    all_left = exact(found.at_risk[0], found.at_risk[0])
    band = [(0.0, all_left.low, all_left.high)]
    for step, known in zip(found.steps, ends_of(found), strict=True):
        if known is None:
            return line, (*band, (float(step), *band[-1][1:]))
        band.append((float(step), *known))
    return line, (*band, (end, *band[-1][1:]))
