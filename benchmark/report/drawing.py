"""Plots of the report, drawn by matplotlib at the size of CSS pixels in the colors of the page."""

from collections.abc import Sequence
from typing import Any, Final, Literal

from markupsafe import Markup
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

from benchmark.plots.inline import inline_svg
from tasks.texts import cut, printable

WIDTH: Final = 360
"""Width of a figure, in CSS pixels."""
COLORS: Final = {
    "solved": "#2a64a5",
    "failed": "#dd8f4a",
    "ink": "#1c2128",
    "soft": "#59626e",
    "rule": "#d9dde3",
    "page": "#ffffff",
}
"""Variables of report.css and their values on a light page."""
SOLVED, FAILED, INK, SOFT, RULE, PAGE = COLORS.values()
_VARIABLES: Final = {color: f"var(--{name})" for name, color in COLORS.items()}
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 10, 30, 40
_PLOT_HEIGHT = 150
_ROW, _ROWS_TOP, _ROWS_RIGHT = 24, 10, 18
_FONT = 11
_CHARACTER = 6.2  # mean width of a character of the tick labels
_LONGEST_LABEL = 24
_LONGEST_ABOVE = 44
_REFERENCE: Final[dict[str, Any]] = {
    "color": SOFT, "linewidth": 1, "linestyle": (0, (4, 3)), "zorder": 2,
}  # fmt: skip


class Plot:
    """A figure with one plot, made under `plot_style`.

    Args:
        key: Prefix of the ids in the drawing, unique within the page.
        height: Height of the whole figure, in CSS pixels, which equal matplotlib's points here.
        margins: Space at the left, right, top and bottom of the plot, in CSS pixels.
        width: Width of the whole figure, in CSS pixels.

    Attributes:
        axes: The axes to draw on.
    """

    def __init__(
        self, key: str, height: int, margins: tuple[float, float, float, float], width: int = WIDTH
    ) -> None:
        self._key = key
        self._size = width, height
        self._notes: dict[str, str] = {}
        left, right, top, bottom = margins
        inside = (width - left - right) / width, (height - top - bottom) / height
        self._figure = Figure(figsize=(width / 72, height / 72), dpi=72)
        self._figure.patch.set_visible(False)
        self.axes = self._figure.add_axes((left / width, bottom / height, *inside))
        self.axes.patch.set_visible(False)
        self.axes.set_axisbelow(True)
        self.axes.tick_params(length=0, pad=6, labelsize=_FONT, labelcolor=SOFT)
        self.axes.spines[:].set_visible(False)

    def text(self, x: float, y: float, words: str, color: str = SOFT, align: str = "left") -> Text:
        """Draw text at an offset from the figure's upper left corner."""
        width, height = self._size
        place = x / width, 1 - y / height
        return self._figure.text(*place, words, color=color, size=_FONT, ha=align, va="baseline")

    def note(self, words: str) -> str:
        """Register a tooltip, and return the `gid` for its artist."""
        self._notes[name := f"{self._key}-{len(self._notes)}"] = words
        return name

    def dot(
        self, x: Sequence[float], y: Sequence[float], note: str | None, radius: float = 3.5
    ) -> None:
        """Draw a dot on its interval.

        Args:
            x: x of the interval's lower end, the dot and the upper end.
            y: y of the same three.
            note: Tooltip.
            radius: Radius of the dot.
        """
        self.axes.plot(
            x,
            y,
            color=SOLVED,
            linewidth=1.5,
            solid_capstyle="butt",
            marker="o",
            markevery=[1],
            markersize=2 * radius,
            markeredgecolor=PAGE,
            markeredgewidth=0.75,
            gid=None if note is None else self.note(note),
            clip_on=False,
            zorder=3,
        )

    def grid(self, axis: Axis, start: Literal["bottom", "left"]) -> None:
        """Draw lines at the ticks of an axis, with a stronger line where it starts."""
        axis.grid(visible=True, color=RULE, linewidth=0.75)
        self.axes.spines[start].set(visible=True, color=SOFT, linewidth=1)

    def svg(self, title: str, description: str) -> Markup:
        """The drawing as an SVG element."""
        return inline_svg(self._figure, self._key, title, description, self._notes, _VARIABLES)


class SlotsPlot(Plot):
    """A plot with slots of equal width along x, and a y axis from 0.

    Args:
        key: Prefix of the ids in the drawing.
        labels: Labels of the slots; shown as far as they fit.
        x_label: What the slots are.
        y_label: What y is, with its unit.
    """

    def __init__(self, key: str, labels: Sequence[str], x_label: str, y_label: str) -> None:
        height = _TOP + _PLOT_HEIGHT + _BOTTOM
        super().__init__(key, height, (_LEFT, _RIGHT, _TOP, _BOTTOM))
        self._slot = (WIDTH - _LEFT - _RIGHT) / max(len(labels), 1)
        self.axes.set_xlim(-0.5, max(len(labels), 1) - 0.5)
        every = _round_step((max(map(len, labels), default=1) + 1) * _CHARACTER / self._slot)
        if all(map(is_number, labels)):
            shown = [i for i, label in enumerate(labels) if int(label) % every == 0]
        else:
            shown = list(range(0, len(labels), every))
        self.axes.set_xticks(shown, [_label(labels[i]) for i in shown])
        self.grid(self.axes.yaxis, "bottom")
        self.text(4, 14, y_label, INK)
        self.text((_LEFT + WIDTH - _RIGHT) / 2, height - 6, _label(x_label), INK, "center")

    def share_axis(self, top: float) -> None:
        """Make y a share, shown in percent, up to `top`."""
        self.axes.set_ylim(0, top)
        _in_percent(self.axes.yaxis)

    def count_axis(self, highest: int) -> None:
        """Make y a count, up to the first tick at or above `highest`."""
        ticks = MaxNLocator(4, integer=True, steps=[1, 2, 5, 10])
        self.axes.set_ylim(0, ticks.tick_values(0, max(highest, 1))[-1])
        self.axes.yaxis.set_major_locator(ticks)
        self.axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))

    def reference(self, value: float) -> None:
        """Draw a dashed line at a value of y."""
        self.axes.axhline(value, **_REFERENCE)

    def point(self, slot: int, ends: tuple[float, float, float], note: str) -> None:
        """Draw a dot with its interval (lower end, value, upper end), cut at the top of y."""
        top = self.axes.get_ylim()[1]
        radius = max(1.2, min(3.5, self._slot * 0.3))
        self.dot((slot,) * 3, [min(end, top) for end in ends], note, radius)

    def bars(self, slot: int, parts: Sequence[tuple[int, str]], note: str) -> None:
        """Draw stacked bars, given the height and color of each."""
        base = 0
        for count, color in parts:
            if count:
                gid = self.note(note)
                self.axes.bar(slot, count, 0.78, base, color=color, gid=gid, zorder=2)
            base += count

    def legend(self, entries: Sequence[tuple[str, str]]) -> None:
        """Draw a legend of bar names and colors at the top right."""
        patches = [Patch(facecolor=color, label=name) for name, color in entries]
        self._figure.legend(
            handles=patches,
            loc="upper right",
            bbox_to_anchor=(1 - _RIGHT / WIDTH, 1),
            ncols=len(entries),
            fontsize=_FONT,
            labelcolor=SOFT,
            handlelength=0.9,
            handleheight=0.9,
            handletextpad=0.4,
            columnspacing=1.2,
            borderaxespad=0,
            borderpad=0.3,
            frameon=False,
        )


class RowsPlot(Plot):
    """A plot with one row per name and a share, from 0 to 1, along x.

    Names that are too long to fit beside the rows are written above them.

    Args:
        key: Prefix of the ids in the drawing.
        labels: Names of the rows.
        x_label: What the share is.
    """

    def __init__(self, key: str, labels: Sequence[str], x_label: str) -> None:
        longest = max(map(len, labels))
        above = longest > _LONGEST_LABEL
        left = 14 if above else 8 + longest * _CHARACTER
        row = _ROW * 1.7 if above else _ROW
        bottom = _ROWS_TOP + round(row * len(labels))
        super().__init__(key, bottom + _BOTTOM, (left, _ROWS_RIGHT, _ROWS_TOP, _BOTTOM))
        self._places = [row * (index + (0.72 if above else 0.5)) for index in range(len(labels))]
        self.axes.set(xlim=(0, 1), ylim=(bottom - _ROWS_TOP, 0))
        _in_percent(self.axes.xaxis)
        self.grid(self.axes.xaxis, "left")
        if above:
            self.axes.set_yticks([])
            for place, label in zip(self._places, labels, strict=True):
                name = self.text(left + 4, _ROWS_TOP + place - 9, _label(label, _LONGEST_ABOVE))
                name.set_bbox({"facecolor": PAGE, "linewidth": 0, "pad": 0})
        else:
            self.axes.set_yticks(self._places, [_label(label) for label in labels])
        self.text((left + WIDTH - _ROWS_RIGHT) / 2, bottom + 34, x_label, INK, "center")

    def reference(self, value: float) -> None:
        """Draw a dashed line at a share."""
        self.axes.axvline(value, **_REFERENCE)

    def point(self, row: int, ends: tuple[float, float, float], note: str) -> None:
        """Draw a dot with its interval: lower end, value, upper end."""
        self.dot(ends, (self._places[row],) * 3, note)


def ruler(key: str, ends: tuple[float, float, float]) -> Plot:
    """Draw a share with its interval (lower end, value, upper end) on a line from 0 to 100%."""
    plot = Plot(key, 34, (8, 8, 0, 10), width=240)
    low, value, high = ends
    plot.axes.set(xlim=(0, 1), ylim=(24, 0), xticks=[], yticks=[])
    plot.axes.hlines(12, 0, 1, color=SOFT, linewidth=1, clip_on=False)
    plot.axes.vlines([0, 0.25, 0.5, 0.75, 1], 9, 15, color=SOFT, linewidth=1, clip_on=False)
    plot.axes.barh(12, high - low, 10, low, color=SOLVED, alpha=0.35, clip_on=False)
    plot.dot((value,) * 3, (12,) * 3, None, radius=4)
    plot.text(8, 30, "0")
    plot.text(232, 30, "100%", align="right")
    return plot


def is_number(text: str) -> bool:
    """Whether a label consists of ASCII digits."""
    return text.isascii() and text.isdigit()


def _in_percent(axis: Axis) -> None:
    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axis.set_major_formatter(PercentFormatter(1.0, decimals=0, symbol=""))


def _round_step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... that is at least `least`."""
    scale = 1
    while True:
        for factor in (1, 2, 5):
            if factor * scale >= least:
                return factor * scale
        scale *= 10


def _label(text: str, longest: int = _LONGEST_LABEL) -> str:
    return printable(cut(text, longest))
