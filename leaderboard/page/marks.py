"""Small graphics in table rows: an interval with its seeds, a curve, a chip.

Figures are drawn by Vega-Lite (`leaderboard.page.charts`). A page has hundreds of these graphics,
so each consists of a few SVG elements, in the colors of the style sheet.
"""

from collections.abc import Sequence
from typing import Final

from markupsafe import Markup

from benchmark.plots.colors import look_of_recipe
from benchmark.stats.formatting import whole_percent
from leaderboard.board.training_rows import Spark
from leaderboard.page.markup import NOTHING, element, joined
from leaderboard.table import cells

_WIDTH: Final = 130
_HEIGHT: Final = 18
_SPARK: Final = (84, 22)
_FEWEST_SEEDS: Final = 3
"""Minimum number of seeds without a collapse to show as good."""


def interval_bar(
    low: float, high: float, value: float, seeds: Sequence[float], init: float | None
) -> Markup:
    """Draw a success rate on a line from 0 to 100%: interval, seeds as dots, the init as a tick.

    Args:
        low: Lower end of the interval; all values are shares.
        high: Upper end.
        value: The rate.
        seeds: The rate of each seed; drawn if there are several.
        init: The rate before training; None if nothing was trained or it is unknown.
    """

    def at(share: float) -> str:
        return f"{3 + (_WIDTH - 6) * share:.1f}"

    middle = f"{_HEIGHT / 2:g}"
    parts = [element("path", "", "ci", d=f"M{at(low)} {middle}H{at(high)}")]
    said = f"{cells.percent(value)}%, 95% interval {cells.percent(low)} to {cells.percent(high)}"
    if init is not None:
        parts.append(element("path", "", "init", d=f"M{at(init)} 2V16"))
        said += f"; before training {cells.percent(init)}"
    dots = seeds if len(seeds) > 1 else []
    if dots:
        # Lines of length zero with round ends.
        d = "".join(f"M{at(seed)} {middle}h0" for seed in dots)
        parts.append(element("path", "", "seed", d=d))
        said += f"; seeds {', '.join(map(cells.percent, dots))}"
    parts.append(element("path", "", "mean", d=f"M{at(value)} {middle}h0"))
    return _svg(said, parts, "lb-bar", _WIDTH, _HEIGHT)


def sparkline(sparks: Sequence[Spark], recipe: str) -> Markup:
    """Draw success over the updates of every seed, with a cross at each collapse."""
    if not any(spark.steps for spark in sparks):
        return NOTHING
    width, height = _SPARK
    last = max([1, *(spark.steps[-1] for spark in sparks if spark.steps)])
    top = max([0.05, *(value for spark in sparks for value in spark.values)])

    def at(step: int, value: float) -> tuple[float, float]:
        return 4 + (width - 8) * step / last, height - 4 - (height - 8) * value / top

    parts, said = [], []
    for spark in sparks:
        points = [at(*pair) for pair in zip(spark.steps, spark.values, strict=True)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(element("polyline", "", "run", points=line))
        if not spark.values:
            continue
        ends = f"{cells.percent(spark.values[0])} to {cells.percent(spark.values[-1])}%"
        if spark.collapse is not None:
            value = min(zip(spark.steps, spark.values, strict=True),
                        key=lambda pair: abs(pair[0] - (spark.collapse or 0)))  # fmt: skip
            x, y = at(*value)
            d = f"M{x - 3:.1f} {y - 3:.1f}l6 6m0-6l-6 6"
            parts.append(element("path", "", "cross", d=d))
            ends += f", collapsed at update {spark.collapse}"
        said.append(f"seed {spark.seed}: {ends}")
    hue, _ = look_of_recipe(recipe)
    return _svg("; ".join(said), parts, f"lb-spark lb-c{hue}", width, height)


def below_init_chip(success: float, init: float | None) -> Markup:
    """A chip if training made success worse; empty if it did not, or if that is unknown."""
    worse = init is not None and success < init
    return element("span", "below init", "lb-chip lb-bad") if worse else NOTHING


def collapsed_text(
    happened: int, known: int, unknown: int = 0, halved: int = 0, of: str = "/"
) -> str:
    """How many seeds collapsed, are unknown, and ended at half of their best or below."""
    others = (
        f", {count} {word}" for count, word in ((unknown, "unknown"), (halved, "halved")) if count
    )
    return f"{happened}{of}{known + unknown} collapsed{''.join(others)}"


def collapse_chip(
    happened: int,
    known: int,
    ends: tuple[float, float],
    step: int | None,
    unknown: int = 0,
    halved: int = 0,
) -> Markup:
    """A chip on how many seeds collapsed or halved, with the first collapse and the interval.

    With fewer than three seeds, no collapse is not yet good news and gets no color.

    Args:
        happened: Seeds that collapsed.
        known: Seeds whose logs contain enough to decide.
        ends: Interval of the share that collapsed; hidden if there are unknown seeds, see
            `Line.unknown`.
        step: The update of the first collapse; None without one.
        unknown: Seeds whose logs do not contain enough to decide.
        halved: Other seeds that ended at half of their best or below.
    """
    good = known >= _FEWEST_SEEDS
    state = " lb-bad" if happened or halved else " lb-good" if good else ""
    chip = element("span", collapsed_text(happened, known, unknown, halved), f"lb-chip{state}")
    share = f"95% CI {whole_percent(ends[0])}\u2013{whole_percent(ends[1])}%"
    said = [] if unknown else [element("span", share, "lb-sub")]
    if step is not None and happened:
        said.insert(0, element("span", f"first at update {step:,}", "lb-sub"))
    return element("div", joined([chip, *said]))


def _svg(said: str, parts: Sequence[Markup], css: str, width: int, height: int) -> Markup:
    return element(
        "svg", element("title", said) + joined(parts), css, role="img",
        viewBox=f"0 0 {width} {height}", width=str(width), height=str(height),
    )  # fmt: skip
