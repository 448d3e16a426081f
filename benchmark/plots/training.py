"""Draws curves of training runs as one figure: small panels side by side, bands over seeds.

The same logs give the same bytes with the same version of matplotlib.
"""

import io
from collections.abc import Sequence
from typing import Any, Final, Literal

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from benchmark.logs.curves import run_curves_of
from benchmark.logs.groups import Curve, Plotted, XAxis, series_of
from benchmark.plots.style import (
    SOFT,
    Look,
    draw_runs,
    legend_columns,
    looks_of,
    mark_collapse,
    plot_style,
    style_axes,
)
from benchmark.stability.collapse import halved_on
from benchmark.stability.definitions import DEFINITIONS
from benchmark.stability.run_end import collapsed_at
from tasks.texts import printable

ImageFormat = Literal["svg", "png", "pdf"]

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


def figure_bytes(
    curves: Sequence[Curve],
    plots: Sequence[Plotted],
    x: XAxis = "updates",
    image_format: ImageFormat = "svg",
) -> bytes:
    """Draw a figure.

    A curve with several seeds is the median of its runs, with a band from the lowest to the highest
    where all of them have values, and a thin line for every run. A cross marks the collapse of a
    run (`collapse_step`). Values in nats up to 1e-9, which are rounding errors, are drawn with 0 at
    the foot of a logarithmic axis and do not extend it.

    Args:
        curves: The compared curves; at least one.
        plots: The metrics to draw; at least one.
        x: The x axis.
        image_format: File format of the figure.

    Returns:
        The content of the file.

    Raises:
        UserError: A log lacks the data for the x axis.
    """
    with plot_style():
        figure = _figure(curves, plots, x)
        metadata = {
            "svg": {"Date": None, "Creator": "arlarena-bench"},
            "pdf": {"CreationDate": None, "Creator": "arlarena-bench", "Producer": None},
            "png": {"Software": "arlarena-bench"},
        }
        file = io.BytesIO()
        figure.savefig(file, format=image_format, metadata=metadata[image_format], dpi=160)
    return file.getvalue()


def _figure(curves: Sequence[Curve], plots: Sequence[Plotted], x: XAxis) -> Figure:
    columns, (width, height) = _grid(len(plots))
    rows = -(-len(plots) // columns)
    figure = Figure(
        figsize=(width * columns, height * rows + 1.1),
        layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08, hspace=0.06),
    )
    FigureCanvasAgg(figure)
    looks = looks_of([curve.runs[0].start.recipe for curve in curves])
    series = [[[series_of(run, what, x) for run in c.runs] for c in curves] for what in plots]
    ends = [s.x[-1] for of in series for runs in of for s in runs if s.x.size]
    last = max(ends, default=0.0) or 1.0
    for number, (what, runs_of) in enumerate(zip(plots, series, strict=True)):
        axes = figure.add_subplot(rows, columns, number + 1)
        for curve, look, runs in zip(curves, looks, runs_of, strict=True):
            draw_runs(axes, runs, look)
            for log, run in zip(curve.runs, runs, strict=True):
                mark_collapse(axes, run, collapsed_at(log, what.panel), look)
        style_axes(axes, what, [run for runs in runs_of for run in runs])
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


def _legend(figure: Figure, curves: Sequence[Curve], looks: Sequence[Look]) -> None:
    handles: list[Any] = []
    labels = []
    held = [[run for run in curve.runs if collapsed_at(run) is None] for curve in curves]
    halved = [sum(bool(halved_on(run_curves_of(run))) for run in runs) for runs in held]
    fallen = [len(curve.runs) - len(runs) for curve, runs in zip(curves, held, strict=True)]
    for curve, look, gone, late in zip(curves, looks, fallen, halved, strict=True):
        line = Line2D([], [], color=look.color, linestyle=look.dashes, linewidth=2.2)
        band = Patch(facecolor=look.color, alpha=0.18, linewidth=0)
        handles.append((band, line) if len(curve.runs) > 1 else line)
        labels.append(_legend_label(curve, gone, late))
    if any(fallen):
        handles.append(
            Line2D([], [], color=SOFT, marker="X", markersize=7.5, linestyle="", mec="white")
        )
        labels.append("collapse of a run")
    legend = figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=legend_columns(labels, figure.get_figwidth()),
        fontsize=9,
        handlelength=2.4,
        columnspacing=1.8,
        alignment="left",
    )
    notes = []
    if any(len(curve.runs) > 1 for curve in curves):
        notes.append(
            "Bold: median of the seeds. Band: lowest to highest, as far as all seeds go. "
            "Thin: a run."
        )
    if any(halved):
        notes.append(f"Halved: {DEFINITIONS['halved'].text}.")
    if notes:
        legend.set_title("\n".join(notes))
        legend.get_title().set(color=SOFT, fontsize=8)


def _legend_label(curve: Curve, collapsed: int, halved: int) -> str:
    if len(curve.runs) == 1:
        return printable(curve.label) + " (collapsed)" * collapsed + " (halved)" * halved
    note = f", {collapsed} collapsed" if collapsed else ""
    note += f", {halved} halved" if halved else ""
    return f"{printable(curve.label)} ({len(curve.runs)} seeds{note})"


def _grid(plots: int) -> tuple[int, tuple[float, float]]:
    """Number of columns of the figure, and width and height of a plot in inches."""
    columns = plots if plots <= 3 else {4: 2, 5: 3, 6: 3, 9: 3}.get(plots, 4)
    return columns, {1: (6.4, 3.2), 2: (4.4, 2.7)}.get(columns, (3.4, 2.3))


def _x_label(x: XAxis) -> str:
    labels = {"updates": "update", "episodes": "episodes played", "tokens": "response tokens"}
    return labels.get(x, "compute (s)")
