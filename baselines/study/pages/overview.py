"""The tracks of a study on one screen: a table of methods by tasks, and a figure of the same runs.

`study page --readme FILE` writes the table between two marks in the file, where the first one can
name the kinds of tracks (`standard`, `stress`); their figure and a page with the table of all kinds
go into the folder of results. All come from the finished cells alone.

Tracks of a sweep over learning rates are left out: they have a page of their own (`robustness`).
"""

import io
import math
import os
import re
from collections import Counter
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
from baselines.study.claims import LEAST_SEEDS
from baselines.study.current_tracks import CurrentTrack
from baselines.study.estimate import duration, spent
from baselines.study.methods import (
    MEAN,
    PanelKey,
    RecipeRuns,
    TrackResults,
    collapse_of,
    sides_on,
)
from baselines.study.pages.claims_page import CLAIMS
from baselines.study.pages.headlines import headlines
from baselines.study.pages.markdown import fill, markdown_table, wrapped
from baselines.study.pages.track_pages import PAGE
from baselines.study.verdicts import ClaimVerdict
from baselines.tracks.sweeps import points_of_sweeps
from benchmark.files import write_atomically
from benchmark.logs.curves import run_curves_of
from benchmark.logs.equal_progress import SUCCESS
from benchmark.logs.groups import Series
from benchmark.logs.training_log import TrainingLog
from benchmark.plots.style import SOFT, Look, draw_runs, looks_of, mark_collapse, plot_style
from benchmark.stats.formatting import rate_digits
from benchmark.stats.paired import Side, mean_success
from benchmark.track_schema import Track
from tasks.errors import UserError
from tasks.texts import counted

BEGIN: Final = "<!-- results{}: written by `arlarena-bench study page --readme` -->"
"""With nothing in it, or with ` of ` and the kinds of tracks that are shown."""
END: Final = "<!-- end of results -->"
FIGURE: Final = "overview.svg"
OVERVIEW: Final = "overview.md"
TEMPLATE: Final = Path(__file__).with_name("overview.md.j2")
NOT_RUN: Final = "-"
MOST_METHODS: Final = 6
"""That a figure shows: more cannot be told apart."""
_WIDTH, _HEIGHT = 2.9, 2.6
"""Of one plot, in inches."""


def write_overview(
    found: Mapping[str, TrackResults],
    current_tracks: Mapping[str, CurrentTrack],
    judged: Sequence[ClaimVerdict],
    results: Path,
    readme: Path,
) -> Path:
    """Write table and figure: into a Markdown file those of some tracks, into the results of all.

    Args:
        found: What is finished, by track.
        current_tracks: The tracks.
        judged: All claims.
        results: The folder.
        readme: The file; it has the lines `BEGIN` and `END`.

    Returns:
        The page with the table of all tracks.

    Raises:
        UserError: The marks are missing or name a kind of tracks that the study has not, or a file
            cannot be read or written.
    """
    try:
        text = readme.read_text("utf-8")
    except OSError as error:
        raise UserError(f"{readme} cannot be read: {error.strerror}") from error
    begin, end = re.escape(BEGIN).replace(r"\{\}", "(?: of (.+?))?"), re.escape(END)
    parts = re.fullmatch(f"(.*{begin}\n).*({end}.*)", text, re.DOTALL)
    if parts is None:
        marks = f"{BEGIN.format('')} and {END}"
        raise UserError(f"{readme} lacks the lines {marks}, which enclose the table")
    kinds = parts[2].split(", ") if parts[2] else _axes(current_tracks)[0]
    if unknown := [kind for kind in kinds if kind not in _axes(current_tracks)[0]]:
        raise UserError(f"{readme}: the study has no tracks of the kind {', '.join(unknown)}")
    page = results / OVERVIEW
    try:
        write_atomically(results / FIGURE, overview_figure(found, current_tracks, kinds))
        write_atomically(page, overview_page(found, current_tracks).encode())
        claims = Path(os.path.relpath(results / CLAIMS, readme.parent)).as_posix()
        block = overview_block(found, current_tracks, judged, kinds, claims)
        write_atomically(readme, f"{parts[1]}\n{block}\n\n{parts[3]}".encode())
    except OSError as error:
        raise UserError(f"{error.filename} cannot be written: {error.strerror}") from error
    return page


def overview_page(
    found: Mapping[str, TrackResults], current_tracks: Mapping[str, CurrentTrack]
) -> str:
    """The table of all kinds of tracks with what its numbers are, as Markdown.

    Args:
        found: What is finished, by track.
        current_tracks: The tracks.
    """
    kinds, tasks = _axes(current_tracks)
    by_track = {
        name: [run for method in results.methods.values() for run in method.runs]
        for name, results in found.items()
    }
    runs = list(chain(*by_track.values()))
    by_task = spent(runs, current_tracks)
    pages = [f"[{name}]({name}/{PAGE})" for name, own in by_track.items() if own]
    spent_on = ", ".join(f"{duration(seconds)} on {task}" for task, seconds in by_task.items())
    return fill(
        TEMPLATE,
        table=overview_table(found, current_tracks, kinds),
        several=len(tasks) > 1,
        pages=wrapped(f"{', '.join(pages)}."),
        spent=wrapped(
            f"CPU time of {counted(len(runs), 'training run')}, tuning and evaluation included: "
            f"{spent_on}."
        ),
    )


def overview_block(
    found: Mapping[str, TrackResults],
    current_tracks: Mapping[str, CurrentTrack],
    judged: Sequence[ClaimVerdict],
    kinds: Sequence[str],
    claims_page: str,
) -> str:
    """What stands between the marks: a few lines and the table, as Markdown.

    Args:
        found: What is finished, by track.
        current_tracks: The tracks.
        judged: All claims.
        kinds: Kinds of tracks that are shown, in this order.
        claims_page: Link to the page of the claims.
    """
    said = headlines(found, _grid(current_tracks, kinds), judged, claims_page)
    return "\n\n".join(filter(None, (said, overview_table(found, current_tracks, kinds))))


def overview_table(
    found: Mapping[str, TrackResults],
    current_tracks: Mapping[str, CurrentTrack],
    kinds: Sequence[str],
) -> str:
    """Success and collapsed seeds of every method on every task, as a Markdown table.

    Success is that of the last weights in percent, with an interval over episodes and seeds, and
    that at equal episodes of methods that play more. A track of several tasks has rows of its own.
    With several tasks, the last column is the mean over them, where all of them are there.

    Args:
        found: What is finished, by track.
        current_tracks: The tracks.
        kinds: Kinds of tracks that are shown, in this order.
    """
    _, tasks = _axes(current_tracks)
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
    found: Mapping[str, TrackResults],
    current_tracks: Mapping[str, CurrentTrack],
    kinds: Sequence[str],
) -> bytes:
    """Validation success over updates, as an SVG file.

    Each kind of tracks has a row and each task a column, like the table; a track of several tasks
    stands in the first. A track without a finished run is named. Shown are the `MOST_METHODS`
    methods that have run on most of these tracks, and the success of the init.

    Args:
        found: What is finished, by track; at least one run.
        current_tracks: The tracks.
        kinds: Kinds of tracks that are shown, in this order.
    """
    grid = list(_grid(current_tracks, kinds).values())
    methods = {
        name: [method for method in found[name].methods.values() if method.runs]
        for name in chain(*grid)
        if name in found
    }
    most = _most_run(methods)
    methods = {
        name: [method for method in each if method.recipe in most] for name, each in methods.items()
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
    # From 0 up to what the track's runs reach: methods lie close together.
    highest = max(float(np.max(line.get_ydata())) for line in axes.lines)
    top = min(1.0, math.ceil(10 * highest + 0.2) / 10)
    axes.set_ylim(-0.02 * top, 1.02 * top)


def _score(log: TrainingLog) -> Series:
    points = run_curves_of(log).curves[SUCCESS]
    updates = points.steps.astype(np.float64)
    return Series(updates, updates, points.values)


def _most_run(shown: Mapping[str, Sequence[RecipeRuns]]) -> list[str]:
    """The methods with runs on most tracks, in the order of the study."""
    tracks = Counter(method.recipe for methods in shown.values() for method in methods)
    # Of equally many those of the study's order: `most_common` keeps it.
    most = {recipe for recipe, _ in tracks.most_common(MOST_METHODS)}
    return [recipe for recipe in tracks if recipe in most]


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


def _grid(current_tracks: Mapping[str, CurrentTrack], kinds: Sequence[str]) -> dict[str, list[str]]:
    """Names of the tracks of each kind, in the order of the tasks, each once."""
    _, tasks = _axes(current_tracks)
    return {
        kind: list(
            dict.fromkeys(filter(None, (_track(current_tracks, task, kind) for task in tasks)))
        )
        for kind in kinds
    }


def _mean(tracks: Mapping[str, TrackResults | None], recipe: str) -> str:
    """Mean success over the tasks; of tasks trained apart, with seeds enough of each."""
    there = {id(each): each for each in tracks.values() if each is not None}
    results = list(there.values())
    panels = [panel for each in results for panel in each.panels]
    if len({task for task, _ in panels}) < len(tracks):
        return NOT_RUN
    if recipe == INIT:
        each_init = [each.init_sides(each.panels) for each in results]
        known = [sides for sides in each_init if sides is not None]
        sides = tuple(chain(*known)) if len(known) == len(results) else None
        return NOT_RUN if sides is None else rate_digits(mean_success(sides))
    sides = sides_on(recipe, results, panels)
    if sides is None:
        return NOT_RUN
    success = rate_digits(mean_success(sides))
    if len(results) == 1:
        success += _fewer(recipe, [(results[0], panels)])
        return f"{success}{_collapsed(results[0].methods[recipe])}"
    # The spread of one task's seeds says nothing where that of another one is not known.
    if min(len(side.seeds) for side in sides) < LEAST_SEEDS:
        return NOT_RUN
    return success + _fewer(recipe, [(each, list(each.panels)) for each in results])


def _cell(results: TrackResults | None, recipe: str, task: str) -> str:
    if results is None:
        return NOT_RUN
    panels = [panel for panel in results.panels if panel[0] == task]
    if recipe == INIT:
        sides = results.init_sides(panels)
        return NOT_RUN if sides is None else rate_digits(mean_success(sides))
    method = results.methods.get(recipe)
    sides = None if method is None else method.sides(panels)
    if method is None or sides is None:
        return NOT_RUN
    success = rate_digits(mean_success(sides)) + _fewer(recipe, [(results, panels)])
    return success if len(results.panels) > 1 else f"{success}{_collapsed(method)}"


def _fewer(recipe: str, where: Sequence[tuple[TrackResults, Sequence[PanelKey]]]) -> str:
    """A line of a cell: success after as many training episodes as the other methods have played.

    Nothing for a method that played no more than they did, or if it is not known on a track.
    """
    sides: list[Side] = []
    more = False
    for results, panels in where:
        equal = results.at_equal_episodes(panels)
        method = results.methods[recipe]
        if equal is None or recipe not in equal.sides:
            return ""
        more = more or method.episodes != equal.limit
        sides.extend(equal.sides[recipe])
    return f"<br>{rate_digits(mean_success(sides))} at equal episodes" if more else ""


def _collapsed(method: RecipeRuns) -> str:
    """A line of a cell: the runs that collapsed, and those that lost half without a collapse.

    Where no run can show whether it has, only how many there are.
    """
    parts = []
    if not method.unknown:
        parts.append(f"{len(method.collapsed)} of {len(method.runs)} collapsed")
    elif method.collapsed:
        parts.append(f"{len(method.collapsed)} collapsed, {method.unknown} unknown")
    else:
        parts.append(counted(len(method.runs), "seed"))
    halved = Counter(task for tasks in method.halved.values() for task in tasks)
    if len(method.plays[0]) == 1:
        parts += [f"{count} halved" for count in halved.values()]
    else:
        places = {task: f"on {task}" for task in halved} | {MEAN: "in the mean"}
        parts += [f"{count} halved {places[task]}" for task, count in halved.items()]
    return f"<br>{', '.join(parts)}"
