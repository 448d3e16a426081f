"""Draws success, survival and warning signs of recipes as one figure, for any trainer.

The same runs give the same bytes with the same version of matplotlib, as in `training.py`, and the
style is the same.
"""

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, MaxNLocator, PercentFormatter

from benchmark.logs.curves import Points
from benchmark.logs.groups import Plotted, Series
from benchmark.logs.metrics import METRICS
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
from benchmark.stability.anytime import AnytimeCurve, XAxis, anytime_curve
from benchmark.stability.comparison import RecipeComparison
from benchmark.stability.recipes import Compared
from tasks.texts import on_one_line, short_names

SIGNS: Final = (
    "rollout/success", "rollout/format_ok", "policy/grad_norm", "policy/entropy", "kl_init/mean",
    "engine/k3",
)  # fmt: skip
"""Metrics that are drawn if any of the logs has them."""

_AXES: Final[Mapping[XAxis, str]] = {
    "tokens": "response tokens sampled", "seconds": "seconds of compute", "updates": "update",
}  # fmt: skip
"""X axes of anytime success, in order of preference."""
_COLUMNS = 3
_SIZE = (4.2, 2.6)
_LONGEST = 60


def stability_svg(rows: Sequence[Compared], comparisons: Sequence[RecipeComparison] = ()) -> bytes:
    """Draw the figure.

    A recipe with several seeds is the median of its runs, with a band from the lowest to the
    highest and a thin line for every run. A cross marks the collapse of a run. Survival is the
    Kaplan-Meier estimate; a tick marks runs that ended without a collapse. Anytime success is the
    IQM over seeds with its pointwise interval, and a dotted line for the worst seed, along response
    tokens, or along seconds or updates if more recipes have those. A performance profile with its
    pointwise band shows the share of seeds that end above any success.

    Args:
        rows: The compared recipes; at least one.
        comparisons: Comparisons of recipes; their labels are those of the rows.

    Returns:
        An SVG file.
    """
    with plot_style():
        figure = _figure(rows, comparisons)
        file = io.BytesIO()
        metadata = {"Date": None, "Creator": "arlarena-bench"}
        figure.savefig(file, format="svg", metadata=metadata)
    return file.getvalue()


def _figure(rows: Sequence[Compared], comparisons: Sequence[RecipeComparison]) -> Figure:
    runs = [one.run for row in rows for one in row.runs]
    signs = [name for name in SIGNS if any(name in run.curves for run in runs)]
    plots = 3 + len(comparisons) + len(signs)
    columns = min(_COLUMNS, plots)
    lines = -(-plots // columns)
    figure = Figure(
        figsize=(_SIZE[0] * columns, _SIZE[1] * lines + 0.8),
        layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.08, hspace=0.06),
    )
    FigureCanvasAgg(figure)
    looks = looks_of([row.runs[0].run.recipe for row in rows])
    _draw(figure.add_subplot(lines, columns, 1), rows, looks, _success_plot(rows), None)
    _draw_survival(figure.add_subplot(lines, columns, 2), rows, looks)
    _draw_anytime(figure.add_subplot(lines, columns, 3), rows, looks)
    for number, name in enumerate(signs, 4):
        _draw(figure.add_subplot(lines, columns, number), rows, looks, Plotted(name), name)
    for number, one in enumerate(comparisons, 4 + len(signs)):
        by_label = {row.label: look for row, look in zip(rows, looks, strict=True)}
        _draw_profiles(figure.add_subplot(lines, columns, number), one, by_label)
    for axes in figure.axes[-columns:]:
        if not axes.get_xlabel():
            axes.set_xlabel("update")
    _legend(figure, rows, looks)
    return figure


def _success_plot(rows: Sequence[Compared]) -> Plotted:
    """Title of the success plot, from the first success curve."""
    names = [run.success_curve for row in rows for run in row.stability.runs if run.success_curve]
    name, _, panel = (names[0] if names else "validation/success").partition("@")
    return Plotted(name) if name in METRICS else Plotted(name, on_one_line(panel, _LONGEST))


def _draw(
    axes: Axes,
    rows: Sequence[Compared],
    looks: Sequence[Look],
    what: Plotted,
    name: str | None,
) -> None:
    """Draw one metric of all runs; if `name` is None, each run's success curve."""
    everything = []
    for row, look in zip(rows, looks, strict=True):
        series = []
        for one, run in zip(row.runs, row.stability.runs, strict=True):
            curve = one.run.curves.get(name or run.success_curve or "")
            series.append(_series(curve))
        draw_runs(axes, series, look)
        for line, run in zip(series, row.stability.runs, strict=True):
            at = run.collapse.step if run.collapse and run.collapse.happened else None
            mark_collapse(axes, line, at, look)
        everything += series
    style_axes(axes, what, everything)


def _series(curve: Points | None) -> Series:
    """Convert a curve for plotting; non-finite values are left out."""
    if curve is None:
        return Series(np.zeros(0), np.zeros(0), np.zeros(0))
    steps = curve.finite.steps.astype(np.float64)
    return Series(steps, steps, curve.finite.values)


def _draw_survival(axes: Axes, rows: Sequence[Compared], looks: Sequence[Look]) -> None:
    _head(axes, "survival", "seeds that have not collapsed (Kaplan and Meier)")
    drawn = False
    for row, look in zip(rows, looks, strict=True):
        curve = row.stability.survival
        if curve is None:
            continue
        drawn = True
        steps = np.concatenate([[0], curve.steps])
        share = np.concatenate([[1.0], curve.survival])
        axes.step(
            steps, share, where="post", color=look.color, linestyle=look.dashes, linewidth=1.7
        )
        ended = [
            run.collapse.step
            for run in row.stability.runs
            if run.collapse is not None and not run.collapse.happened
        ]
        if ended:  # a line without points would confuse the layout
            axes.plot(
                ended,
                [curve.at(step) for step in ended],
                color=look.color, marker="|", markersize=8, linestyle="", clip_on=False,
            )  # fmt: skip
    if not drawn:
        _say_nothing(axes)
        return
    axes.set_ylim(-0.02, 1.06)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 5, 10]))


def _draw_anytime(axes: Axes, rows: Sequence[Compared], looks: Sequence[Look]) -> None:
    """Draw the success of recipes at any time of their training."""
    axis, curves = _anytime(rows)
    _head(axes, "anytime success", "IQM over seeds; dotted: the worst seed")
    for curve, look in zip(curves, looks, strict=True):
        if curve is None:
            continue
        axes.plot(curve.x, curve.iqm, color=look.color, linestyle=look.dashes, linewidth=1.7)
        if curve.low is None or curve.high is None:
            continue
        axes.plot(curve.x, curve.worst, color=look.color, linestyle=":", linewidth=1.0)
        axes.fill_between(
            curve.x, curve.low, curve.high, color=look.color, alpha=0.14, linewidth=0, zorder=2
        )
    if not any(curves):
        _say_nothing(axes)
        return
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel(_AXES[axis])


def _anytime(rows: Sequence[Compared]) -> tuple[XAxis, list[AnytimeCurve | None]]:
    """The curve of every recipe, along the first axis on which most of them can be drawn."""
    best: tuple[XAxis, list[AnytimeCurve | None]] = "updates", [None] * len(rows)
    for axis in _AXES:
        found = [_anytime_of(row, axis) for row in rows]
        if found.count(None) < best[1].count(None):
            best = axis, found
        if None not in found:
            break
    return best


def _anytime_of(row: Compared, axis: XAxis) -> AnytimeCurve | None:
    names = {run.success_curve for run in row.stability.runs}
    name = names.pop()
    if names or name is None:
        return None
    return anytime_curve([one.run for one in row.runs], name, axis)


def _draw_profiles(axes: Axes, one: RecipeComparison, looks: Mapping[str, Look]) -> None:
    """Draw the share of seeds that end above a success, for every success."""
    title = f"performance profile ({on_one_line(', '.join(one.tasks), _LONGEST)})"
    _head(axes, title, "seeds with a final success above")
    for label, profile in zip(one.labels, one.profiles, strict=True):
        look = looks[label]
        at = profile.thresholds
        axes.step(
            at, profile.share, where="post",
            color=look.color, linestyle=look.dashes, linewidth=1.7, zorder=4,
        )  # fmt: skip
        if profile.low is not None and profile.high is not None:
            axes.fill_between(
                at, profile.low, profile.high, step="post",
                color=look.color, alpha=0.14, linewidth=0, zorder=2,
            )  # fmt: skip
    axes.set_ylim(-0.02, 1.06)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("final success")


def _head(axes: Axes, title: str, about: str) -> None:
    """Add a title, its explanation, and grid lines."""
    axes.set_title(title, loc="left", fontsize=9.5, fontweight="bold", pad=17)
    axes.text(
        0, 1.045, about, transform=axes.transAxes, fontsize=7.6, color=SOFT
    ).set_in_layout(False)  # fmt: skip
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def _say_nothing(axes: Axes) -> None:
    axes.set_yticks([])
    axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=SOFT)


def _legend(figure: Figure, rows: Sequence[Compared], looks: Sequence[Look]) -> None:
    handles: list[Any] = []
    labels = []
    names = short_names([row.label for row in rows], _LONGEST)
    for row, name, look in zip(rows, names, looks, strict=True):
        handles.append(Line2D([], [], color=look.color, linestyle=look.dashes, linewidth=2.2))
        late = row.stability.halved
        if len(row.runs) > 1:
            note = f" ({len(row.runs)} seeds{f', {late} halved' if late else ''})"
        else:
            note = " (halved)" if late else ""
        labels.append(name + note)
    if any(row.stability.events["collapse"].happened for row in rows):
        handles.append(
            Line2D([], [], color=SOFT, marker="X", markersize=7.5, linestyle="", mec="white")
        )
        labels.append("collapse of a run")
    figure.legend(
        handles,
        labels,
        loc="outside lower left",
        ncols=legend_columns(labels, figure.get_figwidth()),
        fontsize=9,
        handlelength=2.4,
        columnspacing=1.8,
        alignment="left",
    )
