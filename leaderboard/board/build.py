"""Builds the board: checks every submission, computes its row, and adds archived rows.

Every folder is judged by the same code as pull requests. Accepted entries are on the board under
the protocol of their runs: the standard one, the one for reasoning models, or the one for vision
models. When these change, episodes of older entries can no longer be replayed with the installed
version: their rows come from an archive, which is the board's earlier Parquet file, under a
protocol with the archive's name. Archives are in the submissions' folder `.archives`. An archived
entry is shown as long as its folder contains the files with which it was accepted. An entry that is
neither accepted nor archived is refused, which the board and the exit code report.
"""

import json
import math
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from benchmark.archive import sha256_of
from benchmark.commands_of_entry import TrainCommandOf
from benchmark.evaluation.protocol import NAME, OPTIONS
from benchmark.files import write_atomically
from benchmark.submissions.badges import badges_of
from benchmark.submissions.check import CheckResult, check_submission
from benchmark.submissions.checks.accepted_entries import AcceptedEntry
from benchmark.submissions.checks.context import Context, MethodFault
from benchmark.submissions.format.findings import Finding
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.entry import Entry
from benchmark.submissions.reading.replays import Replays
from benchmark.submissions.reading.reruns import Reruns, read_reruns, reruns_of
from benchmark.track_schema import Track
from leaderboard.board.entries import facts_of, row_of
from leaderboard.board.file import (
    JSON,
    PARQUET,
    VERSION,
    BoardContent,
    check_row,
    json_bytes,
    parquet_bytes,
    read_content,
)
from leaderboard.board.protocols import BoardFacts, Grid, PanelFacts, Protocol, Queue, Refused
from leaderboard.board.rows import FullRow, PanelKey
from tasks.errors import UserError, os_error_as
from tasks.texts import on_one_line

ARCHIVES = ".archives"
"""Folder of boards with older protocols, in the submissions' folder."""
QUICK_S: Final = 120.0
"""Seconds after which a replay is postponed until after all others, if time is limited."""
GRACE_S: Final = 900.0
"""Seconds for the remaining checks after the end of replays, of entries known to hold."""
MAX_REASONS = 10
"""Maximum findings stored for a refused submission."""


@dataclass(frozen=True, slots=True)
class Built:
    """Result of a build.

    Attributes:
        content: Content of the files.
        accepted: Ids of the accepted submissions.
        archived: Ids of submissions that are no longer accepted, and are shown from an archive.
        dropped: Ids of archived entries that are not shown, because their folder is gone or
            changed.
    """

    content: BoardContent
    accepted: tuple[str, ...]
    archived: tuple[str, ...]
    dropped: tuple[str, ...]

    @property
    def refused(self) -> tuple[Refused, ...]:
        """Submissions that are not on the board."""
        return self.content.facts.refused


@dataclass(frozen=True, slots=True)
class Origin:
    """Facts besides the submissions; see `BoardFacts`."""

    repository: str | None = None
    commit: str | None = None
    date: str | None = None
    grid: Grid | None = None
    queue: Queue | None = None


NOWHERE: Final = Origin()


def build(
    submissions: Path,
    inits: Mapping[str, str | None],
    env_processes: int | None = None,
    *,
    replays: Replays | None = None,
    replay_s: float = math.inf,
    shipped: Mapping[str, int] | None = None,
    tracks: Mapping[str, Track] | None = None,
    method_fault: MethodFault | None = None,
    checked: Callable[[CheckResult, int, int], None] | None = None,
    train_command: TrainCommandOf | None = None,
    origin: Origin = NOWHERE,
) -> Built:
    """Check all submissions of a folder and compute the board.

    Args:
        submissions: The folder; every subfolder without a leading dot is a submission. Boards of
            older protocols are the Parquet files in its folder `ARCHIVES`.
        inits: SHA-256 of the registered inits by name, if pinned.
        env_processes: See `benchmark.evaluation.replay.replay_run`.
        replays: Cache of earlier replays; None to replay everything.
        replay_s: Seconds after which no more submissions are replayed, with slow ones last.
            Submissions that are not known to hold are then left out, and after `GRACE_S` more all
            unchecked ones.
        shipped: See `check_submission`.
        tracks: Likewise.
        method_fault: Likewise.
        checked: Called with every verdict, its number from 1, and the total number.
        train_command: Function from a training log to its command, for entries' pages; None to
            show none.
        origin: Source of the submissions.

    Raises:
        UserError: There is no such folder, or an archive cannot be read or has another protocol's
            name.
    """
    folders = _folders(submissions)
    until = time.monotonic() + replay_s
    reruns = read_reruns(submissions)
    older = _archives(submissions / ARCHIVES)
    old_rows = [row for content in older for row in content.rows]

    def context(before: Sequence[AcceptedEntry], build_until: float) -> Context:
        return Context(
            inits,
            before,
            shipped or {},
            tracks or {},
            method_fault,
            env_processes,
            replays=replays,
            reruns=reruns,
            build_until=build_until,
        )

    def shown(verdict: CheckResult, entry: Entry) -> Shown:
        return shown_of(verdict, entry, reruns, train_command)

    today = _Today({row.submission_sha256 for row in old_rows})
    for number, judged in enumerate(_judged(folders, context, shown, until), 1):
        if checked is not None:
            checked(judged.verdict, number, len(folders))
        today.take(judged)
    # A refused submission may have the same `submission.json` but other files.
    read = {*today.archived, *(row.id for row in today.rows)}
    there = {folder.name: _digest(folder) for folder in folders if folder.name in read}
    kept = [row for row in old_rows if there.get(row.id) == row.submission_sha256]
    return Built(
        content=BoardContent(_facts(today, older, origin), (*today.rows, *kept)),
        accepted=tuple(row.id for row in today.rows),
        archived=tuple(today.archived),
        dropped=tuple(sorted({row.id for row in old_rows} - {row.id for row in kept})),
    )


def _folders(submissions: Path) -> list[Path]:
    if not submissions.is_dir():
        raise UserError(f"{submissions} is not a folder; give the folder with the submissions")
    found = sorted(submissions.iterdir())
    return [folder for folder in found if folder.is_dir() and not folder.name.startswith(".")]


@dataclass(frozen=True, slots=True)
class Shown:
    """An accepted submission's contribution to the board: its row, and the panels it played."""

    row: FullRow
    panels: tuple[PanelFacts, ...]


def shown_of(
    verdict: CheckResult,
    entry: Entry,
    reruns: Reruns,
    train_command: TrainCommandOf | None = None,
) -> Shown:
    """Compute an accepted submission's contribution to the board.

    Args:
        verdict: The verdict on it.
        entry: The entry.
        reruns: The maintainers' reruns, by folder name.
        train_command: See `build`.

    Raises:
        Exception: Something in the entry breaks a step, or the files cannot hold the row.
    """
    badges, records = badges_of(verdict, reruns), reruns_of(verdict.folder, reruns)
    row = row_of(entry, badges, records, train_command)
    check_row(row)
    return Shown(row, tuple(facts_of(entry)))


def fault_of(error: Exception) -> Finding:
    """The finding for an entry that breaks its check or its row."""
    why = str(error) if isinstance(error, UserError) else repr(error)
    return Finding("", "", f"the check itself failed: {why}", "tell the maintainers")


@dataclass(frozen=True, slots=True)
class _Judged:
    """One submission of a build.

    Attributes:
        verdict: The verdict on it.
        shown: Its contribution; None if it is not accepted.
        peer: The entry that others are compared with; None if they are not.
        late: It was left out only for lack of time.
    """

    verdict: CheckResult
    shown: Shown | None = None
    peer: AcceptedEntry | None = None
    late: bool = False


class _Today:
    """The verdicts of this build, grouped by how their submissions are shown.

    Args:
        known: Hashes of the `submission.json` of all archived entries.
    """

    def __init__(self, known: Container[str | None]) -> None:
        self.rows: list[FullRow] = []
        self.refused: list[Refused] = []
        self.archived: list[str] = []
        # The standard protocol comes first.
        self._panels: dict[str, dict[PanelKey, PanelFacts]] = {NAME: {}}
        self._known = known

    def take(self, judged: _Judged) -> None:
        """Add a judged submission to its group."""
        verdict, shown = judged.verdict, judged.shown
        if shown is not None:
            self.rows.append(shown.row)
            played = self._panels.setdefault(shown.row.protocol, {})
            played |= {facts.key: facts for facts in shown.panels}
        elif _digest(verdict.folder) in self._known and _is_as_accepted(verdict.folder):
            self.archived.append(verdict.folder.name)
        else:
            self.refused.append(_refused(verdict))

    @property
    def protocols(self) -> list[Protocol]:
        """The protocols of all accepted runs, with their panels in order."""
        return [
            Protocol(name, tuple(sorted(played.values(), key=_place)))
            for name, played in self._panels.items()
        ]


def write(built: Built, out: Path) -> tuple[Path, Path]:
    """Write the board's files.

    Returns:
        The Parquet file and the JSON file.

    Raises:
        UserError: They cannot be written.
    """
    contents = {out / PARQUET: parquet_bytes(built.content), out / JSON: json_bytes(built.content)}
    for path, content in contents.items():
        with os_error_as(f"{path} cannot be written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
    return out / PARQUET, out / JSON


def _judged(
    folders: Sequence[Path],
    context_of: Callable[[Sequence[AcceptedEntry], float], Context],
    shown: Callable[[CheckResult, Entry], Shown],
    until: float,
) -> Iterator[_Judged]:
    """Check every submission against those accepted before it: the first one is not a copy.

    If time is limited, slow replays come last, so that a few cannot use up the time of all others.
    """
    before: dict[Path, AcceptedEntry] = {}
    slow: list[Path] = []
    for folder in folders:
        quick = until if math.isinf(until) else min(until, time.monotonic() + QUICK_S)
        judged = _judge(folder, context_of([*before.values()], quick), shown)
        if judged.peer is not None:
            before[folder] = judged.peer
        if judged.late and time.monotonic() < until:
            slow.append(folder)
        else:
            yield judged
    for folder in slow:
        others = [entry for place, entry in before.items() if place < folder]
        yield _judge(folder, context_of(others, until), shown)


def _judge(folder: Path, context: Context, shown: Callable[[CheckResult, Entry], Shown]) -> _Judged:
    if time.monotonic() > context.build_until + GRACE_S:
        problem, fix = "was not checked: this build ran out of time", "build again"
        return _Judged(CheckResult(folder, (Finding("", "", problem, fix),), None, 0, 0))
    try:
        verdict = check_submission(folder, context)
        late = context.unfinished and len(verdict.findings) == 1
        entry = verdict.entry
        if entry is None or not (verdict.accepted or late):
            return _Judged(verdict, late=late)
        # A submission left out for lack of time must not allow a copy of it, either.
        peer = AcceptedEntry.of(entry)
        return _Judged(verdict, shown(verdict, entry) if verdict.accepted else None, peer, late)
    except Exception as error:
        # However an entry breaks its check or its row, the others are shown: it is refused, which
        # the board, the output and the exit code report.
        return _Judged(CheckResult(folder, (fault_of(error),), None, 0, 0))


def _refused(verdict: CheckResult) -> Refused:
    reasons = [finding.text for finding in verdict.findings]
    if len(reasons) > MAX_REASONS:
        reasons[MAX_REASONS:] = [f"and {len(reasons) - MAX_REASONS} more"]
    return Refused(on_one_line(verdict.folder.name), tuple(reasons))


def _digest(folder: Path) -> str | None:
    return _sha256(folder / SUBMISSION)


def _sha256(path: Path) -> str | None:
    """A file's hash; None if it cannot be read."""
    try:
        return sha256_of(path)[0]
    except OSError:
        return None


def _is_as_accepted(folder: Path) -> bool:
    """Whether an entry's files are those that were accepted, regardless of the current verdict.

    Args:
        folder: The entry's folder, with the accepted `submission.json`.
    """
    listed = json.loads((folder / SUBMISSION).read_bytes())["files"]
    own = (file for file in listed if file.get("url") is None)
    return all(_sha256(folder / file["path"]) == file["sha256"] for file in own)


def _archives(folder: Path) -> list[BoardContent]:
    """Boards of older protocols in reverse order of their file names; protocol names are unique.

    Raises:
        UserError: An archive cannot be read, or two protocols have the same name.
    """
    older = [_archive(path) for path in sorted(folder.glob("*.parquet"), reverse=True)]
    names = [*OPTIONS, *(each.name for content in older for each in content.facts.protocols)]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UserError(f"two protocols are called {name}; give an archive another file name")
    return older


def _archive(path: Path) -> BoardContent:
    """A board of an older protocol: its newest protocol gets the file's name.

    Its other protocols get the file's name as a prefix if they are named like current ones.
    Submissions refused at that time are not included: they are judged again if they still exist.
    """
    content = read_content(path)
    newest, *others = content.facts.protocols
    new = {name: f"{path.stem}-{name}" for name in OPTIONS} | {newest.name: path.stem}
    protocols = tuple(replace(p, name=new.get(p.name, p.name)) for p in (newest, *others))
    rows = (replace(row, protocol=new.get(row.protocol, row.protocol)) for row in content.rows)
    return BoardContent(replace(content.facts, protocols=protocols), tuple(rows))


def _place(panel: PanelFacts) -> tuple[str, bool, bool, str]:
    """Sort key: by task, the built-in panel first, then the one that the field reports."""
    return panel.task, panel.panel != "builtin", not panel.field, panel.panel


def _facts(today: _Today, older: Sequence[BoardContent], origin: Origin) -> BoardFacts:
    protocols = (protocol for content in older for protocol in content.facts.protocols)
    return BoardFacts(
        VERSION,
        (*today.protocols, *protocols),
        tuple(today.refused),
        origin.repository,
        origin.commit,
        origin.date,
        origin.grid,
        origin.queue,
    )
