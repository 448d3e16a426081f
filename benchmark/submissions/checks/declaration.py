"""Checks what a submission declares: dates, training streams, the init and its size."""

import re
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Final

from benchmark.models import ModelIdentity
from benchmark.submissions.checks.context import Context
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import README, SUBMISSION
from benchmark.submissions.reading.entry import Entry
from benchmark.submissions.reading.folder import MAX_README, read_plain
from tasks.errors import suggestion
from tasks.registry import task_names
from tasks.texts import on_one_line

STREAMS = "training_data.training_streams"
ANYWHERE: Final = timedelta(days=1)
"""Maximum difference of dates at one time: a submission has its author's local date, a run UTC."""
_CLAIM: Final = re.compile(
    r"\b(re-?runs?|re-?ran|replayed|trained again|verified|official|SOTA|state of the art"
    r"|\d+(\.\d+)? ?%)",
    re.IGNORECASE,
)
"""Words of badges, and percentages, which only the board computes from the records."""
_MOST_CLAIMS: Final = 3
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)", re.ASCII)


def check_declaration(entry: Entry, context: Context) -> Iterator[Finding]:
    """Compare a declaration with the facts that are known."""
    yield from _check_streams(entry)
    yield from _check_base(entry, context.shipped)
    context.notes += _claims(entry.folder)


def _check_streams(entry: Entry) -> Iterator[Finding]:
    """Check that streams are existing tasks, and that they include the tasks of the logs."""
    data = entry.submission.training_data
    if data is None:
        return
    names = task_names()
    for stream in data.training_streams:
        if stream not in names:
            problem = f"there is no task {stream!r}{suggestion(stream, names)}"
            yield Finding(
                SUBMISSION, STREAMS, problem, "use the names listed by `arlarena-bench tasks`"
            )
    logged: dict[str, str] = {}
    for point in entry.checkpoints:
        if point.log is not None:
            for task in point.log.start.task.split("+"):
                logged.setdefault(task, str(point.log.path))
    for task, log in logged.items():
        if task not in data.training_streams:
            problem = f"{task} is missing, but {log} is from training on it"
            yield Finding(SUBMISSION, STREAMS, problem, f"add {task}")


def _check_base(entry: Entry, shipped: Mapping[str, int]) -> Iterator[Finding]:
    """Check that base model and size are those of the init, if it is a shipped one."""
    said = entry.submission
    init = _start(entry)
    if init is None or init.kind != "init" or init.name not in shipped:
        return
    if said.base_model != init.name:
        problem = f"{said.base_model}, but the weights come from the init {init.name}"
        yield Finding(SUBMISSION, "base_model", problem, f"write {init.name}")
    weights = shipped[init.name]
    if said.parameters != weights:
        problem = f"{said.parameters:,}, the init {init.name} has {weights:,} weights"
        yield Finding(SUBMISSION, "parameters", problem, f"write {weights}")


def _start(entry: Entry) -> ModelIdentity | None:
    """The init that the weights come from or are; None for a policy."""
    if entry.submission.method.kind == "init":
        return entry.checkpoints[0].checkpoint.model
    return entry.submission.init


def _claims(folder: Path) -> list[str]:
    """Claims in an entry's README that only the board can make, for reviewers."""
    notes = []
    text = read_plain(folder, README, MAX_README).decode("utf-8", "replace")
    for number, line in enumerate(text.split("\n"), 1):
        if (claim := _CLAIM.search(line)) is not None:
            said = on_one_line(claim[0])
            notes.append(f"{README}, line {number}, says {said!r}: only the board says such things")
    return notes[:_MOST_CLAIMS]


def check_dates(entry: Entry, today: date) -> list[Finding]:
    """Check that a submission is not dated in the future, nor before its runs and logs.

    Args:
        entry: The submission.
        today: Current day, UTC.
    """
    findings = []
    day = date.fromisoformat(entry.submission.date)
    if day - today > ANYWHERE:
        problem, fix = (
            f"{day} is in the future",
            "give the day of the submission, also in the folder's name",
        )
        findings.append(Finding(SUBMISSION, "date", problem, fix))
    began = {f"{run.path}/run.json": run.manifest.created for run in entry.runs}
    logs = [point.log for point in entry.checkpoints if point.log is not None]
    began |= {str(log.path): log.start.created for log in logs}
    for file, created in began.items():
        at = _day(created)
        fix = "send the original file, with a submission date that is not before it"
        if at is None:
            problem = f"{created!r} is not a UTC time"
            findings.append(Finding(file, "created", problem, fix))
        elif at - day > ANYWHERE:
            problem = f"{created} is after the submission date {day}"
            findings.append(Finding(file, "created", problem, fix))
    for point in entry.checkpoints:
        trained = _day(point.log.start.created) if point.log is not None else None
        for run in point.runs:
            played = _day(run.manifest.created)
            if trained is not None and played is not None and trained - played > ANYWHERE:
                problem = f"{run.manifest.created} is before the training run began, on {trained}"
                fix = "send the evaluation of the checkpoint that this training run wrote"
                findings.append(Finding(f"{run.path}/run.json", "created", problem, fix))
    return findings


def _day(created: str) -> date | None:
    """The day of a run's or log's start time; None if the time is invalid."""
    if not _TIME.fullmatch(created):
        return None
    try:
        return datetime.fromisoformat(created).date()
    except ValueError:
        return None
