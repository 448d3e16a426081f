"""A grid of methods and tracks: results, and for missing runs the command to train them."""

from collections import Counter
from functools import lru_cache
from statistics import fmean

from markupsafe import Markup

from benchmark.evaluation.protocol import OPTIONS
from leaderboard.board.board import Board
from leaderboard.board.protocols import Grid, StudyRun
from leaderboard.board.rows import BoardRow, surest_first
from leaderboard.page.glossary import explained
from leaderboard.page.marks import collapsed_text
from leaderboard.page.markup import (
    Head,
    Piece,
    copied,
    element,
    joined,
    link,
    note,
    page,
    table,
    view_link,
)
from leaderboard.page.methods import method
from leaderboard.page.state import State, entry_query, query_of
from leaderboard.table import cells
from leaderboard.table.columns import Line
from tasks.texts import counted

Place = tuple[str, str]
"""(recipe, track)."""


@lru_cache(maxsize=8)
def coverage_page(board: Board, state: State) -> str:
    """The tab's content."""
    grid = board.facts.grid
    if grid is None:
        return page(note("This board does not say which recipes and tracks there are."))
    # Each track has one of the current protocols, so the grid needs all of them.
    shown = state.protocol or board.protocols[0].name
    names = OPTIONS if shown in OPTIONS else (shown,)
    rows = [row for name in names for row in board.rows(name)]
    entries: dict[Place, BoardRow] = {}
    for row in surest_first(row for row in rows if row.kind == "trained"):
        entries.setdefault((row.recipe, row.track), row)
    runs: dict[Place, list[StudyRun]] = {}
    for run in grid.runs:
        runs.setdefault((run.recipe, run.track), []).append(run)
    every = [(recipe, track) for recipe in grid.recipes for track in grid.tracks]
    places = [place for place in every if place not in grid.impossible]
    filled = [place for place in places if place in entries or place in runs]
    most = Counter(recipe for recipe, _ in filled)
    heads = [Head("method"), *(Head(_track(name)) for name in grid.tracks)]
    listed: list[list[Piece]] = [
        [
            method(recipe),
            *(_cell(grid, (recipe, track), entries, runs) for track in grid.tracks),
        ]
        for recipe in sorted(grid.recipes, key=lambda name: (-most[name], name))
    ]
    about = joined(
        [
            "Success of the last weights in percent, mean over seeds; below it the seeds that ",
            explained("collapse", "collapsed"),
            " or, of the others, ",
            explained("halved", "halved"),
            ". Linked numbers are entries. The others are runs of this project\u2019s own study, "
            "which are not ranked; they are shown where they have more seeds than the entry. Plus: "
            "not run yet; click it for the command. Dash: impossible, because the method compares "
            "turns, and an episode of the track is one sequence. Only methods that this project "
            "ships have a row; entries of others are on the Board tab.",
        ]
    )
    said = f"{len(filled)} of {len(places)} combinations of method and track have a run"
    return page(
        element("p", said, "lb-count", role="status"),
        note(about),
        table("Methods on tracks", heads, listed, "lb-heat"),
        view_link(query_of(state)),
    )


def _track(name: str) -> Markup:
    task, _, kind = name.partition("-")
    return joined([task, element("span", explained("track", kind), "lb-sub")])


def _cell(
    grid: Grid,
    place: Place,
    entries: dict[Place, BoardRow],
    runs: dict[Place, list[StudyRun]],
) -> Markup:
    row, found = entries.get(place), runs.get(place, [])
    if row is not None and row.panels and len(row.checkpoints) >= len(found):
        whole = Line(row, (), None)
        event = whole.collapse
        said = whole.unjudged
        if event:
            said = _fallen(event.happened, event.known, whole.unknown, whole.halved)
        query = entry_query(row.protocol, row.id)
        success = _score(grid, row)
        return _heat(success, link(query, cells.percent(success)), said)
    if found:
        success = fmean(run.success for run in found)
        fallen = sum(run.collapse is not None for run in found)
        below = _fallen(fallen, len(found), 0, sum(run.halved for run in found))
        if row is not None:
            query = entry_query(row.protocol, row.id)
            entry = link(query, f"entry: {counted(len(row.checkpoints), 'seed')}")
            below = joined([below, element("span", entry, "lb-sub")])
        return _heat(success, cells.percent(success), below)
    if place in grid.impossible:
        dash = element("span", cells.UNKNOWN, aria_hidden="true")
        return dash + element("span", f"Impossible: {place[0]} on {place[1]}", "lb-sr")
    return _hole(grid, *place)


def _score(grid: Grid, row: BoardRow) -> float:
    """Mean success of an entry over its track's panels, or on its first panel if any is missing."""
    panels = dict(zip(grid.tracks, grid.panels, strict=False)).get(row.track, ())
    found = [row.panel(key) for key in panels]
    played = [panel.success for panel in found if panel is not None]
    whole = bool(played) and len(played) == len(found)
    return fmean(played) if whole else row.panels[0].success


def _fallen(happened: int, known: int, unknown: int, halved: int) -> Piece:
    # On two lines, since cells are as narrow as their text allows.
    first, comma, late = collapsed_text(happened, known, unknown, halved).partition(",")
    said = element("span", first + comma, "lb-fallen") if happened else first + comma
    return joined([said, element("span", late, "lb-sub lb-fallen")]) if late else said


def _heat(success: float, shown: Piece, said: Piece) -> Markup:
    content = joined([shown, element("span", said, "lb-sub")])
    return element("div", content, "lb-hot", style=f"--v: {100 * success:.0f}%")


def _hole(grid: Grid, recipe: str, track: str) -> Markup:
    name = f"lb-run-{recipe}-{track}"
    minutes = [run.cpu_minutes for run in grid.runs if run.track == track]
    cost = f"about {fmean(minutes):.0f} CPU minutes a seed" if minutes else "cost not measured"
    command = (
        f"arlarena-bench train --track {track} --recipe {recipe} --seed 0 "
        f"--out runs/{recipe}-{track}-s0"
    )
    shown = element("span", "+", aria_hidden="true")
    read = element("span", f"Not run yet: {recipe} on {track}", "lb-sr")
    opener = element("button", shown + read, "lb-word lb-hole", type="button", popovertarget=name)
    text = f"{recipe} on {track} has not been run yet; {cost}. For every seed:"
    content = element("p", text) + copied(command, "the training")
    return opener + element("div", content, "lb-explained", id=name, popover="auto")
