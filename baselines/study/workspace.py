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
"""The program itself, as a process of its own."""
STATE: Final = "study.json"
_ROOT: Final = Path(__file__).parents[2]
_CODE: Final = ("baselines", "benchmark", "tasks")
_METHODS: Final = tuple(
    f"baselines/{each}" for each in ("algorithms", "learning", "recipes", "rollouts")
)
_RESULTS: Final = "baselines/results"
"""Written by studies, so that a change there is not one of the code."""


@dataclass(frozen=True, slots=True)
class StudySetting:
    """Where and how a study is run.

    Attributes:
        current_tracks: Its tracks, by name.
        out: Folder of the runs.
        results: Folder of the finished cells.
        jobs: Runs at a time.
        command: What begins every command line; the program itself.
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
    """What there is of a study.

    Attributes:
        finished: Cells whose files are there, of today's tracks and methods.
        outdated: Others whose files are there, with the reason.
        missing: The rest, in order.
    """

    finished: tuple[Finished, ...]
    outdated: Mapping[Cell, str]
    missing: tuple[Cell, ...]


def with_inits(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells, each track's init before the first of its runs."""
    return tuple(dict.fromkeys(each for cell in cells for each in (init_cell(cell.track), cell)))


def survey(
    cells: Sequence[Cell],
    current_tracks: Mapping[str, CurrentTrack],
    results: Path,
    custom: CustomMethods = SHIPPED_ONLY,
) -> Survey:
    """Look up which cells are finished.

    Args:
        cells: What is looked for.
        current_tracks: Their tracks, by name.
        results: Folder of the finished cells.
        custom: Methods that are not shipped; runs of others count as they are.

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
    """How a run stands, in its folder.

    Attributes:
        cpu_seconds: Processor time by step, over all sessions.
        pid: Process that is at work on it; one that no longer exists was killed.
        began: When it began (`process_start`), which tells it from a later process of its number;
            null in files of older versions.
        failure: Why the last process failed; null if it did not.
        commits: Of the code that its processes began with (`code_commit`), in order, repetitions
            left out; none outside of a checkout. Null: begun before this was noted.
    """

    cpu_seconds: dict[str, float]
    pid: int | None
    began: int | None = None
    failure: str | None
    commits: tuple[str | None, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether the process that was at work on it still is."""
        if self.pid is None:
            return False
        began = process_start(self.pid)
        return began is not None and self.began in (began, None)


def read_state(folder: Path) -> RunState:
    """How the run in a folder stands.

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
    """The commit of the code, `-dirty` if a file of it has changed or is not in the commit.

    None outside of a checkout.
    """
    try:
        commit = _git("rev-parse", "HEAD")
        changed = _git("status", "--porcelain", "--", *_CODE, f":(exclude){_RESULTS}")
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return f"{commit}-dirty" if changed else commit


def changed_methods() -> tuple[str, ...]:
    """Files of shipped methods that differ from the commit; none outside of a checkout.

    New files are not among them: they change no method that is there.
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
    """Write down how the run in a folder stands.

    Raises:
        UserError: It cannot be written.
    """
    with os_error_as(f"{folder / STATE} cannot be written"):
        write_atomically(folder / STATE, state.model_dump_json(indent=1).encode() + b"\n")
