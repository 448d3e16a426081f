"""The style of all figures: colors, lines, bands, axes.

Nothing depends on the clock, the machine's fonts, the user's settings or the display: the same data
give the same bytes with the same version of matplotlib.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    EngFormatter,
    FuncFormatter,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
    StrMethodFormatter,
)

from benchmark.logs.groups import Plotted, Series, Values, band_of
from benchmark.logs.metrics import Metric
from benchmark.plots.colors import HUES, is_known, look_of_recipe

Dashes = Literal["-"] | tuple[float, tuple[float, ...]]

_DASHES: tuple[Dashes, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.6, 1.2, 1.6)))
_INK, SOFT, _RULE = "#1c2128", "#59626e", "#e3e6ea"
_LOG_SPAN = 30.0
_ROUNDING = 1e-9
"""Values in nats up to this size are rounding errors and do not extend a logarithmic axis."""
_SUPERSCRIPTS = str.maketrans(
    "-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)
_STYLE: Final[Mapping[Any, Any]] = {
    "axes.edgecolor": "#9ea8b4",
    "axes.labelcolor": SOFT,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "grid.color": _RULE,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "savefig.facecolor": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "arlarena-bench",
    # A dollar sign in a name does not start a formula.
    "text.parse_math": False,
    "text.color": _INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
}


@dataclass(frozen=True, slots=True)
class Look:
    """How one curve is drawn."""

    color: str
    dashes: Dashes


@contextmanager
def plot_style() -> Iterator[None]:
    """Use only this project's settings, whatever the user's own are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def looks_of(recipes: Sequence[str | None]) -> list[Look]:
    """Styles of curves: those of their recipes, with dashes by order within a family.

    If these do not distinguish the curves (several of one recipe, recipes without a style of their
    own), styles are assigned by number: colors first, then dashes.

    Args:
        recipes: The recipe of each curve; None if its log does not name it.
    """
    looks: list[Look] = []
    for recipe in recipes:
        if recipe is None or not is_known(recipe):
            break
        hue, variant = look_of_recipe(recipe)
        dashed = sum(look.color == HUES[hue] and look.dashes != "-" for look in looks)
        dashes = _DASHES[1 + dashed % (len(_DASHES) - 1)] if variant else "-"
        looks.append(Look(HUES[hue], dashes))
    if len(set(looks)) == len(recipes):
        return looks
    return [_look_of_number(number) for number in range(len(recipes))]


def _look_of_number(number: int) -> Look:
    cycle, color = divmod(number, len(HUES))
    return Look(HUES[color], _DASHES[cycle % len(_DASHES)])


def draw_runs(axes: Axes, runs: Sequence[Series], look: Look, *, alone_width: float = 1.7) -> None:
    """Draw the runs of one curve; several as thin lines, with their median and band.

    Args:
        axes: The axes to draw on.
        runs: At least one.
        look: Style of the curve.
        alone_width: Line width of a single run, in points.
    """
    alone = len(runs) == 1
    for run in runs:
        axes.plot(
            run.x,
            run.y,
            color=look.color,
            linestyle=look.dashes if alone else "-",
            linewidth=alone_width if alone else 0.6,
            alpha=1.0 if alone else 0.5,
            marker="o" if run.x.size == 1 else "",
            markersize=4,
            zorder=3,
        )
    if alone or (band := band_of(runs)) is None:
        return
    axes.fill_between(
        band.x, band.low, band.high, color=look.color, alpha=0.14, linewidth=0, zorder=2
    )
    axes.plot(band.x, band.middle, color=look.color, linestyle=look.dashes, linewidth=1.9, zorder=4)


def mark_collapse(axes: Axes, run: Series, update: int | None, look: Look) -> None:
    """Draw a cross on the run's line, at the last value up to the collapse."""
    if update is None:
        return
    at = int(np.searchsorted(run.updates, update, side="right")) - 1
    if at >= 0:
        axes.plot(
            run.x[at],
            run.y[at],
            marker="X",
            markersize=7.5,
            markerfacecolor=look.color,
            markeredgecolor="white",
            markeredgewidth=0.9,
            zorder=6,
            clip_on=False,
        )


def style_axes(axes: Axes, what: Plotted, measured: Sequence[Series]) -> None:
    """Set titles, scales and ticks."""
    metric = what.metric
    panel = f"{what.task}/{what.panel}" if what.task else what.panel
    several = f" ({panel})" if panel else ""
    axes.set_title(what.name + several, loc="left", fontsize=9.5, fontweight="bold", pad=17)
    unit = "" if metric.unit in ("share", "count", "loss") else f" ({metric.unit})"
    text = axes.text(
        0, 1.045, metric.text + unit, transform=axes.transAxes, fontsize=7.6, color=SOFT
    )
    text.set_in_layout(False)  # it may be wider than the plot
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    values = np.concatenate([run.y for run in measured])
    if not values.size:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=SOFT)
        return
    _scale(axes, metric, values)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    if max(run.x[-1] for run in measured if run.x.size) >= 10_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _scale(axes: Axes, metric: Metric, values: Values) -> None:
    """Show shares as percentages from 0, and magnitudes on a log scale if they span decades."""
    # The log-probabilities of an untrained policy differ from its init's by rounding errors.
    positive = values[values > (_ROUNDING if metric.unit == "nats" else 0)]
    axes.yaxis.set_major_locator(MaxNLocator(5))
    if metric.unit == "share":
        low, high = float(values.min()), float(values.max())
        axes.set_ylim(min(low, 0.0) - 0.02, max(high * 1.06, 0.05))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    elif metric.log_scale and positive.size and positive.max() > _LOG_SPAN * positive.min():
        if positive.size == values.size:
            axes.set_yscale("log")
        else:  # a measured 0, or a value that is practically 0, is drawn, too
            axes.set_yscale("symlog", linthresh=float(positive.min()))
        axes.yaxis.set_major_formatter(FuncFormatter(_power))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        # On every tick: a common factor above the axis would overlap the subtitle.
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:.3g}"))
        if not metric.signed:
            axes.set_ylim(bottom=0)


def _power(value: float, _: int | None = None) -> str:
    """Format a power of ten; matplotlib's own formatters write it as a formula."""
    if value == 0:
        return "0"
    exponent = round(math.log10(abs(value)))
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def legend_columns(labels: Sequence[str], width: float) -> int:
    """The most columns that fit into a width in inches; labels run down, then to the right."""
    for rows in range(1, len(labels)):
        parts = [labels[start : start + rows] for start in range(0, len(labels), rows)]
        if sum(0.65 + 0.077 * max(map(len, part)) for part in parts) < width:
            return len(parts)
    return 1
