"""Making the runs of a study: each in a process of its own, some at a time, resumed where stopped."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

from pydantic import TypeAdapter

from baselines.checkpoints import LAST
from baselines.study.cells import (
    INIT,
    Facts,
    Finished,
    Place,
    init_cell,
    outdated,
    read_cell,
    record_lines,
    stem,
    write_cell,
)
from baselines.study.child import GRACE, Child
from baselines.study.ground import Ground
from baselines.study.rates import keep_rate, known_rate, share_tuning, tuning_commands
from baselines.study.schema import Cell
from benchmark.files import lock_folder, write_atomically
from benchmark.models import folder_sha256
from benchmark.run_folder import read_manifest
from benchmark.training_log import LOG, read_training_log
from benchmark.tracks import RateGrid
from benchmark.versions import versions
from tasks.errors import UserError

COMMAND: Final = (sys.executable, "-m", "benchmark.cli")
OUTPUT: Final = "output.txt"
EVALUATION: Final = "eval"
_CPU: Final = "cpu.json"
_POLL, _SAVE = 0.2, 10.0
"""Seconds between two looks at the processes, and between two savings of their processor time."""
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Setting:
    """Where and how a study is run.

    Attributes:
        grounds: Its tracks, by name.
        out: Folder of the runs.
        results: Folder of the finished cells.
        jobs: Runs at a time.
        command: What begins every command line; the program itself.
    """

    grounds: Mapping[str, Ground]
    out: Path
    results: Path
    jobs: int
    command: tuple[str, ...] = COMMAND

    def folder(self, cell: Cell) -> Path:
        """Folder of a cell's run."""
        return self.out / cell.track / stem(cell)


@dataclass(frozen=True, slots=True)
class Survey:
    """What there is of a study.

    Attributes:
        finished: Cells whose files are there and of today.
        outdated: Others whose files are there, with the reason.
        missing: The rest, in order.
    """

    finished: tuple[Finished, ...]
    outdated: Mapping[Cell, str]
    missing: tuple[Cell, ...]


def with_inits(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The cells, each track's init before the first of its runs."""
    return tuple(dict.fromkeys(each for cell in cells for each in (init_cell(cell.track), cell)))


def survey(cells: Sequence[Cell], grounds: Mapping[str, Ground], results: Path) -> Survey:
    """Look up which cells are finished.

    Raises:
        UserError: A file is damaged.
    """
    finished, old, missing = [], {}, []
    for cell in cells:
        found = read_cell(results, cell)
        if found is None:
            missing.append(cell)
            continue
        ground = grounds[cell.track]
        reason = outdated(found.facts, ground.track.sha256, ground.validation.fingerprint)
        if reason is None:
            finished.append(found)
        else:
            old[cell] = reason
    return Survey(tuple(finished), old, tuple(missing))


@dataclass(slots=True)
class _Job:
    """A cell that is being made."""

    cell: Cell
    steps: Iterator[tuple[str, list[str]]]
    step: str
    child: Child
    cpu: dict[str, float]
    saved: float

    @property
    def cpu_seconds(self) -> dict[str, float]:
        """Processor time by step, that of the running process included."""
        before = self.cpu.get(self.step, 0.0)
        return self.cpu | {self.step: before + self.child.cpu_seconds}


def run_cells(
    cells: Sequence[Cell],
    setting: Setting,
    done: Callable[[Cell, Finished], None],
    failed: Callable[[Cell, str], None],
) -> None:
    """Make cells that are not finished, in order.

    Cells of one track and recipe wait for the first of them where a learning rate is tuned: it
    makes the short trainings, and the others take its rate.

    Args:
        cells: What is made.
        setting: Where and how.
        done: Told of a cell that is finished; its files are there.
        failed: Told of a cell that failed, and why.

    Raises:
        UserError: Another study is run in the folder, or it cannot be written.
        KeyboardInterrupt: After Ctrl-C or SIGTERM, when all processes have ended.
    """
    try:
        setting.out.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(setting.out)
    except BlockingIOError:
        raise UserError(f"{setting.out} is in use by another study; wait for it") from None
    except OSError as error:
        raise UserError(f"{setting.out} cannot be written: {error.strerror}") from error
    jobs: list[_Job] = []
    pending = list(cells)
    try:
        with _interrupted_by(signal.SIGTERM):
            while pending or jobs:
                while len(jobs) < setting.jobs and (cell := _next(pending, jobs, setting)):
                    pending.remove(cell)
                    jobs.append(_begin(cell, setting))
                time.sleep(_POLL)
                for job in list(jobs):
                    if not _advance(job, setting, done, failed):
                        jobs.remove(job)
    finally:
        _end([job.child for job in jobs])
        for job in jobs:
            _save_cpu(job, setting)
        os.close(lock)


def _next(pending: Sequence[Cell], jobs: Sequence[_Job], setting: Setting) -> Cell | None:
    """The first cell that does not wait for another one's tuning."""
    busy = {(job.cell.track, job.cell.recipe) for job in jobs}
    for cell in pending:
        waits = (cell.track, cell.recipe) in busy and _tunes(cell, setting)
        if not waits:
            return cell
    return None


def _tunes(cell: Cell, setting: Setting) -> bool:
    """Whether a run has to find its learning rate first."""
    track = setting.grounds[cell.track].track
    return cell.recipe != INIT and known_rate(setting.results, track, cell.recipe) is None


def _steps(cell: Cell, setting: Setting) -> Iterator[tuple[str, list[str]]]:
    """The command lines of a cell, in order."""
    ground, folder = setting.grounds[cell.track], setting.folder(cell)
    alone = ["--env-processes", "1"]
    model = ground.track.init.name
    if cell.recipe != INIT:
        if isinstance(ground.track.learning_rate, RateGrid):
            share_tuning(folder, cell.recipe)
        if _tunes(cell, setting):
            for command in tuning_commands(ground.track, folder, cell.recipe):
                yield "tune", [*command, *alone]
            keep_rate(setting.results, ground.track, folder, cell.recipe)
        train = ["train", "--track", cell.track, "--recipe", cell.recipe, "--seed", str(cell.seed)]
        yield "train", [*train, "--out", str(folder), *alone]
        model = str(folder / LAST)
    evaluate = ["eval", "--model", model, *ground.evaluation_options()]
    yield "eval", [*evaluate, "--out", str(folder / EVALUATION), *alone]


def _begin(cell: Cell, setting: Setting) -> _Job:
    folder = setting.folder(cell)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error.strerror}") from error
    steps = _steps(cell, setting)
    step, arguments = next(steps)
    child = Child([*setting.command, *arguments], folder / OUTPUT)
    return _Job(cell, steps, step, child, read_cpu(folder), time.monotonic())


def _advance(
    job: _Job,
    setting: Setting,
    done: Callable[[Cell, Finished], None],
    failed: Callable[[Cell, str], None],
) -> bool:
    """Look at a job's process and begin the next one; whether the job goes on."""
    code = job.child.poll()
    if code is None:
        if time.monotonic() - job.saved > _SAVE:
            _save_cpu(job, setting)
        return True
    _save_cpu(job, setting)
    folder = setting.folder(job.cell)
    if code != 0:
        how = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
        failed(job.cell, f"{job.step} ended with {how}: {_last_line(folder)}; see {folder / OUTPUT}")
        return False
    try:
        following = next(job.steps, None)
        if following is None:
            done(job.cell, keep(job.cell, setting))
            return False
    except UserError as error:
        failed(job.cell, str(error))
        return False
    job.cpu = job.cpu_seconds
    job.step, arguments = following
    job.child = Child([*setting.command, *arguments], folder / OUTPUT)
    return True


def keep(cell: Cell, setting: Setting) -> Finished:
    """Write the files of a cell whose run has come to its end.

    Raises:
        UserError: The run is not the cell's, is not whole, or the files cannot be written.
    """
    folder, ground = setting.folder(cell), setting.grounds[cell.track]
    evaluation = folder / EVALUATION
    manifest = read_manifest(evaluation)
    weights = manifest.model.sha256
    log = read_training_log(folder / LOG) if cell.recipe != INIT else None
    if manifest.fingerprint != ground.validation.fingerprint:
        raise UserError(f"{evaluation} was played under another protocol; remove {folder}")
    if log is not None:
        if log.start.track != ground.track.claim:
            raise UserError(f"{folder} is not a run on today's track {cell.track}; remove it")
        if (log.start.recipe, log.start.seed) != (cell.recipe, cell.seed):
            raise UserError(f"{folder} is a run of {log.start.recipe} seed {log.start.seed}")
        if len(log.updates) != ground.updates:
            raise UserError(f"{folder / LOG} has {len(log.updates)} of {ground.updates} updates")
        if weights != folder_sha256(folder / LAST):
            raise UserError(f"{evaluation} was not played by {folder / LAST}; remove {evaluation}")
    assert weights is not None
    rate = None if log is None else log.start.configuration["optimisation"]["learning_rate"]
    facts = Facts(
        track=ground.track.claim,
        recipe=cell.recipe,
        seed=cell.seed,
        learning_rate=rate,
        weights=weights,
        cpu_seconds={step: round(value, 1) for step, value in read_cpu(folder).items()},
        log_bytes=None if log is None else (folder / LOG).stat().st_size,
        episodes_bytes=len(record_lines(evaluation)),
        evaluation=manifest,
        versions=versions(),
        commit=_commit(),
    )
    write_cell(Place(setting.results, cell), facts, folder, evaluation)
    finished = read_cell(setting.results, cell)
    assert finished is not None
    return finished


def read_cpu(folder: Path) -> dict[str, float]:
    """Processor time of a run so far, by step, in seconds.

    Raises:
        UserError: The file is damaged.
    """
    path = folder / _CPU
    if not path.exists():
        return {}
    try:
        return TypeAdapter(dict[str, float]).validate_json(path.read_bytes())
    except ValueError as error:
        raise UserError(f"{path} is damaged; remove it to count from 0") from error


def _save_cpu(job: _Job, setting: Setting) -> None:
    path = setting.folder(job.cell) / _CPU
    content = TypeAdapter(dict[str, float]).dump_json(job.cpu_seconds)
    try:
        write_atomically(path, content)
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error
    job.saved = time.monotonic()


def _last_line(folder: Path) -> str:
    """The last line that a process has printed."""
    lines = (folder / OUTPUT).read_text("utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")


def _end(children: Sequence[Child]) -> None:
    """End processes in order, and those that do not end in time at once."""
    for child in children:
        child.ask_to_stop()
    deadline = time.monotonic() + GRACE
    while any(child.poll() is None for child in children):
        if time.monotonic() > deadline:
            for child in children:
                child.kill()
        time.sleep(_POLL)


@contextlib.contextmanager
def _interrupted_by(number: signal.Signals) -> Iterator[None]:
    """Treat a signal as Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(number, interrupt)
    try:
        yield
    finally:
        signal.signal(number, before)


def _commit() -> str | None:
    """The commit of the code, with `-dirty` where files were changed; None outside of a checkout."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        found = subprocess.run(  # noqa: S603 - our own command
            command, cwd=_ROOT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return found.stdout.strip() or None
