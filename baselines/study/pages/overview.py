"""The tracks of a study on one screen: tables of methods by tasks, and a figure of the same runs.

`study page --readme FILE` writes tables of the methods with runs on the most tracks between two
marks in the file, of which the first can name the kinds of tracks (`standard`, `stress`); the
figure of the same methods, and a page with the tables of all methods and kinds, are written to the
results folder. All are created only from finished cells.

Tracks of a sweep over learning rates are left out: they have a separate page (`robustness`).
"""

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from baselines.study.current_tracks import CurrentTrack, without_sweeps
from baselines.study.estimate import duration, spent
from baselines.study.methods import TrackResults
from baselines.study.pages.claims_page import CLAIMS
from baselines.study.pages.collapse_counts import HEADING, collapse_counts, collapse_table
from baselines.study.pages.headlines import headlines
from baselines.study.pages.markdown import fill, relative_link, wrapped, write_page
from baselines.study.pages.overview_figure import overview_figure
from baselines.study.pages.overview_grid import axes_of, grid_of, most_run
from baselines.study.pages.overview_tables import overview_tables
from baselines.study.pages.track_pages import PAGE
from baselines.study.verdicts import ClaimVerdict
from benchmark.files import write_atomically
from tasks.errors import UserError, os_error_as
from tasks.texts import counted

BEGIN: Final = "<!-- results{}: written by `arlarena-bench study page --readme` -->"
"""Formatted with nothing, or with ` of ` and the kinds of tracks to show."""
END: Final = "<!-- end of results -->"
FIGURE: Final = "overview.svg"
OVERVIEW: Final = "overview.md"
TEMPLATE: Final = Path(__file__).with_name("overview.md.j2")


def write_overview(
    found: Mapping[str, TrackResults],
    current_tracks: Mapping[str, CurrentTrack],
    judged: Sequence[ClaimVerdict],
    withdrawn: int,
    results: Path,
    readme: Path,
) -> Path:
    """Write tables and a figure: some tracks to a Markdown file, all tracks to the results.

    Args:
        found: Finished results by track.
        current_tracks: The tracks.
        judged: All judged claims.
        withdrawn: Number of withdrawn claims.
        results: The results folder.
        readme: The Markdown file, with the lines `BEGIN` and `END`.

    Returns:
        The page with the tables of all tracks.

    Raises:
        UserError: The marks are missing or name a kind of tracks that the study lacks, or a file
            cannot be read or written.
    """
    with os_error_as(f"{readme} cannot be read"):
        text = readme.read_text("utf-8")
    begin, end = re.escape(BEGIN).replace(r"\{\}", "(?: of (.+?))?"), re.escape(END)
    parts = re.fullmatch(f"(.*{begin}\n).*({end}.*)", text, re.DOTALL)
    if parts is None:
        marks = f"{BEGIN.format('')} and {END}"
        raise UserError(f"{readme} lacks the lines {marks}, which enclose the tables")
    kinds = parts[2].split(", ") if parts[2] else axes_of(current_tracks)[0]
    if unknown := [kind for kind in kinds if kind not in axes_of(current_tracks)[0]]:
        raise UserError(f"{readme}: the study has no tracks of the kind {', '.join(unknown)}")
    page = results / OVERVIEW
    try:
        write_atomically(results / FIGURE, overview_figure(found, current_tracks, kinds))
        write_page(page, overview_page(found, current_tracks), results)
        pages = relative_link(results, readme.parent)
        block = overview_block(found, current_tracks, judged, withdrawn, kinds, pages)
        write_atomically(readme, f"{parts[1]}\n{block}\n\n{parts[3]}".encode())
    except OSError as error:
        raise UserError(f"{error.filename} cannot be written: {error.strerror}") from error
    return page


def overview_page(
    found: Mapping[str, TrackResults], current_tracks: Mapping[str, CurrentTrack]
) -> str:
    """The tables of all kinds of tracks with explanations of their numbers, as Markdown.

    Args:
        found: Finished results by track.
        current_tracks: The tracks.
    """
    kinds, tasks = axes_of(current_tracks)
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
        tables=overview_tables(found, current_tracks, kinds),
        several=len(tasks) > 1,
        heading=HEADING,
        collapses=collapse_table(collapse_counts(without_sweeps(found, current_tracks))),
        pages=wrapped(
            f"With curves, gains and comparisons after equal episodes: {', '.join(pages)}."
        ),
        spent=wrapped(
            f"CPU time of {counted(len(runs), 'training run')}, tuning and evaluation included: "
            f"{spent_on}."
        ),
    )


def overview_block(
    found: Mapping[str, TrackResults],
    current_tracks: Mapping[str, CurrentTrack],
    judged: Sequence[ClaimVerdict],
    withdrawn: int,
    kinds: Sequence[str],
    pages: str,
) -> str:
    """The text between the marks: tables and a short summary, as Markdown.

    The tables have the methods of the figure, and no means over tasks.

    Args:
        found: Finished results by track.
        current_tracks: The tracks.
        judged: All judged claims.
        withdrawn: Number of withdrawn claims.
        kinds: Kinds of tracks to show, in this order.
        pages: Link to the folder of the study's pages.
    """
    grid = {kind: list(names.values()) for kind, names in grid_of(current_tracks, kinds).items()}
    tables = overview_tables(found, current_tracks, kinds, most_run(found, chain(*grid.values())))
    own = without_sweeps(found, current_tracks)
    links = f"{pages}/{CLAIMS}", f"{pages}/{OVERVIEW}#{HEADING.lower()}"
    said = headlines(own, grid, judged, withdrawn, *links)
    return "\n\n".join(filter(None, (tables, said)))
