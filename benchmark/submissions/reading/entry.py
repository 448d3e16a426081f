"""A submission as read: its checkpoints with their records, numbers and logs."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Any

from benchmark.archive import lines_of
from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.records import EpisodeRecord
from benchmark.evaluation.run_folder import parse_manifest, parse_records
from benchmark.evaluation.summarize import checked_records, summarize
from benchmark.evaluation.summary import PanelKey, PanelSummary, RunSummary
from benchmark.logs.foreign import Reading
from benchmark.logs.training_log import TrainingLog, parse_training_log
from benchmark.submissions.format.findings import Finding, Rejected, as_finding, attempt
from benchmark.submissions.format.schema import Checkpoint, StoredFile, Submission
from benchmark.submissions.reading.allowance import Allowance
from benchmark.submissions.reading.folder import (
    MAX_MANIFEST,
    coerced,
    plain_json,
    read_content,
    read_plain,
)
from benchmark.submissions.reading.foreign import read_foreign

REMAKE = "rebuild the folder with submit prepare from the original run"
MAX_LINE = 2**22
"""Maximum size of a record, or of a line of a log, in bytes."""


@dataclass(frozen=True, slots=True)
class ReadRun:
    """One run folder of a checkpoint.

    Attributes:
        path: Path relative to the submission's folder.
        manifest: Its manifest.
        records: Its records.
        summary: Summary computed from the records.
    """

    path: str
    manifest: Manifest
    records: tuple[EpisodeRecord, ...]
    summary: RunSummary


@dataclass(frozen=True, slots=True)
class ReadCheckpoint:
    """One checkpoint with its submitted files.

    Attributes:
        checkpoint: Its declaration in the submission.
        runs: Its runs.
        log: The log of its training; None if there is none.
        foreign: The content of another trainer's log; None if there is none.
    """

    checkpoint: Checkpoint
    runs: tuple[ReadRun, ...]
    log: TrainingLog | None
    foreign: Reading | None = None

    @property
    def panels(self) -> dict[PanelKey, PanelSummary]:
        """Summaries of all panels."""
        return {(p.task, p.panel): p for run in self.runs for p in run.summary.panels}


@dataclass(frozen=True, slots=True)
class Entry:
    """A successfully read submission.

    Attributes:
        folder: Its folder.
        submission: Content of its `submission.json`.
        checkpoints: Its checkpoints, sorted by seed.
    """

    folder: Path
    submission: Submission
    checkpoints: tuple[ReadCheckpoint, ...]

    @property
    def runs(self) -> list[ReadRun]:
        """The runs of all checkpoints."""
        return [run for checkpoint in self.checkpoints for run in checkpoint.runs]

    @property
    def protocol(self) -> str:
        """Name of its runs' protocol; the check refuses entries with several."""
        return self.runs[0].manifest.panels[0].public_name

    def plays(self, key: PanelKey) -> dict[str, list[bool]]:
        """Outcomes by episode of a panel, over all checkpoints and repeats."""
        return plays_of(self.runs, key)


def plays_of(runs: Iterable[ReadRun], key: PanelKey) -> dict[str, list[bool]]:
    """Outcomes by episode of a panel, over all repeats of the given runs."""
    found: dict[str, list[bool]] = {}
    for run in runs:
        for record in run.records:
            if (record.task, record.panel) == key:
                found.setdefault(record.episode, []).append(record.solved)
    return found


def read_entry(folder: Path, submission: Submission, findings: list[Finding]) -> Entry | None:
    """Read all runs and logs.

    Args:
        folder: The submission's folder, with exactly the listed files.
        submission: Content of its `submission.json`.
        findings: Findings on unreadable files are appended here.

    Returns:
        The entry; None if anything cannot be read.
    """
    files = {file.path: file for file in submission.files}
    before = len(findings)
    allowance = Allowance()
    checkpoints = []
    for checkpoint in sorted(submission.checkpoints, key=lambda point: point.seed):
        read = [
            attempt(findings, _read_run, folder, path, files, allowance) for path in checkpoint.runs
        ]
        runs = tuple(run for run in read if run is not None)
        log = None
        if checkpoint.training_log is not None:
            file = files[checkpoint.training_log]
            log = attempt(findings, _read_log, folder, file, allowance)
        foreign = None
        if checkpoint.foreign_log is not None:
            foreign = attempt(findings, read_foreign, folder, checkpoint, files, allowance)
        checkpoints.append(ReadCheckpoint(checkpoint, runs, log, foreign))
    if len(findings) > before:
        return None
    return Entry(folder, submission, tuple(checkpoints))


def _read_run(
    folder: Path, path: str, files: dict[str, StoredFile], allowance: Allowance
) -> ReadRun:
    """Read one run.

    Raises:
        Rejected: The manifest or the records are invalid, or do not belong together.
    """
    manifest = _read_manifest(folder, f"{path}/run.json")
    name = f"{path}/episodes.jsonl.zst"
    with as_finding(name, "", REMAKE):
        parsed = _records(read_content(folder, files[name]), name)
        kept = map(allowance.keep, checked_records(manifest, parsed))
        records = tuple(kept)
        return ReadRun(path, manifest, records, summarize(manifest, records))


def _records(content: Iterable[bytes], name: str) -> Iterator[EpisodeRecord]:
    """Read records without duplicate fields.

    Raises:
        Rejected: A line is too long or incomplete, or has a duplicate field.
        UserError: A line is not a record.
    """
    to_read, to_compare = tee(_lines(content, name))
    for number, record in enumerate(parse_records(to_read, name), 1):
        line = next(to_compare)
        # Lines that serialize identically, as most do, have no duplicate fields.
        if record.model_dump_json().encode() != line[:-1]:
            _plain(line, name, f"line {number}")
        yield record


def _read_manifest(folder: Path, name: str) -> Manifest:
    content = read_plain(folder, name, MAX_MANIFEST)
    with as_finding(name, "", REMAKE):
        manifest = parse_manifest(content, name)
    given = _plain(content, name, "")
    if (place := coerced(given, manifest.model_dump(mode="json"))) is not None:
        problem = "has the wrong type"
        raise Rejected(Finding(name, place, problem, REMAKE))
    return manifest


def _lines(content: Iterable[bytes], name: str) -> Iterator[bytes]:
    """The lines of a file, each with its line break.

    Raises:
        Rejected: A line is too long or has no line break.
    """
    for number, line in enumerate(lines_of(content, MAX_LINE), 1):
        where = f"line {number}"
        if len(line) > MAX_LINE:
            raise Rejected(Finding(name, where, f"is longer than {MAX_LINE:,} bytes", REMAKE))
        if not line.endswith(b"\n"):
            raise Rejected(Finding(name, where, "is incomplete", REMAKE))
        yield line


def _plain(content: bytes, name: str, where: str) -> Any:
    try:
        return plain_json(content)
    except ValueError as error:
        raise Rejected(Finding(name, where, str(error), REMAKE)) from error


def _read_log(folder: Path, file: StoredFile, allowance: Allowance) -> TrainingLog:
    fix = "send the log exactly as written by the trainer"
    content = b"".join(read_content(folder, file))
    with as_finding(file.path, "", fix):
        log = parse_training_log(content, Path(file.path))
        allowance.add(log)
    for number, line in enumerate(lines_of([content], MAX_LINE), 1):
        given = _plain(line, file.path, f"line {number}")
        if number == 1 and type(version := given.get("schema_version")) is not int:
            # The schema has a default for it, but the trainer always writes it.
            problem = "is missing" if version is None else "has the wrong type"
            raise Rejected(Finding(file.path, "line 1, schema_version", problem, fix))
    return log
