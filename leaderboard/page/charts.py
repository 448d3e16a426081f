"""The page's figures in Vega-Lite, which Gradio's plot component draws in the browser.

Gradio includes Vega (235 kB compressed; plotly would be 1,365 kB), so a figure is only its
specification: data, marks and axes. Colors, light or dark, and fonts come from the style sheet; a
point links to its entry and has a tooltip. The page also shows the numbers of every figure as text.

Format: https://vega.github.io/vega-lite/docs/.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from benchmark.plots.colors import look_of_recipe
from leaderboard.page.methods import METHODS

Spec = dict[str, Any]
Value = dict[str, str]
"""Value of Gradio's plot component."""

INK: Final = "var(--lb-ink)"
SOFT: Final = "var(--lb-soft)"
RULE: Final = "var(--lb-rule)"
PAGE: Final = "var(--lb-page)"
_FONT: Final = "system-ui, sans-serif"
_CONFIG: Final[Spec] = {
    "background": None,
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT, "titleColor": SOFT, "titleFontWeight": "normal", "labelFontSize": 12,
        "titleFontSize": 12, "gridColor": RULE, "domainColor": SOFT, "tickColor": SOFT,
        "domain": False, "ticks": False, "labelPadding": 6,
    },
    "axisX": {"grid": False, "domain": True, "ticks": True, "tickCount": 8},
    "legend": {
        "labelColor": INK, "labelFontSize": 13, "labelLimit": 260, "title": None, "orient": "top",
        # A single line of all names would be cut off in a narrow figure.
        "columns": 3,
        "symbolStrokeWidth": 3, "symbolOpacity": 1,
    },
    "text": {"color": INK, "fontSize": 12},
    "title": {"color": INK, "anchor": "start", "fontSize": 14, "subtitleColor": SOFT},
    "aria": True,
}  # fmt: skip


def value_of(spec: Mapping[str, Any], said: str) -> Value:
    """Convert a figure to the value of Gradio's plot component.

    Args:
        spec: The figure.
        said: Description of what it shows, for screen readers.
    """
    layers = [layer for layer in spec.get("layer", ()) if layer.get("data") != {"values": []}]
    spec = {**spec, "layer": layers} if layers else spec
    whole = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "description": said,
        "config": _CONFIG,
        # Keep text as text, and colors as references to the page's.
        "usermeta": {
            "embedOptions": {"renderer": "svg", "actions": False, "loader": {"target": "_self"}}
        },
        **spec,
    }
    return {"type": "altair", "plot": json.dumps(_rounded(whole), allow_nan=False)}


def _rounded(value: Any) -> Any:
    """Round numbers to five digits, enough for a figure, which cuts the page to a third."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


NOTHING: Final = value_of(
    {
        "data": {"values": []},
        # Otherwise a screen reader would announce marks that do not exist.
        "mark": {"type": "point", "aria": False},
        "width": 1,
        "height": 1,
    },
    "",
)


def color_of(recipe: str) -> str:
    """A recipe's color, light or dark."""
    return f"var(--lb-{look_of_recipe(recipe)[0]})"


def by_recipe(recipes: Sequence[str]) -> Spec:
    """The color channel of a figure with one mark per recipe."""
    domain = list(dict.fromkeys(recipes))
    scale = {"domain": domain, "range": [color_of(recipe) for recipe in domain]}
    # Only for our own methods: untrusted text must not become part of an expression.
    names = {recipe: METHODS[recipe].title for recipe in domain if recipe in METHODS}
    shown: Spec = {"field": "recipe", "type": "nominal", "scale": scale}
    by_name = {"labelExpr": f"({json.dumps(names)})[datum.label] || datum.label"}
    return shown | {"legend": by_name}


def unit_of(unit: str) -> str:
    """A unit to append to a title; empty if there is none."""
    shown = {"share": " (%)", "nats": " (nats)"}
    return shown.get(unit, "" if unit in ("", "ratio", "norm") else f" ({unit})")


def quantity(field: str, title: str, **more: Any) -> Spec:
    """A channel for numbers."""
    return {"field": field, "type": "quantitative", "title": title, **more}


def spread_labels(heights: Sequence[float], gap: float, top: float = math.inf) -> list[float]:
    """Heights for labels without overlap, each as close to its desired height as possible.

    Args:
        heights: The desired heights, in any unit.
        gap: Minimum distance between two labels.
        top: Maximum height.
    """
    order = sorted(range(len(heights)), key=heights.__getitem__)
    # Isotonic regression: blocks of touching labels are centered on their common mean.
    blocks: list[tuple[float, int]] = []
    for place, index in enumerate(order):
        total, count = heights[index] - place * gap, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            other, more = blocks.pop()
            total, count = total + other, count + more
        blocks.append((total, count))
    bases = [total / count for total, count in blocks for _ in range(count)]
    last, found = len(order) - 1, [0.0] * len(order)
    for place, index in enumerate(order):
        found[index] = min(bases[place] + place * gap, top - (last - place) * gap)
    return found


Box = tuple[float, float, float]
"""Desired position of a label: left end, right end, and height."""


def spread_near_labels(boxes: Sequence[Box], gap: float, top: float = math.inf) -> list[float]:
    """Heights for labels, in which those that overlap horizontally are spread."""
    groups: list[list[int]] = []
    reached = -math.inf
    for index in sorted(range(len(boxes)), key=lambda index: boxes[index]):
        left, right, _ = boxes[index]
        if left >= reached:
            groups.append([])
        groups[-1].append(index)
        reached = max(reached, right)
    found = [0.0] * len(boxes)
    for group in groups:
        heights = spread_labels([boxes[index][2] for index in group], gap, top)
        for index, height in zip(group, heights, strict=True):
            found[index] = height
    return found


def tooltip(fields: Mapping[str, str]) -> list[Spec]:
    """A tooltip with a title for each of the given fields."""
    return [{"field": name, "title": title} for name, title in fields.items()]


def error_bars(rows: Sequence[Mapping[str, Any]], title: str, said: str = "") -> Value:
    """Draw a list of estimates, each with its interval and the values of which it is the mean.

    Args:
        rows: `label`, `value`, `low`, `high`, `note`, and `parts`, a list; all in `title`'s unit.
        title: Title of the axis.
        said: See `value_of`.
    """
    data = [{name: value for name, value in row.items() if name != "parts"} for row in rows]
    parts = [{"label": row["label"], "part": part} for row in rows for part in row.get("parts", ())]
    y = {"field": "label", "type": "nominal", "sort": None, "title": None, "axis": None,
         "scale": {"paddingInner": 0.2}}  # fmt: skip
    say = tooltip({"note": " "})
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeWidth": 3, "opacity": 0.45,
                     "color": "var(--lb-accent)"},
            "encoding": {"x": quantity("low", title), "x2": {"field": "high"}, "tooltip": say},
        },
        {
            "data": {"values": parts},
            "mark": {"type": "point", "filled": True, "size": 16, "color": SOFT},
            "encoding": {"x": quantity("part", title)},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1,
                     "color": "var(--lb-accent)"},
            "encoding": {"x": quantity("value", title), "tooltip": say},
        },
    ]  # fmt: skip
    rule = {"type": "rule", "strokeDash": [3, 3], "color": SOFT}
    layers.insert(0, {"data": {"values": [{"at": 0}]}, "mark": rule,
                      "encoding": {"x": quantity("at", title)}})  # fmt: skip
    # Names are above the bars: next to them, a phone would have no space left for the bars.
    text: Spec = {"type": "text", "align": "left", "dy": -14, "limit": 330}
    # The zero line runs through the names, so outline them in the page's color.
    for mark in (text | {"stroke": PAGE, "strokeWidth": 5, "aria": False}, text):
        layers.append({"mark": mark, "encoding": {"x": {"value": 0}, "text": {"field": "label"}}})
    for layer in layers:
        if "data" not in layer or layer["data"]["values"] is parts:
            layer["encoding"]["y"] = y
    spec = {
        "data": {"values": data}, "layer": layers, "width": "container",
        "height": 44 * len(data),
    }  # fmt: skip
    return value_of(spec, said)
