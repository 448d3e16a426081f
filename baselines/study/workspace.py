"""The environment of a study: its folders, the state of its runs, its finished cells."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from baselines.launch.child import process_start
from baselines.launch.slots import NO_GPUS, GpuSlots
from baselines.study.cells import Finished, init_cell, outdated, read_cell, stem
from baselines.study.current_tracks import CurrentTrack
from baselines.study.custom import SHIPPED_ONLY, CustomMethods
from baselines.study.schema import Cell
from benchmark.files import write_atomically
from tasks.errors import UserError, os_error_as
from tasks.strict import Strict, first_fault

COMMAND = (sys.executable, "-m", "benchmark.cli")
"""Command that runs this program in a separate process."""
STATE: Final = "study.json"
_ROOT: Final = Path(__file__).parents[2]
_CODE: Final = ("baselines", "benchmark", "tasks")
_METHODS: Final = tuple(
    f"baselines/{each}" for each in ("algorithms", "learning", "recipes", "rollouts")
)
_RESULTS: Final = "baselines/results"
"""Written by studies, so changes there are not code changes."""


@dataclass(frozen=True, slots=True)
class StudySetting:
    """A study's tracks, folders and options.

    Attributes:
        current_tracks: Its tracks, by name.
        out: Folder of the runs.
        results: Folder of the finished cells.
        jobs: Number of concurrent runs.
        command: Beginning of every command line: the program itself.
        custom: Methods that are not shipped.
        gpus: Of its runs.
        unread: Tracks that are not among the current ones, since their panels cannot be read here,
            with the reason.
    """

    current_tracks: Mapping[str, CurrentTrack]
    out: Path
    results: Path
    jobs: int
    command: tuple[str, ...]
    custom: CustomMethods = SHIPPED_ONLY
    gpus: GpuSlots = NO_GPUS
    unread: Mapping[str, str] = field(default_factory=dict)

    def folder(self, cell: Cell) -> Path:
        """Folder of a cell's run."""
        return self.out / cell.track / self.custom.stem(cell.recipe, stem(cell))


@dataclass(frozen=True, slots=True)
class Survey:
    """The existing cells of a study.

    Attributes:
        finished: Cells with files, for the current tracks and methods.
        outdated: Other cells with files, with the reason.
        missing: The rest, in order.
    """

    finished: tuple[Finished, ...]
    outdated: Mapping[Cell, str]
    missing: tuple[Cell, ...]


def with_inits(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells, with each track's init before its first run."""
    return tuple(dict.fromkeys(each for cell in cells for each in (init_cell(cell.track), cell)))


def survey(
    cells: Sequence[Cell],
    current_tracks: Mapping[str, CurrentTrack],
    results: Path,
    custom: CustomMethods = SHIPPED_ONLY,
) -> Survey:
    """Look up which cells are finished.

    Args:
        cells: The cells to look up.
        current_tracks: Their tracks, by name.
        results: Folder of the finished cells.
        custom: Methods that are not shipped; runs of other methods are not checked for changes.

    Raises:
        UserError: A file is damaged.
    """
    finished, old, missing = [], {}, []
    for cell in cells:
        found = read_cell(results, cell)
        if found is None:
            missing.append(cell)
            continue
        current_track = current_tracks[cell.track]
        reason = outdated(
            found.facts, current_track.track.sha256, current_track.validation.fingerprint
        ) or custom.changed(found, current_track.track)
        if reason is None:
            finished.append(found)
        else:
            old[cell] = reason
    return Survey(tuple(finished), old, tuple(missing))


class RunState(Strict):
    """State of a run, stored in its folder.

    Attributes:
        cpu_seconds: CPU time by step, over all sessions.
        pid: Id of its process; one that no longer exists was killed.
        began: Start time of the process (`process_start`), which distinguishes it from a later one
            with the same id; null in files of older versions.
        failure: Why the last process failed; null if it did not.
        commits: Commits of the code with which its processes started (`code_commit`), in order and
            without repetitions; empty outside a checkout. Null if it started before this was
            recorded.
    """

    cpu_seconds: dict[str, float]
    pid: int | None
    began: int | None = None
    failure: str | None
    commits: tuple[str | None, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether its process still exists."""
        if self.pid is None:
            return False
        began = process_start(self.pid)
        return began is not None and self.began in (began, None)


def read_state(folder: Path) -> RunState:
    """Read the state of the run in a folder.

    Raises:
        UserError: The file is damaged.
    """
    path = folder / STATE
    try:
        return RunState.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return RunState(cpu_seconds={}, pid=None, failure=None)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        reason = first_fault(error)
        raise UserError(f"{path}: {reason}; remove it to count the time from 0") from error


def code_commit() -> str | None:
    """The commit of the code, with `-dirty` if files have changed or are not committed.

    None outside a checkout.
    """
    try:
        commit = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", *_CODE, f":(exclude){_RESULTS}")
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return f"{commit}-dirty" if changed else commit


def changed_methods() -> tuple[str, ...]:
    """Files of shipped methods that differ from the commit; empty outside a checkout.

    New files are not included, because they do not change existing methods.
    """
    try:
        changed = _git("diff", "--name-only", "HEAD", "--", *_METHODS, ":(exclude)*.md")
    except (FileNotFoundError, subprocess.CalledProcessError):
        return ()
    return tuple(changed.splitlines())


def _git(*arguments: str) -> str:
    found = subprocess.run(  # noqa: S603 - our own command
        ["git", *arguments],  # noqa: S607 - the user's git
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


def write_state(folder: Path, state: RunState) -> None:
    """Write the state of the run in a folder.

    Raises:
        UserError: It cannot be written.
    """
    with os_error_as(f"{folder / STATE} cannot be written"):
        write_atomically(folder / STATE, state.model_dump_json(indent=1).encode() + b"\n")
