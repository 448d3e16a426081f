"""The page's figures, as SVG text that takes its colours from the style sheet, light or dark.

Drawn by hand, as in the report of a run: the text stays text, a figure is a few kilobytes, is there
with the page and needs no program in the browser. One unit is one CSS pixel at the natural width.
Beside every figure the page has the same numbers as a table.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from markupsafe import Markup, escape

from leaderboard.page.markup import NOTHING, Piece, element, joined, link
from leaderboard.page.scales import Scale

COLOURS: Final = 6
"""Colours of the style sheet that tell curves apart: `lb-c0` to `lb-c5`."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 12, 14, 42
_ROW = 26
MOST_NAMED: Final = 14
"""Points of a scatter that have their names beside them."""


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a scatter.

    Attributes:
        x: Its value.
        y: Likewise.
        ends: Of the interval of `y`.
        name: What stands beside it where there is room; foreign text.
        title: What is said of it, on one line.
        query: The view that it leads to.
    """

    x: float
    y: float
    ends: tuple[float, float]
    name: str
    title: str
    query: str


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve of a plot, with a band around it.

    Attributes:
        colour: Number of its colour.
        lines: Lines as (x, y); a thin one each if there are several.
        middle: The line that stands for all, as (x, y).
        band: (x, low, high), ascending; empty for none.
        marks: Places that are crossed.
        overflows: Places on the x axis where what was measured is not a finite number.
        step: The middle is a staircase: each value holds until the next one.
    """

    colour: int
    lines: tuple[tuple[tuple[float, float], ...], ...]
    middle: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...] = ()
    marks: tuple[tuple[float, float], ...] = ()
    overflows: tuple[float, ...] = ()
    step: bool = False


@dataclass(frozen=True, slots=True)
class ErrorBar:
    """One row of a plot of intervals.

    Attributes:
        label: Its name, foreign text.
        value: The estimate.
        low: Lower end; the value itself for no interval.
        high: Upper end.
        note: What is said of it, on one line.
        parts: Values that it is the mean of, where they are drawn, too.
    """

    label: str
    value: float
    low: float
    high: float
    note: str
    parts: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class _Frame:
    """A drawing with two axes."""

    x: Scale
    y: Scale
    width: int
    height: int

    def at_x(self, value: float) -> str:
        return _n(_LEFT + (self.width - _LEFT - _RIGHT) * self.x.place(value))

    def at_y(self, value: float) -> str:
        bottom = self.height - _BOTTOM
        return _n(bottom - (bottom - _TOP) * self.y.place(value))

    def axes(self, x_label: str, y_label: str) -> Markup:
        right, bottom = self.width - _RIGHT, self.height - _BOTTOM
        marks = []
        for value, label in self.y.ticks():
            y = self.at_y(value)
            marks.append(_line("grid", _LEFT, y, right, y))
            marks.append(_text("end", _LEFT - 6, y, label, dy="0.35em"))
        for value, label in self.x.ticks():
            x = self.at_x(value)
            marks.append(_line("tick", x, bottom, x, bottom + 4))
            marks.append(_text("mid", x, bottom + 17, label))
        marks.append(_line("axis", _LEFT, bottom, right, bottom))
        marks.append(_text("mid label", (_LEFT + right) / 2, self.height - 6, x_label))
        marks.append(_text("label", 2, -8, y_label) if y_label else NOTHING)
        return joined(marks)

    def path(self, points: Sequence[tuple[float, float]], step: bool = False) -> str:
        parts: list[str] = []
        for number, (x, y) in enumerate(points):
            if step and number:
                parts.append(f"H{self.at_x(x)}V{self.at_y(y)}")
            else:
                parts.append(f"{'L' if number else 'M'}{self.at_x(x)} {self.at_y(y)}")
        return "".join(parts)

    def outline(self, band: Sequence[tuple[float, float, float]], step: bool) -> str:
        upper = [(x, high) for x, _, high in band]
        lower = [(x, low) for x, low, _ in band]
        if step:
            upper, lower = _stairs(upper), _stairs(lower)
        return self.path([*upper, *reversed(lower)]) + "Z"


def scatter(
    title: str, points: Sequence[Point], x: Scale, y: Scale, labels: tuple[str, str]
) -> Markup:
    """Points, each a link, with what they are beside the pointer."""
    frame = _Frame(x, y, 440, 330)
    names = _names(frame, points) if len(points) <= MOST_NAMED else [NOTHING] * len(points)
    marks = joined(
        link(
            point.query,
            element("title", point.title) + _whisker(frame, point) + name,
            aria_label=point.title,
        )
        for point, name in zip(points, names, strict=True)
    )
    # A group and no image: an image has no links in it.
    return _svg(title, frame, frame.axes(*labels) + marks, "lb-wide", role="group")


def _whisker(frame: _Frame, point: Point) -> Markup:
    """A point on its interval."""
    x = frame.at_x(point.x)
    low, high = map(frame.at_y, point.ends)
    return _line("whisker", x, low, x, high) + _dot(x, frame.at_y(point.y))


def _names(frame: _Frame, points: Sequence[Point]) -> list[Markup]:
    """The points' names beside them, moved down where they would lie on each other."""
    found = [NOTHING] * len(points)
    lowest = {False: -math.inf, True: -math.inf}
    for place in sorted(range(len(points)), key=lambda place: -points[place].y):
        point = points[place]
        left = frame.x.place(point.x) > 0.6
        # On the lower edge a name would be struck out by the axis.
        beside = 4 if frame.y.place(point.y) > 0.03 else -5
        y = max(float(frame.at_y(point.y)) + beside, lowest[left] + 12)
        lowest[left] = y
        x = float(frame.at_x(point.x)) + (-9 if left else 9)
        name = point.name if len(point.name) <= 28 else f"{point.name[:27]}\u2026"
        found[place] = _text("end" if left else "", _n(x), _n(y), name)
    return found


def plot(title: str, curves: Sequence[Curve], x: Scale, y: Scale, label: str) -> Markup:
    """Curves over the updates of trainings, with bands and marks."""
    frame = _Frame(x, y, 400, 260)
    bands, middles, marks = [], [], []
    for curve in curves:
        css = f"lb-c{curve.colour % COLOURS}"
        if curve.band:
            bands.append(_path(f"band {css}", frame.outline(curve.band, curve.step)))
        if len(curve.lines) > 1:
            middles += [_path(f"thin {css}", frame.path(run)) for run in curve.lines]
        if curve.middle:
            middles.append(_path(f"curve {css}", frame.path(curve.middle, curve.step)))
        marks += [_cross(frame, css, *place) for place in curve.marks]
        marks += [_triangle(frame, css, place) for place in curve.overflows]
    drawn = joined([frame.axes(label, ""), *bands, *middles, *marks])
    return _svg(title, frame, drawn, "lb-plot")


def intervals(
    title: str, estimates: Sequence[ErrorBar], x: Scale, label: str, zero: bool = False
) -> Markup:
    """Estimates below each other, each with its interval.

    Args:
        title: What they are.
        estimates: The rows.
        x: The axis.
        label: What the axis shows.
        zero: Whether no difference is marked.
    """
    width, height = 400, _TOP + _ROW * len(estimates) * 2 + _BOTTOM
    frame = _Frame(x, Scale(0, 1, ""), width, height)
    bottom = height - _BOTTOM
    marks = []
    for value, text in x.ticks():
        place = frame.at_x(value)
        marks.append(_line("grid", place, _TOP, place, bottom))
        marks.append(_text("mid", place, bottom + 17, text))
    if zero:
        place = frame.at_x(0)
        marks.append(_line("zero", place, _TOP, place, bottom))
    for number, each in enumerate(estimates):
        y = _TOP + _ROW * (2 * number + 1.45)
        ends = frame.at_x(each.low), frame.at_x(each.high)
        marks.append(
            element(
                "g",
                joined(
                    [
                        element("title", each.note),
                        _text("start", _LEFT, y - 13, each.label),
                        _line("interval", ends[0], y, ends[1], y),
                        *(_dot(frame.at_x(part), _n(y), "part", 2.5) for part in each.parts),
                        _dot(frame.at_x(each.value), _n(y)),
                    ]
                ),
            )
        )
    marks.append(_text("mid label", (_LEFT + width - _RIGHT) / 2, height - 6, label))
    return _svg(title, frame, joined(marks), "lb-plot")


def legend(entries: Iterable[Piece]) -> Markup:
    """Names of curves beside their colours."""
    return element(
        "ul",
        joined(
            element("li", element("i", "", f"lb-swatch lb-c{n % COLOURS}") + escape(name))
            for n, name in enumerate(entries)
        ),
        "lb-legend",
    )


def _svg(title: str, frame: _Frame, content: Markup, css: str, role: str = "img") -> Markup:
    return element(
        "svg",
        content,
        f"lb-figure {css}",
        viewBox=f"0 0 {frame.width} {frame.height}",
        role=role,
        aria_label=title,
    )


def _stairs(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    found = list(points[:1])
    for (_, before), (x, y) in pairwise(points):
        found += [(x, before), (x, y)]
    return found


def _line(css: str, x1: object, y1: object, x2: object, y2: object) -> Markup:
    return element("line", "", css, x1=str(x1), y1=str(y1), x2=str(x2), y2=str(y2))


def _dot(x: str, y: str, css: str = "dot", radius: float = 5) -> Markup:
    return element("circle", "", css, cx=x, cy=y, r=_n(radius))


def _path(css: str, path: str, **attributes: str) -> Markup:
    return element("path", "", css, d=path, **attributes)


def _text(css: str, x: object, y: object, text: str, dy: str = "0") -> Markup:
    return element("text", text, css, x=str(x), y=str(y), dy=dy)


def _cross(frame: _Frame, css: str, x: float, y: float) -> Markup:
    place = f"translate({frame.at_x(x)} {frame.at_y(y)})"
    return _path(f"cross {css}", "M-5-5L5 5M-5 5L5-5", transform=place)


def _triangle(frame: _Frame, css: str, x: float) -> Markup:
    place = f"translate({frame.at_x(x)} {_TOP})"
    return _path(f"overflow {css}", "M-4 5L0-3L4 5Z", transform=place)


def _n(number: float) -> str:
    """A coordinate with one decimal at most."""
    return f"{number:.1f}".removesuffix(".0")
