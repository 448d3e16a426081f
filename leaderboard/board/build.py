"""Makes the board: checks every submission, computes its row, and joins what was checked before.

Every folder is judged by the code that judges pull requests. What it accepts is on the board under
the protocol of its runs: the standard one, that for models that think, or that for models that see.
When these change, episodes of older entries cannot be executed again with what is installed: their
rows come from an archive, which is the Parquet file of the board as it was, under a protocol of the
archive's name. Archives lie beside the submissions, in the folder `.archives`. What an archive says
of an entry is shown as long as the entry's folder holds the files that it was accepted with. An
entry that is neither accepted nor in an archive is refused: the board names it, and so does the
exit code.
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
"""Folder of boards of older protocols, among the submissions."""
QUICK_S: Final = 120.0
"""Seconds that a replay may take before those of other submissions, where time is limited."""
GRACE_S: Final = 900.0
"""Seconds for the checks that remain when replays have ended: those of what is known to hold."""
MAX_REASONS = 10
"""Findings of a refused submission that are kept."""


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a build.

    Attributes:
        content: Of the files.
        accepted: Ids of the submissions that hold today.
        archived: Ids of those that do not, and are shown as an archive has them.
        dropped: Ids of archived entries that are not shown: their folder is gone or changed.
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
    """What is known beside the submissions; see `BoardFacts`."""

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
        submissions: The folder; every folder in it whose name has no dot in front is one. Boards
            of older protocols are the Parquet files in its folder `ARCHIVES`.
        inits: SHA-256 of the registered inits by name, where it is pinned.
        env_processes: See `benchmark.evaluation.replay.replay_run`.
        replays: What is known of earlier replays; None to make all of them.
        replay_s: Seconds after which no submission is replayed any more; slow ones come last. One
            that is not known to hold is left out then, and after `GRACE_S` more every one that is
            not checked.
        shipped: See `check_submission`.
        tracks: Likewise.
        method_fault: Likewise.
        checked: Told of every verdict, with its number from 1 and how many there will be.
        train_command: From a training log to its command, for entries' pages; None to name none.
        origin: Where the submissions come from.

    Raises:
        UserError: There is no such folder, or an archive cannot be read or has the name of another
            protocol.
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
    # What is refused today may have the same `submission.json` and other files.
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
    """What an accepted submission brings to the board: its row, and the panels that it played."""

    row: FullRow
    panels: tuple[PanelFacts, ...]


def shown_of(
    verdict: CheckResult,
    entry: Entry,
    reruns: Reruns,
    train_command: TrainCommandOf | None = None,
) -> Shown:
    """Compute what an accepted submission brings to the board.

    Args:
        verdict: On it.
        entry: What was judged.
        reruns: What maintainers have repeated, by folder name.
        train_command: See `build`.

    Raises:
        Exception: Something in the entry breaks a step, or no file can hold the row.
    """
    badges, records = badges_of(verdict, reruns), reruns_of(verdict.folder, reruns)
    row = row_of(entry, badges, records, train_command)
    check_row(row)
    return Shown(row, tuple(facts_of(entry)))


def fault_of(error: Exception) -> Finding:
    """What is said of an entry that breaks its check or its row."""
    why = str(error) if isinstance(error, UserError) else repr(error)
    return Finding("", "", f"the check itself failed: {why}", "tell the maintainers")


@dataclass(frozen=True, slots=True)
class _Judged:
    """One submission of a build.

    Attributes:
        verdict: On it.
        shown: None if it is not accepted.
        peer: What others are compared with; None if they are not.
        late: Its time alone is missing.
    """

    verdict: CheckResult
    shown: Shown | None = None
    peer: AcceptedEntry | None = None
    late: bool = False


class _Today:
    """The verdicts of today's checks, sorted by what is shown of their submissions.

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
        """Put one where it belongs."""
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
        """Those of all accepted runs, with their panels in order."""
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
    """Check every submission, against those accepted before it: the first one is not a copy.

    Where time is limited, slow replays come last, so that a few do not take the time of all others.
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
        # Nor does what is left out for its time make room for a copy of it.
        peer = AcceptedEntry.of(entry)
        return _Judged(verdict, shown(verdict, entry) if verdict.accepted else None, peer, late)
    except Exception as error:
        # Whatever an entry does to its check or its row, the others are shown: it is refused, and
        # the board, the output and the exit code say so.
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
    """Whether the files of an entry are those that were accepted, whatever is made of them today.

    Args:
        folder: The entry's, with the `submission.json` that was accepted.
    """
    listed = json.loads((folder / SUBMISSION).read_bytes())["files"]
    own = (file for file in listed if file.get("url") is None)
    return all(_sha256(folder / file["path"]) == file["sha256"] for file in own)


def _archives(folder: Path) -> list[BoardContent]:
    """Boards of older protocols, the last name first; no two have a name in common.

    Raises:
        UserError: One cannot be read, or a protocol has the name of another one.
    """
    older = [_archive(path) for path in sorted(folder.glob("*.parquet"), reverse=True)]
    names = [*OPTIONS, *(each.name for content in older for each in content.facts.protocols)]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UserError(f"two protocols are called {name}; give an archive another file name")
    return older


def _archive(path: Path) -> BoardContent:
    """A board of an older protocol: its newest protocol gets the file's name.

    Its others that are called as today's get it in front of their own name.
    What had been refused then is not taken over: it is judged again if it is still there.
    """
    content = read_content(path)
    newest, *others = content.facts.protocols
    new = {name: f"{path.stem}-{name}" for name in OPTIONS} | {newest.name: path.stem}
    protocols = tuple(replace(p, name=new.get(p.name, p.name)) for p in (newest, *others))
    rows = (replace(row, protocol=new.get(row.protocol, row.protocol)) for row in content.rows)
    return BoardContent(replace(content.facts, protocols=protocols), tuple(rows))


def _place(panel: PanelFacts) -> tuple[str, bool, bool, str]:
    """By task; the built-in panel first, then the one that the field reports."""
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
