"""Curves of training runs as one figure: small plots side by side, seeds as bands.

The same logs give the same bytes with the same version of matplotlib: nothing depends on the
clock, on fonts of the machine or on the display.
"""

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import (
    EngFormatter,
    FuncFormatter,
    MaxNLocator,
    NullFormatter,
    PercentFormatter,
    StrMethodFormatter,
)

from benchmark.training_curves import (
    Curve,
    Plotted,
    Series,
    Values,
    XAxis,
    band_of,
    collapse_update,
    printable,
    series_of,
)
from benchmark.training_metrics import Metric

ImageFormat = Literal["svg", "png", "pdf"]
Dashes = Literal["-"] | tuple[float, tuple[float, ...]]

DEFAULT_METRICS: Final = (
    "validation/success",
    "rollout/success",
    "rollout/format_ok",
    "policy/entropy",
    "kl_old/clipped_mean",
    "kl_init/clipped_mean",
    "policy/grad_norm",
    "engine/k3",
)

# Okabe and Ito (2008), "Color Universal Design", without the yellow that white swallows; told apart
# with every kind of colour blindness. More curves take other dashes.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#4D4D4D")
_DASHES: tuple[Dashes, ...] = ("-", (0, (5, 1.6)), (0, (1.2, 1.2)), (0, (6, 1.6, 1.2, 1.6)))
_INK, _SOFT, _RULE = "#1c2128", "#59626e", "#e3e6ea"
_LOG_SPAN = 30.0
_ROUNDING = 1e-9
"""Nats that no logarithmic axis reaches down to."""
_SUPERSCRIPTS = str.maketrans(
    "-0123456789", "\u207b\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079"
)
_STYLE: Final[Mapping[Any, Any]] = {
    "axes.edgecolor": "#9ea8b4",
    "axes.labelcolor": _SOFT,
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
    # A name with a dollar sign is a name and no formula.
    "text.parse_math": False,
    "text.color": _INK,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "ytick.minor.size": 0,
}


@dataclass(frozen=True, slots=True)
class _Look:
    colour: str
    dashes: Dashes


def figure_bytes(
    curves: Sequence[Curve],
    plots: Sequence[Plotted],
    x: XAxis = "updates",
    image_format: ImageFormat = "svg",
) -> bytes:
    """Draw a figure.

    A curve with several seeds is the median of its runs, with a band from the lowest to the
    highest where all of them have values, and a thin line for every run. A cross marks where a run
    collapsed (`collapse_step`). Numbers in nats that are no larger than 1e-9, which is rounding,
    stand at the foot of a logarithmic axis beside 0 and do not stretch it.

    Args:
        curves: What is compared; at least one.
        plots: What is drawn of each; at least one.
        x: What the runs are laid along.
        image_format: How the figure is stored.

    Returns:
        The content of the file.

    Raises:
        UserError: A log lacks what the x axis needs.
    """
    with _style():
        figure = _figure(curves, plots, x)
        metadata = {
            "svg": {"Date": None, "Creator": "arlarena-bench"},
            "pdf": {"CreationDate": None, "Creator": "arlarena-bench", "Producer": None},
            "png": {"Software": "arlarena-bench"},
        }
        file = io.BytesIO()
        figure.savefig(file, format=image_format, metadata=metadata[image_format], dpi=160)
    return file.getvalue()


@contextmanager
def _style() -> Iterator[None]:
    """The settings of this module alone, whatever the user's own are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def _figure(curves: Sequence[Curve], plots: Sequence[Plotted], x: XAxis) -> Figure:
    columns, (width, height) = _grid(len(plots))
    rows = -(-len(plots) // columns)
    figure = Figure(
        figsize=(width * columns, height * rows + 1.1),
        layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08, hspace=0.06),
    )
    FigureCanvasAgg(figure)
    looks = [_look(number) for number in range(len(curves))]
    series = [[[series_of(run, what, x) for run in c.runs] for c in curves] for what in plots]
    ends = [s.x[-1] for of in series for runs in of for s in runs if s.x.size]
    last = max(ends, default=0.0) or 1.0
    for number, (what, runs_of) in enumerate(zip(plots, series, strict=True)):
        axes = figure.add_subplot(rows, columns, number + 1)
        for curve, look, runs in zip(curves, looks, runs_of, strict=True):
            _draw_runs(axes, runs, look)
            for log, run in zip(curve.runs, runs, strict=True):
                _mark_collapse(axes, run, collapse_update(log, what.panel), look)
        _dress(axes, what, [run for runs in runs_of for run in runs])
        axes.set_xlim(-0.015 * last, 1.015 * last)
        if number + columns >= len(plots):
            axes.set_xlabel(_x_label(x))
    starts = [run.start for curve in curves for run in curve.runs]
    tasks = dict.fromkeys(start.task for start in starts)
    inits = dict.fromkeys(printable(start.init.name) for start in starts)
    title = f"Training on {', '.join(tasks)} from {', '.join(inits)}"
    figure.suptitle(title, x=0.012, ha="left", fontsize=12, fontweight="bold")
    _legend(figure, curves, looks)
    return figure


def _draw_runs(axes: Axes, runs: Sequence[Series], look: _Look) -> None:
    """The runs of one curve; several as thin lines, with their median and band."""
    alone = len(runs) == 1
    for run in runs:
        axes.plot(
            run.x,
            run.y,
            color=look.colour,
            linestyle=look.dashes if alone else "-",
            linewidth=1.7 if alone else 0.6,
            alpha=1.0 if alone else 0.5,
            marker="o" if run.x.size == 1 else "",
            markersize=4,
            zorder=3,
        )
    if alone or (band := band_of(runs)) is None:
        return
    axes.fill_between(
        band.x, band.low, band.high, color=look.colour, alpha=0.14, linewidth=0, zorder=2
    )
    axes.plot(
        band.x, band.middle, color=look.colour, linestyle=look.dashes, linewidth=1.9, zorder=4
    )


def _mark_collapse(axes: Axes, run: Series, update: int | None, look: _Look) -> None:
    """A cross on the run's own line, at the last value up to the collapse."""
    if update is None:
        return
    at = int(np.searchsorted(run.updates, update, side="right")) - 1
    if at >= 0:
        axes.plot(
            run.x[at],
            run.y[at],
            marker="X",
            markersize=7.5,
            markerfacecolor=look.colour,
            markeredgecolor="white",
            markeredgewidth=0.9,
            zorder=6,
            clip_on=False,
        )


def _dress(axes: Axes, what: Plotted, measured: Sequence[Series]) -> None:
    """Titles, scales and ticks."""
    metric = what.metric
    panel = f"{what.task}/{what.panel}" if what.task else what.panel
    several = f" ({panel})" if panel else ""
    axes.set_title(what.name + several, loc="left", fontsize=9.5, fontweight="bold", pad=17)
    unit = "" if metric.unit in ("share", "count", "loss") else f" ({metric.unit})"
    text = axes.text(
        0, 1.045, metric.text + unit, transform=axes.transAxes, fontsize=7.6, color=_SOFT
    )
    text.set_in_layout(False)  # it may be wider than the plot
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    values = np.concatenate([run.y for run in measured])
    if not values.size:
        axes.set_yticks([])
        axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=_SOFT)
        return
    _scale(axes, metric, values)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))
    if max(run.x[-1] for run in measured if run.x.size) >= 10_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))


def _scale(axes: Axes, metric: Metric, values: Values) -> None:
    """Shares as percentages from 0; magnitudes over decades, if that is what they span."""
    # A policy that is still its init is away from it by the rounding of its log-probabilities.
    positive = values[values > (_ROUNDING if metric.unit == "nats" else 0)]
    axes.yaxis.set_major_locator(MaxNLocator(5))
    if metric.unit == "share":
        low, high = float(values.min()), float(values.max())
        axes.set_ylim(min(low, 0.0) - 0.02, max(high * 1.06, 0.05))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    elif metric.log_scale and positive.size and positive.max() > _LOG_SPAN * positive.min():
        if positive.size == values.size:
            axes.set_yscale("log")
        else:  # a measured 0 belongs into the plot, too, and so does what is as good as 0
            axes.set_yscale("symlog", linthresh=float(positive.min()))
        axes.yaxis.set_major_formatter(FuncFormatter(_power))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        # On every tick: a common factor above the axis would stand in the subtitle.
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:.3g}"))
        if not metric.signed:
            axes.set_ylim(bottom=0)


def _power(value: float, _: int | None = None) -> str:
    """A power of ten; the formatters of matplotlib write it as a formula."""
    if value == 0:
        return "0"
    exponent = round(math.log10(abs(value)))
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def _legend(figure: Figure, curves: Sequence[Curve], looks: Sequence[_Look]) -> None:
    handles: list[Any] = []
    labels = []
    for curve, look in zip(curves, looks, strict=True):
        line = Line2D([], [], color=look.colour, linestyle=look.dashes, linewidth=2.2)
        band = Patch(facecolor=look.colour, alpha=0.18, linewidth=0)
        handles.append((band, line) if len(curve.runs) > 1 else line)
        labels.append(_legend_label(curve))
    if any(collapse_update(run) is not None for curve in curves for run in curve.runs):
        handles.append(
            Line2D([], [], color=_SOFT, marker="X", markersize=7.5, linestyle="", mec="white")
        )
        labels.append("collapse of a run")
    legend = figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=_legend_columns(labels, figure.get_figwidth()),
        fontsize=9,
        handlelength=2.4,
        columnspacing=1.8,
        alignment="left",
    )
    if any(len(curve.runs) > 1 for curve in curves):
        note = "Bold: median of the seeds. Band: lowest to highest, as far as all go. Thin: a run."
        legend.set_title(note)
        legend.get_title().set(color=_SOFT, fontsize=8)


def _legend_columns(labels: Sequence[str], width: float) -> int:
    """The most columns that fit a width in inches; labels run down, then to the right."""
    for rows in range(1, len(labels)):
        parts = [labels[start : start + rows] for start in range(0, len(labels), rows)]
        if sum(0.65 + 0.077 * max(map(len, part)) for part in parts) < width:
            return len(parts)
    return 1


def _legend_label(curve: Curve) -> str:
    if len(curve.runs) == 1:
        return printable(curve.label)
    collapsed = sum(collapse_update(run) is not None for run in curve.runs)
    note = f", {collapsed} collapsed" if collapsed else ""
    return f"{printable(curve.label)} ({len(curve.runs)} seeds{note})"


def _look(number: int) -> _Look:
    cycle, colour = divmod(number, len(_COLOURS))
    return _Look(_COLOURS[colour], _DASHES[cycle % len(_DASHES)])


def _grid(plots: int) -> tuple[int, tuple[float, float]]:
    """Columns of the figure, and width and height of a plot in inches."""
    columns = plots if plots <= 3 else {4: 2, 5: 3, 6: 3, 9: 3}.get(plots, 4)
    return columns, {1: (6.4, 3.2), 2: (4.4, 2.7)}.get(columns, (3.4, 2.3))


def _x_label(x: XAxis) -> str:
    return {"updates": "update", "tokens": "response tokens", "seconds": "compute (s)"}[x]
