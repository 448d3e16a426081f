"""The check of a submission: what an author runs, and what decides on a pull request."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmark.evaluation.replay import replay_run
from benchmark.evaluation.summary import summary_json
from benchmark.submissions.checks.changes import check_changes
from benchmark.submissions.checks.copies import check_copies
from benchmark.submissions.checks.declaration import check_declaration
from benchmark.submissions.checks.known import Known
from benchmark.submissions.checks.logs import check_logs
from benchmark.submissions.checks.protocol import check_protocol
from benchmark.submissions.checks.records import check_records
from benchmark.submissions.checks.results import Peer
from benchmark.submissions.checks.tracks import MethodFault, check_tracks
from benchmark.submissions.format.findings import Finding, Rejected, attempt
from benchmark.submissions.format.schema import FOLDER_NAME, SUBMISSION
from benchmark.submissions.format.texts import on_one_line
from benchmark.submissions.reading.entry import REMAKE, Entry, ReadRun, read_entry
from benchmark.submissions.reading.folder import (
    check_inventory,
    check_readme,
    list_files,
    read_plain,
    read_submission,
)
from benchmark.submissions.reading.remote import is_on_hub
from benchmark.tracks import Track
from tasks.errors import UserError

MAX_SHOWN = 10
"""Findings of one run's replay that are spelled out; the others are counted."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check has found.

    Attributes:
        folder: The submission's folder.
        findings: Objections; none means that it is accepted.
        entry: The submission; None if it could not be read.
        replayed: Episodes that were executed again.
        doubts: Turns that a replay could neither confirm nor refute.
        peers: The submissions that it was compared with.
        notes: What was left out, each on one line: entries that could not be compared with, models
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
        """Whether there is nothing to object to."""
        return not self.findings


@dataclass(frozen=True, slots=True)
class Unread:
    """A submission that is there already and cannot be compared with.

    Attributes:
        folder: Name of its folder.
        reason: Why.
    """

    folder: str
    reason: str


def check_submission(
    folder: Path,
    inits: Mapping[str, str | None],
    others: Iterable[Known | Unread] = (),
    base: str | None = None,
    env_processes: int | None = None,
    head: str = "HEAD",
    repository: Path | None = None,
    hub: bool = False,
    shipped: Mapping[str, int] | None = None,
    replay: bool = True,
    tracks: Mapping[str, Track] | None = None,
    method_fault: MethodFault | None = None,
) -> CheckResult:
    """Check a submission, all of it.

    Args:
        folder: Its folder. Nothing in it is trusted.
        inits: SHA-256 of the registered inits by name, where it is pinned.
        others: Submissions that are there already, asked for one by one.
        base: Commit or branch that a pull request goes to; None to leave out what it changes.
        env_processes: See `replay_run`.
        head: Last commit of the pull request.
        repository: Root of a clone with both; None for the clone that the folder lies in.
        hub: Ask the hub whether it has the models that are named as its own.
        shipped: Number of weights of the inits that come with this project, by name.
        replay: Also execute the episodes again, without which nothing is accepted.
        tracks: All tracks that a log can claim, by name; none by default.
        method_fault: See `check_tracks`.

    Raises:
        UserError: The check itself cannot be made (a task's data is not here, git fails).
    """
    findings: list[Finding] = []
    notes: list[str] = []
    peers: list[Peer] = []
    entry = None
    try:
        entry = _read(folder, findings)
    except Rejected as rejected:
        findings.append(rejected.finding)
    replayed = doubts = 0
    if entry is not None:
        findings += check_protocol(entry, inits)
        if not findings and replay:
            # Of other panels than the installed ones there is nothing to replay.
            for run in entry.runs:
                problems, doubted = _replay(run, env_processes)
                findings += problems
                findings += _check_summary(folder, run)
                if not problems:
                    findings += check_records(run, env_processes)
                replayed += len(run.records)
                doubts += doubted
        findings += check_declaration(entry, shipped or {})
        findings += check_logs(entry)
        findings += check_tracks(entry, tracks or {}, method_fault)
        findings += check_copies(entry, _compared(others, peers, notes))
        if hub:
            findings += _look_up(entry, notes)
    if base is not None:
        findings += check_changes(folder, base, head, repository)
    return CheckResult(folder, tuple(findings), entry, replayed, doubts, tuple(peers), tuple(notes))


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


def read_others(submissions: Path, folder: Path | None = None) -> Iterator[Known | Unread]:
    """Read the submissions of a folder, one when it is asked for.

    An author who takes back what an entry needs must not stop everybody else's submissions: what
    cannot be read is named, and the others are compared.

    Args:
        submissions: The folder of submissions.
        folder: One that is not meant.

    Raises:
        UserError: The folder cannot be listed.
    """
    try:
        places = sorted(submissions.iterdir())
    except OSError as error:
        raise UserError(f"{submissions} cannot be listed: {error.strerror}") from error
    but = folder if folder is not None and folder.exists() else None
    for place in places:
        if FOLDER_NAME.fullmatch(place.name):
            try:
                if but is None or not (place.exists() and place.samefile(but)):
                    yield Known.of(read_accepted(place))
            except UserError as error:
                yield Unread(place.name, str(error).removeprefix(f"{place}: "))
            except OSError as error:
                yield Unread(place.name, f"cannot be read: {error.strerror}")


def _compared(
    others: Iterable[Known | Unread], peers: list[Peer], notes: list[str]
) -> Iterator[Known]:
    """Hand on the others one by one; of each only the results stay."""
    for other in others:
        if isinstance(other, Unread):
            notes.append(on_one_line(f"not compared with {other.folder}: {other.reason}"))
        else:
            peers.append(other.peer)
            yield other


def _look_up(entry: Entry, notes: list[str]) -> Iterator[Finding]:
    """Ask the hub for the models that are named as its own.

    Whether its files are those that have played, only an audit or a rerun can tell.
    """
    named = [
        (f"checkpoints.{number}.model", point.model)
        for number, point in enumerate(entry.submission.checkpoints)
    ]
    if entry.submission.init is not None:
        named.append(("init", entry.submission.init))
    for where, model in named:
        if model.kind == "hub":
            try:
                there = is_on_hub(model)
            except UserError as error:
                notes.append(on_one_line(f"models were not looked up on the hub: {error}"))
                return
            if not there:
                problem = f"{model.text}: the hub shows no model of this name at this commit"
                fix = "name a commit that everybody can see"
                yield Finding(SUBMISSION, where, problem, fix)


def _read(folder: Path, findings: list[Finding]) -> Entry | None:
    """Read a folder as far as it can be trusted.

    Raises:
        Rejected: It is not worth reading on.
    """
    try:
        there = list_files(folder)
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise Rejected(Finding("", "", problem, "make all of it readable")) from error
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
