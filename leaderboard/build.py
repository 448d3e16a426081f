"""Makes the board: checks every submission, computes its row, and joins what was checked before.

Every folder is judged by the code that judges pull requests. What it accepts is on the board under
the installed protocol. When the protocol changes, episodes of older entries cannot be executed
again with what is installed: their rows come from an archive, which is the Parquet file of the
board as it was (`--archive`), under a protocol of the archive's name; its folder must still hold
the files that it was accepted with. An entry that is neither accepted nor in an archive is refused:
the board names it, and so does the exit code.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmark.files import write_atomically
from benchmark.protocol import NAME
from benchmark.submissions.archive import sha256_of
from benchmark.submissions.badges import badges_of, read_reruns
from benchmark.submissions.check import Verdict, check_submission, read_accepted
from benchmark.submissions.schema import SUBMISSION
from benchmark.submissions.texts import on_one_line
from leaderboard.board_file import (
    JSON,
    PARQUET,
    VERSION,
    BoardContent,
    json_bytes,
    parquet_bytes,
    read_content,
)
from leaderboard.entries import facts_of, row_of
from leaderboard.protocols import BoardFacts, PanelFacts, Protocol, Refused
from leaderboard.rows import FullRow, PanelKey
from tasks.errors import UserError

MAX_REASONS = 10
"""Findings of a refused submission that are kept."""


@dataclass(frozen=True, slots=True)
class Built:
    """What came of a build.

    Attributes:
        content: Of the files.
        accepted: Ids of the submissions that hold today.
        archived: Ids of those that do not, and are shown as an archive has them.
    """

    content: BoardContent
    accepted: tuple[str, ...]
    archived: tuple[str, ...]

    @property
    def refused(self) -> tuple[Refused, ...]:
        """Submissions that are not on the board."""
        return self.content.facts.refused


def build(
    submissions: Path,
    inits: Mapping[str, str | None],
    archives: Sequence[Path] = (),
    env_processes: int | None = None,
    *,
    shipped: Mapping[str, int] | None = None,
) -> Built:
    """Check all submissions of a folder and compute the board.

    Args:
        submissions: The folder; every folder in it whose name has no dot in front is one.
        inits: SHA-256 of the registered inits by name, where it is pinned.
        archives: Boards of older protocols, the newest first.
        env_processes: See `benchmark.replay.replay_run`.
        shipped: See `check_submission`.

    Raises:
        UserError: There is no such folder, an archive cannot be read or has the name of another
            protocol, or a check cannot be made.
    """
    if not submissions.is_dir():
        raise UserError(f"{submissions} is no folder; name that of the submissions")
    reruns = read_reruns(submissions)
    older = [_archive(path) for path in archives]
    protocols = [protocol for content in older for protocol in content.facts.protocols]
    names = [NAME, *(protocol.name for protocol in protocols)]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UserError(f"two protocols are called {name}; give an archive another file name")
    known = {row.submission_sha256 for content in older for row in content.rows}
    rows: list[FullRow] = []
    panels: dict[PanelKey, PanelFacts] = {}
    refused: list[Refused] = []
    archived: list[str] = []
    for verdict in _verdicts(submissions, inits, shipped, env_processes):
        if verdict.accepted and verdict.entry is not None:
            rerun = reruns.get(verdict.folder.name)
            rows.append(row_of(verdict.entry, badges_of(verdict, reruns), rerun, NAME))
            panels |= {facts.key: facts for facts in facts_of(verdict.entry)}
        elif verdict.entry is not None and _digest(verdict.folder) in known:
            archived.append(verdict.folder.name)
        else:
            refused.append(_refused(verdict))
    current = Protocol(NAME, tuple(sorted(panels.values(), key=_place)))
    content = BoardContent(
        BoardFacts(VERSION, (current, *protocols), tuple(refused)),
        (*rows, *(row for content in older for row in content.rows)),
    )
    return Built(content, tuple(row.id for row in rows), tuple(archived))


def write(built: Built, out: Path) -> tuple[Path, Path]:
    """Write the board's files.

    Returns:
        The Parquet file and the JSON file.

    Raises:
        UserError: They cannot be written.
    """
    contents = {out / PARQUET: parquet_bytes(built.content), out / JSON: json_bytes(built.content)}
    for path, content in contents.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, content)
        except OSError as error:
            raise UserError(f"{path} cannot be written: {error.strerror}") from error
    return out / PARQUET, out / JSON


def _verdicts(
    submissions: Path,
    inits: Mapping[str, str | None],
    shipped: Mapping[str, int] | None,
    env_processes: int | None,
) -> Iterator[Verdict]:
    """Check every submission, against those accepted before it: the first one is no copy.

    Those are read once more for each, one after the other, so that memory holds two at a time.
    """
    before: list[Path] = []
    for folder in sorted(submissions.iterdir()):
        if folder.name.startswith(".") or not folder.is_dir():
            continue
        try:
            others = map(read_accepted, before)
            verdict = check_submission(
                folder, inits, others, env_processes=env_processes, shipped=shipped
            )
        except UserError as error:
            raise UserError(f"{on_one_line(folder.name)}: {error}") from error
        if verdict.accepted:
            before.append(folder)
        yield verdict


def _refused(verdict: Verdict) -> Refused:
    reasons = [finding.text for finding in verdict.findings]
    if len(reasons) > MAX_REASONS:
        reasons[MAX_REASONS:] = [f"and {len(reasons) - MAX_REASONS} more"]
    return Refused(on_one_line(verdict.folder.name), tuple(reasons))


def _digest(folder: Path) -> str | None:
    """Hash of a submission's `submission.json`; None if there is none."""
    try:
        return sha256_of(folder / SUBMISSION)[0]
    except OSError:
        return None


def _archive(path: Path) -> BoardContent:
    """A board of an older protocol: its newest protocol gets the file's name.

    What had been refused then is not taken over: it is judged anew if it is still there.
    """
    content = read_content(path)
    newest, *others = content.facts.protocols
    name = path.stem
    rows = (replace(r, protocol=name) if r.protocol == newest.name else r for r in content.rows)
    facts = replace(content.facts, protocols=(replace(newest, name=name), *others))
    return BoardContent(facts, tuple(rows))


def _place(panel: PanelFacts) -> tuple[str, bool, bool, str]:
    """By task; the built-in panel first, then the one that the field reports."""
    return panel.task, panel.panel != "builtin", not panel.field, panel.panel
