"""Single episodes of an entry, read from its submission when somebody asks for them.

Nothing of a submission is read at the start. What is read is held against what the board was
computed from: `submission.json` must have the hash in the entry's row, and a file the hash in
`submission.json`. Observations are not in the records; they come from executing the recorded
responses again in the installed world. Programs in responses are never run here: what they printed
is shown as it was recorded.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Final

from benchmark.manifest import Manifest
from benchmark.records import EpisodeRecord
from benchmark.submissions.schema import StoredFile, Submission
from leaderboard.rows import PanelKey, Row
from tasks.base import Tile, View
from tasks.errors import UserError

_READING: Final = Lock()
"""One episode is read and executed at a time: memory is bounded, however many ask."""


@dataclass(frozen=True, slots=True)
class Play:
    """One episode as an entry has played it.

    Attributes:
        record: Its record.
        views: What was seen before each turn and at the end, as far as it is known.
        tiles: How observations are drawn, by symbol; empty for texts.
        reason: Why observations are missing or differ from the record; None if all is well.
    """

    record: EpisodeRecord
    views: tuple[View, ...]
    tiles: dict[str, Tile]
    reason: str | None


@lru_cache(maxsize=64)
def play_of(
    submissions: Path, row: Row, seed: int, key: PanelKey, episode: str, repeat: int = 0
) -> Play:
    """One episode of an entry.

    Args:
        submissions: Folder of all submissions.
        row: The entry.
        seed: Of its checkpoint.
        key: The panel.
        episode: The episode's id.
        repeat: Number of the play.

    Raises:
        UserError: It cannot be read, or the files are not those that the board was computed from.
    """
    from benchmark.submissions.findings import Rejected

    try:
        with _READING:
            manifest, record = _record(submissions / row.id, row, seed, key, (episode, repeat))
            return _replayed(manifest, record)
    except Rejected as rejected:
        raise UserError(rejected.finding.text) from rejected


def _record(
    folder: Path, row: Row, seed: int, key: PanelKey, wanted: tuple[str, int]
) -> tuple[Manifest, EpisodeRecord]:
    from benchmark.run_folder import parse_manifest
    from benchmark.submissions.folder import read_plain, read_submission

    if not (folder / "submission.json").is_file():
        raise UserError("the submission's folder is not here: its episodes cannot be shown")
    if _sha256(folder, "submission.json") != row.submission_sha256:
        raise UserError("the submission is not the one that the board was computed from")
    submission = read_submission(folder)
    for run in _runs(submission, seed):
        content = read_plain(folder, f"{run}/run.json")
        manifest = parse_manifest(content, f"{run}/run.json")
        if key not in {(panel.task, panel.panel) for panel in manifest.panels}:
            continue
        found = _find(_lines(folder, submission, f"{run}/episodes.jsonl.zst"), key, wanted)
        if found is not None:
            return manifest, found
    raise UserError(f"the submission has no play {wanted[1]} of episode {wanted[0]}")


def _runs(submission: Submission, seed: int) -> Iterable[str]:
    return (run for point in submission.checkpoints if point.seed == seed for run in point.runs)


def _lines(folder: Path, submission: Submission, name: str) -> Iterator[bytes]:
    """The records in one file that has the stated hash; never more than a part is in memory."""
    from benchmark.submissions.archive import lines_of
    from benchmark.submissions.entry import MAX_LINE
    from benchmark.submissions.folder import read_content

    file: StoredFile | None = next((f for f in submission.files if f.path == name), None)
    if file is None:
        raise UserError(f"the submission lists no {name}")
    if file.url is not None:
        raise UserError("the records lie on the hub and are not fetched by this page")
    if _sha256(folder, name) != file.sha256:
        raise UserError(f"{name} is not the file that the submission lists")
    return lines_of(read_content(folder, file), MAX_LINE)


def _sha256(folder: Path, name: str) -> str:
    from benchmark.submissions.archive import sha256_of

    try:
        return sha256_of(folder / name)[0]
    except OSError as error:
        raise UserError(f"{name} cannot be read: {error.strerror}") from error


def _find(lines: Iterable[bytes], key: PanelKey, wanted: tuple[str, int]) -> EpisodeRecord | None:
    """The record of an episode; only lines that name it are taken apart."""
    from benchmark.run_folder import parse_records

    name = wanted[0].encode()
    naming = (content for content in lines if name in content)
    records = parse_records(naming, "the submission's records")
    return next((record for record in records if record.key == (*key, *wanted)), None)


def _replayed(manifest: Manifest, record: EpisodeRecord) -> Play:
    """Execute a record's responses again, if its world is installed."""
    from benchmark.replay import installed_panel, replay_records

    protocol = manifest.panel(record.task, record.panel)
    try:
        task, panel = installed_panel(protocol)
        task.require()
    except UserError as error:
        return Play(record, (), {}, f"Observations are not shown: {error}")
    entry = next((each for each in panel.entries if each.id == record.episode), None)
    if entry is None:
        return Play(record, (), {}, "Observations are not shown: the panel has no such episode.")
    (replay,) = replay_records([(record, protocol, task, entry)], env_processes=1, trust=True)
    views = [replay.start] if replay.start else []
    views += [step.view for step in replay.steps]
    reason = None
    if replay.differences:
        reason = f"The world did not do the same again: {replay.differences[0]}"
    return Play(record, tuple(views), dict(task.info.tiles), reason)
