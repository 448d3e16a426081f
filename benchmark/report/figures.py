"""The report's figures, as SVG text that follows the page's colors in light, dark and print.

Drawn by hand and not with matplotlib: the classes below take their colours from the style sheet,
the text stays text, the same numbers give the same bytes under any version of any library, and a
figure is 5 kB. One unit is one CSS pixel at the figure's natural width.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from benchmark.evaluation.summary import CategorySummary, PanelSummary
from benchmark.stats.intervals import Interval, wilson
from benchmark.text import percent, visible
from tasks.texts import counted, cut

WIDTH = 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 10, 30, 40
_PLOT_HEIGHT = 150
_ROW = 24
_CHARACTER = 6.2  # mean width of a character of the tick labels
_LONGEST_LABEL = 24
_LONGEST_ABOVE = 44


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure and the table behind it.

    Attributes:
        title: What it shows.
        description: The same for those who cannot see it, with the main fact in words.
        caption: How to read it.
        svg: The drawing.
        columns: Headers of the table.
        rows: The table's cells.
    """

    title: str
    description: str
    caption: str
    svg: Markup
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class _Point:
    """A share with its interval; both ends equal the share where there is no interval."""

    label: str
    share: float
    low: float
    high: float
    note: str


def panel_figures(
    panel: PanelSummary, key: str, max_turns: int, repeats: int
) -> tuple[Figure, ...]:
    """The figures of one panel.

    Args:
        panel: Its numbers; at least one record.
        key: Prefix of the drawings' ids, unique within the page.
        max_turns: Turn limit of the panel.
        repeats: Plays of every episode.
    """
    return (
        success_figure(panel, f"{key}-success"),
        turns_figure(panel, f"{key}-turns", max_turns, repeats),
        invalid_figure(panel, f"{key}-invalid", max_turns, repeats),
    )


def success_figure(panel: PanelSummary, key: str) -> Figure:
    """Success of every category with its Wilson interval."""
    points = [
        _Point(
            category.category,
            category.success.value,
            category.success.low,
            category.success.high,
            f"{panel.category_name} {category.category}: {_with_interval(category)}",
        )
        for category in panel.categories
    ]
    title = f"Success by {panel.category_name}"
    best = max(panel.categories, key=lambda c: c.success.value)
    worst = min(panel.categories, key=lambda c: c.success.value)
    description = (
        f"Success of {len(points)} categories with 95 % Wilson intervals. Highest at "
        f"{best.category} with {percent(best.success.value)}, lowest at {worst.category} with "
        f"{percent(worst.success.value)}; all episodes {percent(panel.success.value)}."
    )
    if all(_is_number(point.label) for point in points):
        axes = _Axes(len(points), 1.0, _percent_ticks(1.0), "success (%)")
        marks = [axes.frame(), axes.category_ticks([p.label for p in points])]
        marks += [axes.reference(panel.success.value), *axes.points(points, range(len(points)))]
        marks.append(axes.x_label(panel.category_name))
        height = axes.height
    else:
        marks, height = _rows_plot(points, panel.success.value)
    return Figure(
        title=title,
        description=description,
        caption="Mean and 95 % Wilson interval; dashed: all episodes.",
        svg=_svg(key, title, description, height, marks),
        columns=(
            panel.category_name,
            "success",
            "95 % interval",
            *(f"pass@{passed.k}" for passed in panel.pass_at),
            "episodes",
        ),
        rows=tuple(
            (
                c.category,
                percent(c.success.value),
                f"{percent(c.success.low)} to {percent(c.success.high)}",
                *(_known(c.solved_in(passed.k)) for passed in panel.pass_at),
                str(c.success.episodes),
            )
            for c in panel.categories
        ),
    )


def turns_figure(panel: PanelSummary, key: str, max_turns: int, repeats: int) -> Figure:
    """Histogram of the number of turns, solved episodes below failed ones."""
    last = max([max_turns, *(turns for turns, _, _ in panel.turn_counts)])
    first = min([1, *(turns for turns, _, _ in panel.turn_counts)])
    width = math.ceil((last - first + 1) / 60)
    bins = [(start, min(start + width - 1, last)) for start in range(first, last + 1, width)]
    counts = [[0, 0] for _ in bins]
    for turns, solved, failed in panel.turn_counts:
        counts[(turns - first) // width][0] += solved
        counts[(turns - first) // width][1] += failed
    labels = [str(low) if low == high else f"{low}\u2013{high}" for low, high in bins]
    top, ticks = _count_ticks(max(map(sum, counts), default=0))
    what = "episodes" if repeats == 1 else "plays of episodes"
    axes = _Axes(len(bins), top, ticks, what)
    marks = [axes.frame(), axes.category_ticks(labels)]
    for index, (solved, failed) in enumerate(counts):
        note = f"{counted(labels[index], 'turn')}: {solved} solved, {failed} failed"
        marks.append(axes.stack(index, [("solved", solved), ("failed", failed)], note))
    marks += [
        axes.x_label("turns played"),
        axes.legend([("solved", "solved"), ("failed", "failed")]),
    ]
    solved_total = sum(solved for _, solved, _ in panel.turn_counts)
    failed_total = sum(failed for _, _, failed in panel.turn_counts)
    title = "Turns per episode"
    description = (
        f"Stacked histogram of the number of turns: {solved_total} solved and {failed_total} "
        f"failed {what}, {panel.turns:.1f} turns on average, limit {max_turns}."
    )
    return Figure(
        title=title,
        description=description,
        caption=f"Episodes end when solved or lost, at the latest after {max_turns} turns.",
        svg=_svg(key, title, description, axes.height, marks),
        columns=("turns", "solved", "failed"),
        rows=tuple(
            (label, str(solved), str(failed))
            for label, (solved, failed) in zip(labels, counts, strict=True)
            if solved or failed
        ),
    )


def invalid_figure(panel: PanelSummary, key: str, max_turns: int, repeats: int) -> Figure:
    """Share of responses with an invalid format or action, by turn number."""
    played = [(turn, total, bad) for turn, total, bad in panel.invalid_by_turn if total]
    intervals = [wilson(bad, total) for _, total, bad in played]
    if repeats > 1:  # plays of one episode are alike: an interval over responses would be too short
        intervals = [Interval(i.value, i.value, i.value) for i in intervals]
    points = [
        _Point(
            str(turn),
            interval.value,
            interval.low,
            interval.high,
            f"turn {turn}: {bad} of {total} responses invalid",
        )
        for (turn, total, bad), interval in zip(played, intervals, strict=True)
    ]
    last = max([max_turns, *(turn for turn, _, _ in played)])
    # Late turns have few responses: their wide intervals must not flatten the rest.
    highest = max((point.share for point in points), default=0.0)
    top = min(1.0, max(0.05, math.ceil(highest * 1.25 * 20) / 20))
    axes = _Axes(last, top, _percent_ticks(top), "invalid responses (%)")
    marks = [axes.frame(), axes.category_ticks([str(turn) for turn in range(1, last + 1)])]
    marks += axes.points(points, [turn - 1 for turn, _, _ in played])
    marks.append(axes.x_label("turn"))
    note = (
        "95 % Wilson intervals, cut at the axis"
        if repeats == 1
        else "shares of all episodes played"
    )
    bad_total, total = sum(bad for *_, bad in played), sum(total for _, total, _ in played)
    title = "Invalid responses by turn"
    description = (
        "Share of responses at each turn that have an invalid format or an invalid "
        f"action: {bad_total} of {total} over all turns."
    )
    return Figure(
        title=title,
        description=description,
        caption=f"{bad_total:,} of {total:,} responses; {note}.",
        svg=_svg(key, title, description, axes.height, marks),
        columns=("turn", "responses", "invalid", "share"),
        rows=tuple(
            (str(turn), str(total), str(bad), percent(bad / total)) for turn, total, bad in played
        ),
    )


def interval_figure(value: float, low: float, high: float, key: str) -> Markup:
    """A ruler from 0 to 100 % with the headline's value and interval on it."""
    width, left = 240, 8
    x = [left + (width - 2 * left) * share for share in (low, high, value)]
    ruler = left, width - left
    marks = [
        f'<line class="axis" x1="{ruler[0]}" x2="{ruler[1]}" y1="12" y2="12"/>',
        *(
            f'<line class="axis" x1="{_n(at)}" x2="{_n(at)}" y1="9" y2="15"/>'
            for at in (left + (width - 2 * left) * tenth / 4 for tenth in range(5))
        ),
        f'<rect class="band" x="{_n(x[0])}" y="7" width="{_n(x[1] - x[0])}" height="10" rx="2"/>',
        f'<circle class="dot" cx="{_n(x[2])}" cy="12" r="4"/>',
        f'<text x="{left}" y="30">0</text>',
        f'<text class="end" x="{width - left}" y="30">100 %</text>',
    ]
    description = f"{percent(value)}, interval {percent(low)} to {percent(high)}"
    return _svg(key, "Success on a scale from 0 to 100 %", description, 34, marks, width)


class _Axes:
    """A plot with equally wide slots along x and a linear y from 0.

    Args:
        slots: Number of slots along x.
        top: Upper end of y.
        ticks: Values and labels of the y axis.
        y_label: What y is, with its unit.
    """

    def __init__(
        self, slots: int, top: float, ticks: Sequence[tuple[float, str]], y_label: str
    ) -> None:
        self._slot = (WIDTH - _LEFT - _RIGHT) / max(slots, 1)
        self._top = top
        self._ticks = ticks
        self._y_label = y_label
        self.height = _TOP + _PLOT_HEIGHT + _BOTTOM

    def _x(self, slot: int) -> float:
        return _LEFT + self._slot * (slot + 0.5)

    def _y(self, value: float) -> float:
        return _TOP + _PLOT_HEIGHT * (1 - min(value, self._top) / self._top)

    def frame(self) -> str:
        """Grid lines, y labels and the baseline."""
        lines = []
        for value, label in self._ticks:
            y = _n(self._y(value))
            kind = "grid" if value else "axis"
            lines.append(
                f'<line class="{kind}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'
                f'<text class="end" x="{_LEFT - 6}" y="{y}" dy="0.35em">{label}</text>'
            )
        lines.append(f'<text class="label" x="4" y="14">{escape(self._y_label)}</text>')
        return "".join(lines)

    def category_ticks(self, labels: Sequence[str]) -> str:
        """Labels of the slots; as many as have room."""
        longest = max(map(len, labels), default=1)
        every = _round_step((longest + 1) * _CHARACTER / self._slot)
        y = _TOP + _PLOT_HEIGHT + 15
        if all(map(_is_number, labels)):
            shown = [i for i, label in enumerate(labels) if int(label) % every == 0]
        else:
            shown = list(range(0, len(labels), every))
        return "".join(
            f'<text class="mid" x="{_n(self._x(i))}" y="{y}">{_label(labels[i])}</text>'
            for i in shown
        )

    def x_label(self, text: str) -> str:
        """What x is."""
        x = _n((_LEFT + WIDTH - _RIGHT) / 2)
        return f'<text class="mid label" x="{x}" y="{self.height - 6}">{_label(text)}</text>'

    def reference(self, value: float) -> str:
        """A dashed line across the plot."""
        y = _n(self._y(value))
        return f'<line class="reference" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>'

    def points(self, points: Sequence[_Point], slots: Sequence[int]) -> Iterator[str]:
        """Dots with their intervals."""
        radius = _n(max(1.2, min(3.5, self._slot * 0.3)))
        for point, slot in zip(points, slots, strict=True):
            x = _n(self._x(slot))
            yield (
                f"<g><title>{visible(point.note, tag=False)}</title>"
                f'<line class="interval" x1="{x}" x2="{x}" y1="{_n(self._y(point.low))}" '
                f'y2="{_n(self._y(point.high))}"/>'
                f'<circle class="dot" cx="{x}" cy="{_n(self._y(point.share))}" r="{radius}"/></g>'
            )

    def stack(self, slot: int, parts: Sequence[tuple[str, int]], note: str) -> str:
        """Bars on top of each other, each with its class."""
        width = self._slot * 0.78
        x, base, bars = _n(self._x(slot) - width / 2), 0, []
        for kind, count in parts:
            if count:
                y = self._y(base + count)
                bars.append(
                    f'<rect class="{kind}" x="{x}" y="{_n(y)}" width="{_n(width)}" '
                    f'height="{_n(self._y(base) - y)}"/>'
                )
                base += count
        return f"<g><title>{escape(note)}</title>{''.join(bars)}</g>" if bars else ""

    def legend(self, entries: Sequence[tuple[str, str]]) -> str:
        """Names of the classes, at the top right."""
        parts, x = [], float(WIDTH - _RIGHT)
        for kind, name in reversed(entries):
            x -= len(name) * _CHARACTER
            parts.append(
                f'<rect class="{kind}" x="{_n(x - 14)}" y="5" width="10" height="10"/>'
                f'<text x="{_n(x)}" y="14">{escape(name)}</text>'
            )
            x -= 26
        return "".join(parts)


def _rows_plot(points: Sequence[_Point], reference: float) -> tuple[list[str], int]:
    """Dots with intervals on one row per category: names that are words need the room.

    Names that are too long to stand beside the rows stand above them.
    """
    longest = max(len(point.label) for point in points)
    above = longest > _LONGEST_LABEL
    left = 14 if above else 8 + longest * _CHARACTER
    height = _ROW * 1.7 if above else _ROW
    right, top = WIDTH - 18, 10
    bottom = round(top + height * len(points))

    def x(share: float) -> str:
        return _n(left + (right - left) * share)

    marks = []
    for share, label in _percent_ticks(1.0):
        kind = "grid" if share else "axis"
        marks.append(
            f'<line class="{kind}" x1="{x(share)}" x2="{x(share)}" y1="{top}" y2="{bottom}"/>'
            f'<text class="mid" x="{x(share)}" y="{bottom + 15}">{label}</text>'
        )
    marks.append(
        f'<line class="reference" x1="{x(reference)}" x2="{x(reference)}" '
        f'y1="{top}" y2="{bottom}"/>'
    )
    for index, point in enumerate(points):
        y = top + height * (index + (0.72 if above else 0.5))
        if above:
            place, limit = f'class="over" x="{_n(left + 4)}" y="{_n(y - 9)}"', _LONGEST_ABOVE
        else:
            place, limit = f'class="end" x="{_n(left - 6)}" y="{_n(y)}" dy="0.35em"', _LONGEST_LABEL
        label = f"<text {place}>{_label(point.label, limit)}</text>"
        marks.append(
            f"<g><title>{visible(point.note, tag=False)}</title>{label}"
            f'<line class="interval" x1="{x(point.low)}" x2="{x(point.high)}" '
            f'y1="{_n(y)}" y2="{_n(y)}"/>'
            f'<circle class="dot" cx="{x(point.share)}" cy="{_n(y)}" r="3.5"/></g>'
        )
    middle = _n((left + right) / 2)
    marks.append(f'<text class="mid label" x="{middle}" y="{bottom + 34}">success (%)</text>')
    return marks, bottom + 40


def _svg(
    key: str, title: str, description: str, height: int, marks: Sequence[str], width: int = WIDTH
) -> Markup:
    # Everything in `marks` was escaped where it was made.
    return Markup(  # noqa: S704
        f'<svg class="figure" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-labelledby="{key}-title {key}-description">'
        f'<title id="{key}-title">{visible(title, tag=False)}</title>'
        f'<desc id="{key}-description">{visible(description, tag=False)}</desc>'
        f"{''.join(marks)}</svg>"
    )


def _with_interval(category: CategorySummary) -> str:
    success = category.success
    return (
        f"{percent(success.value)} [{percent(success.low)}, {percent(success.high)}], "
        f"{success.episodes} episodes"
    )


def _known(rate: float | None) -> str:
    return "\u2013" if rate is None else percent(rate)


def _percent_ticks(top: float) -> list[tuple[float, str]]:
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.25) if top / s <= 5.5)
    count = math.floor(top / step + 1e-9)
    return [(i * step, str(round(i * step * 100))) for i in range(count + 1)]


def _count_ticks(highest: int) -> tuple[float, list[tuple[float, str]]]:
    """Upper end of an axis of counts, and its ticks at 1, 2 or 5 times a power of ten."""
    step = _round_step(highest / 4)
    top = max(step, math.ceil(highest / step) * step)
    return float(top), [(float(v), f"{v:,}") for v in range(0, top + 1, step)]


def _round_step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... that is not below `least`."""
    scale = 1
    while True:
        for factor in (1, 2, 5):
            if factor * scale >= least:
                return factor * scale
        scale *= 10


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _label(text: str, longest: int = _LONGEST_LABEL) -> Markup:
    return visible(cut(text, longest), tag=False)


def _n(number: float) -> str:
    """A coordinate: two decimals at most, always written the same way."""
    return f"{number:.2f}".rstrip("0").rstrip(".")
