"""Success and collapsed seeds of methods by task, as one Markdown table per kind of tracks."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from baselines.study.claims import LEAST_SEEDS
from baselines.study.current_tracks import CurrentTrack
from baselines.study.methods import MEAN, RecipeRuns, TrackResults, sides_on
from baselines.study.pages.markdown import markdown_table
from baselines.study.pages.overview_grid import grid_of
from baselines.study.schema import INIT
from benchmark.stats.formatting import rate_digits
from benchmark.stats.paired import Side, mean_success
from tasks.texts import counted

NOT_RUN: Final = "-"


def overview_tables(
    found: Mapping[str, TrackResults],
    current_tracks: Mapping[str, CurrentTrack],
    kinds: Sequence[str],
    only: Sequence[str] | None = None,
) -> str:
    """Success and collapsed seeds of every method on every task, as one Markdown table per kind.

    Success is that of the last weights in percent, with an interval over episodes and seeds. A
    method that plays more episodes per update than others has a second row, with its success after
    equally many. With several tasks, the last column is the mean over them, if none is missing.

    Args:
        found: Finished results by track.
        current_tracks: The tracks.
        kinds: Kinds of tracks to show, in this order; those without a run are left out.
        only: Methods of shorter tables, without means; None shows all methods.
    """
    tables = []
    for kind, names in grid_of(current_tracks, kinds).items():
        tracks = {task: found.get(name) for task, name in names.items()}
        recipes = dict.fromkeys(
            name
            for results in tracks.values()
            if results is not None
            for name, method in results.methods.items()
            if method.runs and (only is None or name in only)
        )
        means = len(tracks) > 1 and only is None
        rows = [
            row for recipe in (INIT, *recipes) for row in _rows_of_method(tracks, recipe, means)
        ]
        if rows:
            tables.append(markdown_table((kind, *tracks, *(["mean"] if means else [])), rows))
    return "\n\n".join(tables)


def _rows_of_method(
    tracks: Mapping[str, TrackResults | None], recipe: str, means: bool
) -> list[list[str]]:
    """A method's row, and one at equal episodes if it plays more than others; may be empty."""
    cells = [_cell(results, recipe, task) for task, results in tracks.items()]
    if all(cell == NOT_RUN for cell in cells):
        return []
    equal = [_at_equal_episodes(results, recipe, task) for task, results in tracks.items()]
    sides_of_tasks = [sides for sides, _ in equal]
    if means:
        cells.append(_mean(tracks, recipe))
        whole = cells[-1] != NOT_RUN and all(sides_of_tasks)
        sides_of_tasks.append(tuple(chain(*sides_of_tasks)) if whole else ())
    rows = [[recipe, *cells]]
    if any(more for _, more in equal):
        rates = [_rate(each) if each else NOT_RUN for each in sides_of_tasks]
        rows.append([f"{recipe}, equal episodes", *rates])
    return rows


def _at_equal_episodes(
    results: TrackResults | None, recipe: str, task: str
) -> tuple[Sequence[Side], bool]:
    """A method after as many training episodes as the others, and whether it plays more."""
    if results is None or recipe not in results.methods:
        return (), False
    equal = results.at_equal_episodes([panel for panel in results.panels if panel[0] == task])
    if equal is None or recipe not in equal.sides:
        return (), False
    sides = [replace(side, trainings=results.track) for side in equal.sides[recipe]]
    return sides, results.methods[recipe].episodes != equal.limit


def _mean(tracks: Mapping[str, TrackResults | None], recipe: str) -> str:
    """Mean success over the tasks; for separately trained tasks, only with enough seeds of each."""
    there = {id(each): each for each in tracks.values() if each is not None}
    results = list(there.values())
    panels = [panel for each in results for panel in each.panels]
    if len({task for task, _ in panels}) < len(tracks):
        return NOT_RUN
    if recipe == INIT:
        each_init = [each.init_sides(each.panels) for each in results]
        known = [sides for sides in each_init if sides is not None]
        sides = tuple(chain(*known)) if len(known) == len(results) else None
        return NOT_RUN if sides is None else _rate(sides)
    sides = sides_on(recipe, results, panels)
    if sides is None:
        return NOT_RUN
    success = _rate(sides)
    if len(results) == 1:
        return f"{success}{_collapsed(results[0].methods[recipe])}"
    # The variance of one task's seeds is of no use if that of another one is unknown.
    if min(len(side.seeds) for side in sides) < LEAST_SEEDS:
        return NOT_RUN
    return success


def _cell(results: TrackResults | None, recipe: str, task: str) -> str:
    if results is None:
        return NOT_RUN
    panels = [panel for panel in results.panels if panel[0] == task]
    if recipe == INIT:
        sides = results.init_sides(panels)
        return NOT_RUN if sides is None else _rate(sides)
    method = results.methods.get(recipe)
    sides = None if method is None else method.sides(panels)
    if method is None or sides is None:
        return NOT_RUN
    success = _rate(sides)
    return success if len(results.panels) > 1 else f"{success}{_collapsed(method)}"


def _collapsed(method: RecipeRuns) -> str:
    """A line of a cell: the collapsed runs, and those that lost half without a collapse.

    If no run is long enough to show a collapse, only the number of runs.
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


def _rate(sides: Sequence[Side]) -> str:
    """Mean success with its interval, without line breaks in narrow columns."""
    return rate_digits(mean_success(sides)).replace(" ", "\N{NO-BREAK SPACE}")
