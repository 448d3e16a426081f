"""The check of a submission: what an author runs, and what decides on a pull request."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmark.metrics import summary_json
from benchmark.replay import replay_run
from benchmark.submissions.changes import check_changes
from benchmark.submissions.copies import check_copies
from benchmark.submissions.entry import REMAKE, Entry, ReadRun, read_entry
from benchmark.submissions.findings import Finding, Rejected, attempt
from benchmark.submissions.folder import (
    check_inventory,
    check_readme,
    list_files,
    read_plain,
    read_submission,
)
from benchmark.submissions.log_checks import check_logs
from benchmark.submissions.protocol_checks import check_protocol
from benchmark.submissions.record_checks import check_records
from tasks.errors import UserError

MAX_SHOWN = 10
"""Findings of one run's replay that are spelt out; the others are counted."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check has found.

    Attributes:
        folder: The submission's folder.
        findings: Objections; none means that it is accepted.
        entry: The submission; None if it could not be read.
        replayed: Episodes that were executed again.
        doubts: Turns that a replay could neither confirm nor refute.
    """

    folder: Path
    findings: tuple[Finding, ...]
    entry: Entry | None
    replayed: int
    doubts: int

    @property
    def accepted(self) -> bool:
        """Whether there is nothing to object to."""
        return not self.findings


def check_submission(
    folder: Path,
    inits: Mapping[str, str | None],
    others: Sequence[Entry] = (),
    base: str | None = None,
    env_processes: int | None = None,
) -> Verdict:
    """Check a submission, all of it.

    Args:
        folder: Its folder. Nothing in it is trusted.
        inits: SHA-256 of the registered inits by name, where it is pinned.
        others: Submissions that are there already.
        base: Commit or branch that a pull request goes to; None to leave out what it changes.
        env_processes: See `replay_run`.

    Raises:
        UserError: The check itself cannot be made (a task's data is not here, git fails).
    """
    findings: list[Finding] = []
    entry = None
    try:
        entry = _read(folder, findings)
    except Rejected as rejected:
        findings.append(rejected.finding)
    replayed = doubts = 0
    if entry is not None:
        findings += check_protocol(entry, inits)
        if not findings:
            # Of other panels than the installed ones there is nothing to replay.
            for run in entry.runs:
                problems, doubted = _replay(run, env_processes)
                findings += problems
                findings += _check_summary(folder, run)
                if not problems:
                    findings += check_records(run, env_processes)
                replayed += len(run.records)
                doubts += doubted
        findings += check_logs(entry)
        findings += check_copies(entry, others)
    if base is not None:
        findings += check_changes(folder, base)
    return Verdict(folder, tuple(findings), entry, replayed, doubts)


def read_accepted(folder: Path) -> Entry:
    """Read a submission that was accepted before, without replaying it.

    Raises:
        UserError: It cannot be read.
    """
    findings: list[Finding] = []
    try:
        entry = _read(folder, findings)
    except Rejected as rejected:
        findings.append(rejected.finding)
        entry = None
    if entry is None:
        raise UserError(f"{folder}: {findings[0].text}")
    return entry


def _read(folder: Path, findings: list[Finding]) -> Entry | None:
    """Read a folder as far as it can be trusted.

    Raises:
        Rejected: It is not worth reading on.
    """
    there = list_files(folder)
    submission = read_submission(folder)
    if submission.date.replace("-", "") != folder.name[:8]:
        problem = f"{submission.date}, the folder is called {folder.name}"
        findings.append(Finding("submission.json", "date", problem, "make them agree"))
    inventory = check_inventory(folder, there, submission)
    findings += inventory
    findings += check_readme(folder)
    return None if inventory else read_entry(folder, submission, findings)


def _replay(run: ReadRun, env_processes: int | None) -> tuple[list[Finding], int]:
    """Execute all episodes of a run again.

    Returns:
        Where they differ from the records, and how many turns are in doubt.
    """
    name = f"{run.path}/episodes.jsonl.zst"
    doubts, differing = 0, 0
    findings: list[Finding] = []
    for replay in replay_run(run.manifest, run.records, env_processes):
        doubts += len(replay.doubts)
        if replay.differences:
            differing += 1
            if len(findings) < MAX_SHOWN:
                key = "/".join(map(str, replay.record.key))
                problem = f"does not hold: {replay.differences[0]}"
                findings.append(Finding(name, key, problem, REMAKE))
    if differing > MAX_SHOWN:
        problem = f"{differing} of {len(run.records)} records do not hold"
        findings.append(Finding(name, "", problem, REMAKE))
    return findings, doubts


def _check_summary(folder: Path, run: ReadRun) -> Iterator[Finding]:
    name = f"{run.path}/summary.json"
    content = attempt([], read_plain, folder, name)
    if content != summary_json(run.summary).encode():
        problem = "is not what the records give"
        yield Finding(name, "", problem, "run arlarena-bench report on the run, and prepare again")
