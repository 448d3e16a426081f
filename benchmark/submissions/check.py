"""The check of a submission: run by authors, and decisive for pull requests."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmark.submissions.checks.accepted_entries import AcceptedEntry, UnreadableEntry
from benchmark.submissions.checks.changes import check_changes
from benchmark.submissions.checks.context import Check, Context
from benchmark.submissions.checks.copies import check_copies
from benchmark.submissions.checks.declaration import check_declaration
from benchmark.submissions.checks.hub import check_hub
from benchmark.submissions.checks.logs import check_foreign_logs, check_logs
from benchmark.submissions.checks.protocol import check_protocol
from benchmark.submissions.checks.replay import check_replay
from benchmark.submissions.checks.results import Peer
from benchmark.submissions.checks.tracks import check_tracks
from benchmark.submissions.format.findings import Finding, Rejected, attempt
from benchmark.submissions.format.schema import FOLDER_NAME
from benchmark.submissions.reading.entry import Entry, read_entry
from benchmark.submissions.reading.folder import (
    check_inventory,
    check_readme,
    list_files,
    read_submission,
)
from tasks.errors import UserError, os_error_as


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    Attributes:
        folder: The submission's folder.
        findings: Objections; the submission is accepted if there are none.
        entry: The submission; None if it could not be read.
        replayed: Number of replayed episodes.
        doubts: Number of turns that a replay could neither confirm nor refute.
        peers: The submissions that it was compared with.
        notes: Omissions, one line each, such as entries that could not be compared with and models
            that could not be looked up.
    """

    folder: Path
    findings: tuple[Finding, ...]
    entry: Entry | None
    replayed: int
    doubts: int
    peers: tuple[Peer, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether there are no objections."""
        return not self.findings

    @property
    def waits(self) -> bool:
        """Whether only a rerun by maintainers is missing."""
        return bool(self.findings) and all(each.until_rerun for each in self.findings)


CHECKS: Final[tuple[Check, ...]] = (
    check_protocol,
    check_replay,
    check_declaration,
    check_logs,
    check_foreign_logs,
    check_tracks,
    check_copies,
    check_hub,
)
"""The checks of an entry that could be read, in order."""


def check_submission(
    folder: Path,
    context: Context,
    base: str | None = None,
    head: str = "HEAD",
    repository: Path | None = None,
) -> CheckResult:
    """Run all checks on a submission.

    Args:
        folder: Its folder. Nothing in it is trusted.
        context: Context of the checks, for one submission only.
        base: Target commit or branch of a pull request; None to skip the check of its changes.
        head: Last commit of the pull request.
        repository: Root of a clone with both; None for the clone that contains the folder.

    Raises:
        UserError: The check cannot be run (a task's data is missing, git fails).
    """
    findings: list[Finding] = []
    entry = None
    try:
        entry = _read(folder, findings)
    except Rejected as rejected:
        findings.append(rejected.finding)
    if base is not None:
        # Before any replay, so that changes to other files are reported immediately.
        findings += attempt(findings, check_changes, folder, base, head, repository) or []
    if entry is not None:
        for check in CHECKS:
            context.sound = not findings
            findings += check(entry, context)
    return CheckResult(
        folder,
        tuple(findings),
        entry,
        context.replayed,
        context.doubts,
        tuple(context.peers),
        tuple(context.notes),
    )


def read_accepted(folder: Path) -> Entry:
    """Read a previously accepted submission, without replaying it.

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


def read_others(
    submissions: Path, folder: Path | None = None
) -> Iterator[AcceptedEntry | UnreadableEntry]:
    """Read the submissions of a folder lazily.

    Unreadable submissions are named, and the others are still compared, so that an author who
    withdraws files of an entry cannot block everybody else's submissions.

    Args:
        submissions: The folder of submissions.
        folder: A submission to skip.

    Raises:
        UserError: The folder cannot be listed.
    """
    with os_error_as(f"{submissions} cannot be listed"):
        places = sorted(submissions.iterdir())
    but = folder if folder is not None and folder.exists() else None
    for place in places:
        if FOLDER_NAME.fullmatch(place.name):
            try:
                if but is None or not (place.exists() and place.samefile(but)):
                    yield AcceptedEntry.of(read_accepted(place))
            except UserError as error:
                yield UnreadableEntry(place.name, str(error).removeprefix(f"{place}: "))
            except OSError as error:
                yield UnreadableEntry(place.name, f"cannot be read: {error.strerror}")


def _read(folder: Path, findings: list[Finding]) -> Entry | None:
    """Read a folder, and stop at the first fault that makes the rest meaningless.

    Raises:
        Rejected: There is such a fault.
    """
    try:
        there = list_files(folder)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise Rejected(Finding("", "", problem, "make the whole folder readable")) from error
    submission = read_submission(folder)
    if submission.date.replace("-", "") != folder.name[:8]:
        problem = f"{submission.date}, but the folder is named {folder.name}"
        findings.append(Finding("submission.json", "date", problem, "make them agree"))
    inventory = check_inventory(folder, there, submission)
    findings += inventory
    findings += check_readme(folder)
    return None if inventory else read_entry(folder, submission, findings)
