"""Validation success over updates for the methods with the most runs: one plot per track."""

import io
import math
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from baselines.study.current_tracks import CurrentTrack
from baselines.study.methods import RecipeRuns, TrackResults, collapse_of
from baselines.study.pages.overview_grid import grid_of, most_run
from benchmark.logs.curves import run_curves_of
from benchmark.logs.equal_progress import SUCCESS
from benchmark.logs.groups import Series
from benchmark.logs.training_log import TrainingLog
from benchmark.plots.style import SOFT, Look, draw_runs, looks_of, mark_collapse, plot_style
from benchmark.stats.paired import mean_success

_WIDTH, _HEIGHT = 2.9, 2.6
"""Size of one plot, in inches."""


def overview_figure(
    found: Mapping[str, TrackResults],
    current_tracks: Mapping[str, CurrentTrack],
    kinds: Sequence[str],
) -> bytes:
    """Validation success over updates, as an SVG file.

    Each kind of tracks has a row and each task a column, as in the table; a track with several
    tasks is in the first column. A track without a finished run is named. The figure shows the
    `MOST_METHODS` methods with runs on the most of these tracks, and the success of the init.

    Args:
        found: Finished results by track, with at least one run.
        current_tracks: The tracks.
        kinds: Kinds of tracks to show, in this order.
    """
    # A track with several tasks has one plot.
    grid = [
        list(dict.fromkeys(names.values())) for names in grid_of(current_tracks, kinds).values()
    ]
    most = most_run(found, chain(*grid))
    methods = {
        name: [m for m in found[name].methods.values() if m.runs and m.recipe in most]
        for name in chain(*grid)
        if name in found
    }
    looks = dict(zip(most, looks_of(most), strict=True))
    columns = max(map(len, grid))
    with plot_style():
        size = (_WIDTH * columns, _HEIGHT * len(grid) + 0.6)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        plots = figure.subplots(len(grid), columns, squeeze=False)
        for row, names in zip(plots, grid, strict=True):
            for axes in row[len(names) :]:
                axes.set_visible(False)
            for axes, name in zip(row, names, strict=False):
                axes.set_title(name, loc="left", fontsize=9.5, fontweight="bold")
                if methods.get(name):
                    _draw(axes, methods[name], looks, found[name])
                else:
                    axes.set_axis_off()
                    axes.text(0, 0.9, "no finished run", color=SOFT, transform=axes.transAxes)
        handles = [
            Line2D([], [], color=look.color, linestyle=look.dashes, linewidth=2)
            for look in looks.values()
        ]
        labels = list(looks)
        handles.append(Line2D([], [], color=SOFT, linestyle=":", linewidth=1))
        labels.append("init")
        if any(method.collapsed for each in methods.values() for method in each):
            handles.append(Line2D([], [], color=SOFT, marker="X", linestyle="", mec="white"))
            labels.append("collapse of a run")
        figure.legend(handles, labels, loc="outside lower left", ncols=min(len(labels), 9))
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "arlarena-bench"})
    return file.getvalue()


def _draw(
    axes: Axes,
    methods: Sequence[RecipeRuns],
    looks: Mapping[str, Look],
    results: TrackResults,
) -> None:
    axes.set_xlabel("update")
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    for method in methods:
        series = [_score(log) for log in method.logs]
        draw_runs(axes, series, looks[method.recipe], alone_width=0.9)
        for log, run in zip(method.logs, series, strict=True):
            mark_collapse(axes, run, collapse_of(log), looks[method.recipe])
    if (init := results.init_sides(results.panels)) is not None:
        axes.axhline(mean_success(init).value, color=SOFT, linestyle=":", linewidth=1, zorder=1)
    # Scale from 0 to the track's maximum, because methods are close together.
    highest = max(float(np.max(line.get_ydata())) for line in axes.lines)
    top = min(1.0, math.ceil(10 * highest + 0.2) / 10)
    axes.set_ylim(-0.02 * top, 1.02 * top)


def _score(log: TrainingLog) -> Series:
    points = run_curves_of(log).curves[SUCCESS]
    updates = points.steps.astype(np.float64)
    return Series(updates, updates, points.values)
