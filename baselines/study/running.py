"""Executes the runs of a study in separate processes, some in parallel, resumed after a stop."""

import contextlib
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final, Self

from baselines.launch.child import Child, process_start
from baselines.launch.plan import STOP_SECONDS
from baselines.study.cell_of_run import EVALUATION, keep
from baselines.study.cells import Finished
from baselines.study.rates import keep_rate, known_rate, share_tuning, tuning_commands
from baselines.study.schema import INIT, Cell
from baselines.study.workspace import RunState, StudySetting, code_commit, read_state, write_state
from baselines.training.checkpoints import LAST
from benchmark.engines.core.devices import AVX2
from benchmark.files import lock_folder
from benchmark.track_schema import RateGrid
from tasks.errors import UserError, os_error_as
from tasks.texts import counted

OUTPUT: Final = "output.txt"
_TUNE, _TRAIN, _EVAL = "tune", "train", "eval"
_POLL, _SAVE = 0.2, 10.0
"""Seconds between checks of the processes, and between saves of their CPU time."""
_GRACE: Final = 60.0
"""Seconds for an evaluation to exit; its finished episodes are already on disk."""
_SAME_SIGNAL: Final = 10.0
"""Seconds within which another SIGTERM or SIGHUP counts as the same: schedulers send several."""
_FAILURES: Final = 2
"""Consecutive failures on the same GPUs after which others are preferred."""

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Job:
    """A cell in progress.

    Attributes:
        slot: Its number among concurrent cells.
    """

    cell: Cell
    slot: int
    folder: Path
    steps: Iterator[tuple[str, list[str]]]
    step: str
    child: Child
    cpu: dict[str, float]
    commits: tuple[str | None, ...]
    saved: float

    @property
    def cpu_seconds(self) -> dict[str, float]:
        """CPU time by step, including the running process."""
        before = self.cpu.get(self.step, 0.0)
        return self.cpu | {self.step: before + self.child.cpu_seconds}

    def save(self, pid: int | None, failure: str | None = None) -> None:
        """Save the state of the job."""
        began = None if pid is None else process_start(pid)
        state = RunState(
            cpu_seconds=self.cpu_seconds,
            pid=pid,
            began=began,
            failure=failure,
            commits=self.commits,
        )
        write_state(self.folder, state)
        self.saved = time.monotonic()


class _StopRequests:
    """Context manager that collects Ctrl-C, SIGTERM and SIGHUP during runs.

    Signals are only recorded, and acted on between checks of the processes: an exception between
    starting a process and recording it would leave it without a parent that waits. Ignored signals
    stay ignored (`nohup`).
    """

    def __init__(self) -> None:
        self._came: list[float] = []
        self._heeded = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def heed(self) -> None:
        """Raise KeyboardInterrupt if there is a new request."""
        if len(self._came) > self._heeded:
            self._heeded = len(self._came)
            raise KeyboardInterrupt

    def _note(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if number == signal.SIGINT or not self._came or now - self._came[0] > _SAME_SIGNAL:
            self._came.append(now)


def run_cells(
    cells: Sequence[Cell],
    setting: StudySetting,
    begun: Callable[[Cell, Path], None],
    done: Callable[[Cell, Finished], None],
    failed: Callable[[Cell, str], None],
) -> None:
    """Run unfinished cells, in order.

    If a learning rate is tuned, cells of the same track and recipe wait for the first of them: it
    makes the tuning runs, and the others use its rate.

    Args:
        cells: The cells to run.
        setting: The study's folders and options.
        begun: Called with a cell that was started or resumed, and its output file.
        done: Called with a finished cell, whose files exist.
        failed: Called with a failed cell, and the reason.

    Raises:
        UserError: Another study is running in the folder, or it cannot be written.
        KeyboardInterrupt: After Ctrl-C or SIGTERM, once all processes have exited.
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
    failures: Counter[int] = Counter()
    with _StopRequests() as stop:
        try:
            _wait_for_earlier(cells, setting, stop)
            while pending or jobs:
                stop.heed()
                while (slot := _free_slot(jobs, failures, setting)) is not None and (
                    cell := _next(pending, jobs)
                ):
                    pending.remove(cell)
                    try:
                        jobs.append(_begin(cell, slot, setting, stop))
                    except UserError as error:
                        failed(cell, str(error))
                    else:
                        begun(cell, jobs[-1].folder / OUTPUT)
                time.sleep(_POLL)
                for job in list(jobs):
                    outcome = _advance(job, setting)
                    if outcome is None:
                        continue
                    jobs.remove(job)
                    if isinstance(outcome, Finished):
                        failures[job.slot] = 0
                        done(job.cell, outcome)
                    else:
                        failures[job.slot] += 1
                        failed(job.cell, outcome)
                        _say_if_avoided(job.slot, failures, setting)
        finally:
            with contextlib.ExitStack() as last:
                # In reverse order, each even if another one fails.
                last.callback(os.close, lock)
                for job in jobs:
                    last.callback(job.save, pid=None)
                last.callback(_end, jobs, stop)


def _wait_for_earlier(cells: Sequence[Cell], setting: StudySetting, stop: _StopRequests) -> None:
    """Wait for runs of a killed study: those on GPUs still write their checkpoints."""
    running = [folder for folder in map(setting.folder, cells) if _outlived(folder)]
    if running:
        log.warning("waiting for %s of a study that was killed", counted(len(running), "run"))
    while any(map(_outlived, running)):
        stop.heed()
        time.sleep(_POLL)


def _outlived(folder: Path) -> bool:
    """Whether a run's process from an earlier study still exists."""
    try:
        state = read_state(folder)
    except UserError:
        # A damaged file is reported when its run is started.
        return False
    # If the start time is unknown, the process id may have been reused.
    return state.is_running and state.began is not None


def _free_slot(jobs: Sequence[_Job], failures: Counter[int], setting: StudySetting) -> int | None:
    """A free slot; one where runs keep failing only if there is no other."""
    slots = range(setting.jobs)
    taken = {job.slot for job in jobs}
    preferred = [slot for slot in slots if failures[slot] < _FAILURES] if setting.gpus.gpus else []
    return next((slot for slot in preferred or slots if slot not in taken), None)


def _say_if_avoided(slot: int, failures: Counter[int], setting: StudySetting) -> None:
    if setting.gpus.gpus and setting.jobs > 1 and failures[slot] == _FAILURES:
        gpus = ", ".join(setting.gpus.gpus[slot])
        text = "%d runs in a row failed on GPU %s: it is not used while runs on others succeed"
        log.warning(text, _FAILURES, gpus)


def _next(pending: Sequence[Cell], jobs: Sequence[_Job]) -> Cell | None:
    """The first cell that need not wait for another one's tuning."""
    tuning = {(job.cell.track, job.cell.recipe) for job in jobs if job.step == _TUNE}
    return next((cell for cell in pending if (cell.track, cell.recipe) not in tuning), None)


def _steps(cell: Cell, setting: StudySetting) -> Iterator[tuple[str, list[str]]]:
    """The command lines of a cell, in order."""
    current_track, folder = setting.current_tracks[cell.track], setting.folder(cell)
    share = ["--env-processes", str(setting.gpus.env_processes)]
    of_training = [*share, *setting.gpus.train_options]
    model = current_track.track.init.name
    if cell.recipe != INIT:
        if isinstance(current_track.track.learning_rate, RateGrid):
            share_tuning(cell, setting)
        if known_rate(cell, setting) is None:
            for command in tuning_commands(cell, setting):
                yield _TUNE, [*command, *of_training]
            keep_rate(cell, setting)
        train = ["train", "--track", cell.track, *setting.custom.options(cell.recipe)]
        train += ["--seed", str(cell.seed), "--out", str(folder)]
        if cell.recipe not in setting.custom.methods:
            train += ["--results", str(setting.results)]
        yield _TRAIN, [*train, *of_training]
        model = str(folder / LAST)
    evaluate = ["eval", "--model", model, *current_track.evaluation_options()]
    yield _EVAL, [*evaluate, "--out", str(folder / EVALUATION), *share]


def _start(arguments: Sequence[str], folder: Path, slot: int, setting: StudySetting) -> Child:
    """Start a step of a cell on the GPUs of its slot.

    Raises:
        UserError: The system refuses, for lack of memory or disk space.
    """
    gpus = setting.gpus
    # vLLM's child processes on a GPU would survive if their parent was killed.
    death_signal = signal.SIGTERM if gpus.gpus else signal.SIGKILL
    environment = {**AVX2, **gpus.environment(slot)}
    command = [*setting.command, *arguments]
    with os_error_as(f"{arguments[0]} cannot be started in {folder}"):
        return Child(command, folder / OUTPUT, environment, death_signal)


def _begin(cell: Cell, slot: int, setting: StudySetting, stop: _StopRequests) -> _Job:
    folder = setting.folder(cell)
    with os_error_as(f"{folder} cannot be written"):
        folder.mkdir(parents=True, exist_ok=True)
    steps = _steps(cell, setting)
    step, arguments = next(steps)
    state = read_state(folder)
    begun_before = bool(state.cpu_seconds) and not state.commits
    commits = _with_this_one((None,) if begun_before else state.commits)
    child = _start(arguments, folder, slot, setting)
    job = _Job(cell, slot, folder, steps, step, child, state.cpu_seconds, commits, time.monotonic())
    try:
        job.save(child.pid)
    except BaseException:
        _end([job], stop)
        raise
    return job


def _advance(job: _Job, setting: StudySetting) -> Finished | str | None:
    """Check a job's process, and start the next one if it has exited.

    Returns:
        The finished cell, or why the job failed; None if it continues.
    """
    code = job.child.poll()
    if code is None:
        if time.monotonic() - job.saved > _SAVE:
            job.save(job.child.pid)
        return None
    job.save(pid=None)
    if code != 0:
        how = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
        output = job.folder / OUTPUT
        reason = f"{job.step} ended with {how}: {_last_line(output)}; see {output}"
        job.save(pid=None, failure=reason)
        return reason
    try:
        following = next(job.steps, None)
        if following is None:
            return keep(job.cell, setting)
        child = _start(following[1], job.folder, job.slot, setting)
    except UserError as error:
        job.save(pid=None, failure=str(error))
        return str(error)
    job.cpu = job.cpu_seconds
    job.step, job.child = following[0], child
    job.commits = _with_this_one(job.commits)
    job.save(job.child.pid)
    return None


def _with_this_one(commits: tuple[str | None, ...]) -> tuple[str | None, ...]:
    """The commits of a run, including that of the current code."""
    now = code_commit()
    return commits if now is None or now in commits[-1:] else (*commits, now)


def _last_line(path: Path) -> str:
    """The last line of a process's output."""
    lines = path.read_text("utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")


def _end(jobs: Sequence[_Job], stop: _StopRequests) -> None:
    """Stop processes where they can be resumed, and kill those that do not exit in time."""
    for job in jobs:
        job.child.ask_to_stop()
    if left := _running(jobs):
        log.warning(
            "stopping %s where it can be resumed, which can take minutes (Ctrl-C again: at once)",
            counted(len(left), "run"),
        )
    began = time.monotonic()
    try:
        while left := _running(jobs):
            stop.heed()
            for job in left:
                grace = _GRACE if job.step == _EVAL else STOP_SECONDS
                if time.monotonic() - began > grace:
                    job.child.kill()
            time.sleep(_POLL)
    except KeyboardInterrupt:
        for job in jobs:
            job.child.kill()
        while _running(jobs):
            time.sleep(_POLL)


def _running(jobs: Sequence[_Job]) -> list[_Job]:
    return [job for job in jobs if job.child.poll() is None]
