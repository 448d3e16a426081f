"""All tracks of a study on one screen: a table of methods by tasks, and a figure of the same runs.

Tracks of a sweep over learning rates are left out: they have a page of their own (`robustness`).

`study page --readme FILE` writes both: the table between two marks in the file, the figure into the
folder of results. Both come from the finished cells alone.
"""

import io
import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from baselines.study.cells import INIT
from baselines.study.current_tracks import CurrentTrack
from baselines.study.methods import (
    RecipeRuns,
    TrackResults,
    collapse_of,
    sides_on,
    with_seeds,
)
from baselines.study.pages.track_pages import markdown_table
from baselines.tracks.sweeps import points_of_sweeps
from benchmark.files import write_atomically
from benchmark.logs.curves import run_curves_of
from benchmark.logs.equal_progress import SUCCESS
from benchmark.logs.groups import Series
from benchmark.logs.training_log import TrainingLog
from benchmark.plots.style import SOFT, Look, draw_runs, looks_of, mark_collapse, plot_style
from benchmark.stats.formatting import rate_digits
from benchmark.track_schema import Track
from tasks.errors import UserError

BEGIN: Final = "<!-- results: written by `arlarena-bench study page --readme` -->"
END: Final = "<!-- end of results -->"
FIGURE: Final = "overview.svg"
NOT_RUN: Final = "-"
_COLUMNS: Final = 4
"""Plots side by side."""
_WIDTH, _HEIGHT = 2.9, 2.1
"""Of one plot, in inches."""


def write_overview(
    found: Mapping[str, TrackResults],
    current_tracks: Mapping[str, CurrentTrack],
    results: Path,
    readme: Path,
) -> None:
    """Write the figure into a folder of results and the table into a Markdown file.

    Args:
        found: What is finished, by track.
        current_tracks: The tracks.
        results: The folder.
        readme: The file; it has the lines `BEGIN` and `END`.

    Raises:
        UserError: The marks are missing, or a file cannot be read or written.
    """
    try:
        text = readme.read_text("utf-8")
    except OSError as error:
        raise UserError(f"{readme} cannot be read: {error.strerror}") from error
    parts = re.fullmatch(f"(.*{re.escape(BEGIN)}\n).*({re.escape(END)}.*)", text, re.DOTALL)
    if parts is None:
        raise UserError(f"{readme} lacks the lines {BEGIN} and {END}, which enclose the table")
    try:
        write_atomically(results / FIGURE, overview_figure(found, current_tracks))
        content = f"{parts[1]}\n{overview_table(found, current_tracks)}\n\n{parts[2]}"
        write_atomically(readme, content.encode())
    except OSError as error:
        raise UserError(f"{error.filename} cannot be written: {error.strerror}") from error


def overview_table(
    found: Mapping[str, TrackResults], current_tracks: Mapping[str, CurrentTrack]
) -> str:
    """Success and collapsed seeds of every method on every task, as a Markdown table.

    Success is that of the last weights in percent, with an interval over episodes and seeds. A
    track of several tasks has rows of its own. With several tasks, the last column is the mean over
    them, where all of them are there.

    Args:
        found: What is finished, by track.
        current_tracks: The tracks.
    """
    kinds, tasks = _axes(current_tracks)
    several = len(tasks) > 1
    rows = []
    for kind in kinds:
        tracks = {task: found.get(_track(current_tracks, task, kind)) for task in tasks}
        there = [results for results in tracks.values() if results is not None]
        recipes = dict.fromkeys(
            name for results in there for name, method in results.methods.items() if method.runs
        )
        for recipe in (INIT, *recipes):
            cells = [_cell(tracks[task], recipe, task) for task in tasks]
            if any(cell != NOT_RUN for cell in cells):
                if several:
                    cells.append(_mean(tracks, recipe))
                rows.append([kind, recipe, *cells])
    head = ("track", "method", *tasks, *(["mean"] if several else []))
    return markdown_table(head, rows)


def overview_figure(
    found: Mapping[str, TrackResults], current_tracks: Mapping[str, CurrentTrack]
) -> bytes:
    """Validation success of all finished runs over updates, as an SVG file.

    Each track with a finished run has a plot, in the order of the study.

    Args:
        found: What is finished, by track; at least one run.
        current_tracks: The tracks.
    """
    shown = {
        name: [method for method in found[name].methods.values() if method.runs]
        for name in _shown(current_tracks)
        if name in found
    }
    shown = {name: methods for name, methods in shown.items() if methods}
    looks = _looks(shown)
    rows = math.ceil(len(shown) / _COLUMNS)
    with plot_style():
        size = (_WIDTH * _COLUMNS, _HEIGHT * rows + 0.6)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        plots = figure.subplots(rows, _COLUMNS, squeeze=False).flatten().tolist()
        for axes in plots[len(shown) :]:
            axes.set_visible(False)
        for axes, (name, methods) in zip(plots, shown.items(), strict=False):
            axes.set_title(name, loc="left", fontsize=9.5, fontweight="bold")
            axes.set_xlabel("update")
            _draw(axes, methods, looks)
        handles = [
            Line2D([], [], color=look.color, linestyle=look.dashes, linewidth=2)
            for look in looks.values()
        ]
        labels = list(looks)
        if any(method.collapsed for methods in shown.values() for method in methods):
            handles.append(Line2D([], [], color=SOFT, marker="X", linestyle="", mec="white"))
            labels.append("collapse of a run")
        figure.legend(handles, labels, loc="outside lower left", ncols=min(len(labels), 9))
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "arlarena-bench"})
    return file.getvalue()


def _draw(axes: Axes, methods: Sequence[RecipeRuns], looks: Mapping[str, Look]) -> None:
    axes.set_ylim(-0.02, 1.02)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    for method in methods:
        series = [_score(log) for log in method.logs]
        draw_runs(axes, series, looks[method.recipe])
        for log, run in zip(method.logs, series, strict=True):
            mark_collapse(axes, run, collapse_of(log), looks[method.recipe])


def _score(log: TrainingLog) -> Series:
    points = run_curves_of(log).curves[SUCCESS]
    updates = points.steps.astype(np.float64)
    return Series(updates, updates, points.values)


def _looks(shown: Mapping[str, Sequence[RecipeRuns]]) -> Mapping[str, Look]:
    recipes = dict.fromkeys(method.recipe for methods in shown.values() for method in methods)
    return dict(zip(recipes, looks_of(list(recipes)), strict=True))


def _shown(current_tracks: Mapping[str, CurrentTrack]) -> Mapping[str, CurrentTrack]:
    """All tracks but those that only add a point to a curve over learning rates."""
    points = points_of_sweeps(each.track for each in current_tracks.values())
    return {name: each for name, each in current_tracks.items() if name not in points}


def _axes(current_tracks: Mapping[str, CurrentTrack]) -> tuple[list[str], list[str]]:
    """Kinds of tracks (`standard`, `stress`) and tasks, in the order of the study."""
    tracks = [current_track.track for current_track in _shown(current_tracks).values()]
    kinds = dict.fromkeys(map(_kind, tracks))
    tasks = dict.fromkeys(task for track in tracks for task in track.tasks)
    return list(kinds), list(tasks)


def _kind(track: Track) -> str:
    """What is left of a track's name without its task; of several tasks all of it."""
    return track.name if len(track.tasks) > 1 else track.name.removeprefix(f"{track.tasks[0]}-")


def _track(current_tracks: Mapping[str, CurrentTrack], task: str, kind: str) -> str:
    """Name of the track of a task and a kind; empty if the study has none."""
    for name, current_track in current_tracks.items():
        if task in current_track.track.tasks and _kind(current_track.track) == kind:
            return name
    return ""


def _mean(tracks: Mapping[str, TrackResults | None], recipe: str) -> str:
    """Mean success over the tasks, each with all its seeds."""
    there = {id(each): each for each in tracks.values() if each is not None}
    results = list(there.values())
    panels = [panel for each in results for panel in each.panels]
    if len({task for task, _ in panels}) < len(tracks):
        return NOT_RUN
    if recipe == INIT:
        each_init = [each.init_sides(each.panels) for each in results]
        known = [sides for sides in each_init if sides is not None]
        sides = tuple(chain(*known)) if len(known) == len(results) else None
    else:
        sides = sides_on(recipe, results, panels)
    return NOT_RUN if sides is None else rate_digits(with_seeds(sides))


def _cell(results: TrackResults | None, recipe: str, task: str) -> str:
    if results is None:
        return NOT_RUN
    panels = [panel for panel in results.panels if panel[0] == task]
    if recipe == INIT:
        sides = results.init_sides(panels)
        return NOT_RUN if sides is None else rate_digits(with_seeds(sides))
    method = results.methods.get(recipe)
    sides = None if method is None else method.sides(panels)
    if method is None or sides is None:
        return NOT_RUN
    success = rate_digits(with_seeds(sides))
    return f"{success}<br>{len(method.collapsed)} of {len(method.runs)} collapsed"
