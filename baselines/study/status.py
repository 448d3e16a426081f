"""The status of a study: one row per track and recipe."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from baselines.study.cells import CellFiles
from baselines.study.methods import collapse_of, shows_collapse
from baselines.study.schema import Cell
from baselines.study.workspace import StudySetting, Survey, read_state
from benchmark.logs.training_log import LOG, read_training_log
from benchmark.stability.collapse import judged_success
from tasks.texts import counted


class StatusRow(TypedDict):
    """A recipe on a track.

    Attributes:
        track: The track.
        recipe: The recipe; `init` for the panel played with the init.
        finished: Seeds that are finished.
        running: Seeds that a process is at work on, with how far it is.
        missing: Seeds that are not.
        failed: Seeds whose last process failed, with what it said.
        outdated: Seeds whose files are of another track or protocol, with the reason.
        unchecked: Seeds whose files are there, on a track whose panels cannot be read here: nobody
            knows whether they are of its protocol.
        collapsed: Finished seeds that have collapsed; None if none has, and not all could show it
            (`shows_collapse`).
        gain: Success at the last validation minus that at the first one (`judged_success`), mean
            over finished seeds.
    """

    track: str
    recipe: str
    finished: list[int]
    running: dict[int, str]
    missing: list[int]
    failed: dict[int, str]
    outdated: dict[int, str]
    unchecked: list[int]
    collapsed: int | None
    gain: float | None


def rows_of(cells: Sequence[Cell], found: Survey, setting: StudySetting) -> list[StatusRow]:
    """The rows of a study, in its order.

    Raises:
        UserError: A log cannot be read.
    """
    rows: dict[tuple[str, str], StatusRow] = {}
    finished = {each.cell: each for each in found.finished}
    for cell in cells:
        new = StatusRow(
            track=cell.track,
            recipe=cell.recipe,
            finished=[],
            running={},
            missing=[],
            failed={},
            outdated={},
            unchecked=[],
            collapsed=None,
            gain=None,
        )
        row = rows.setdefault((cell.track, cell.recipe), new)
        folder = setting.folder(cell)
        if cell in finished:
            row["finished"].append(cell.seed)
        elif cell in found.outdated:
            row["outdated"][cell.seed] = found.outdated[cell]
        elif cell.track in setting.unread and CellFiles(setting.results, cell).facts.exists():
            row["unchecked"].append(cell.seed)
        elif (state := read_state(folder)).is_running:
            current = setting.current_tracks.get(cell.track)
            row["running"][cell.seed] = _progress(folder, current.updates if current else None)
        elif state.failure is not None:
            row["failed"][cell.seed] = state.failure
        else:
            row["missing"].append(cell.seed)
    for (track, recipe), row in rows.items():
        logs = [
            each.log
            for each in found.finished
            if (each.cell.track, each.cell.recipe) == (track, recipe) and each.log is not None
        ]
        collapsed = sum(collapse_of(log) is not None for log in logs)
        row["collapsed"] = (
            collapsed if collapsed or (logs and all(map(shows_collapse, logs))) else None
        )
        gains = [curve[-1][1] - curve[0][1] for log in logs if (curve := judged_success(log))]
        row["gain"] = statistics.fmean(gains) if gains else None
    return list(rows.values())


def _progress(folder: Path, updates: int | None) -> str:
    log = folder / LOG
    if not log.exists() or b"\n" not in log.read_bytes():
        return "begins"
    made = len(read_training_log(log, allow_torn=True).updates)
    return counted(made, "update") if updates is None else f"{made} of {updates}"
