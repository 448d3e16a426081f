"""Reads an entry's own files on demand, one request at a time, and only if they were checked.

No submission is read at startup. Everything that is read is compared with the source of the board:
`submission.json` must have the hash in the entry's row, and other files the hashes in
`submission.json`.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from benchmark.evaluation.records import EpisodeRecord
from benchmark.submissions.format.schema import StoredFile, Submission
from leaderboard.board.rows import BoardRow, PanelKey
from tasks.errors import UserError, os_error_as

_READER: Final = ThreadPoolExecutor(1, "episodes")
"""Reads one episode at a time, always in the same thread, whose memory is then reused for the next
one."""
_Found = TypeVar("_Found")


def one_at_a_time(read: Callable[[], _Found]) -> _Found:
    """Run a reading function when no other one is running.

    Args:
        read: The function.

    Raises:
        UserError: It cannot be read, or is not what the board was computed from.
    """
    from benchmark.submissions.format.findings import Rejected

    try:
        return _READER.submit(read).result()
    except Rejected as rejected:
        raise UserError(rejected.finding.text) from rejected


def submission_of(folder: Path, row: BoardRow) -> Submission:
    """Read an entry's `submission.json`.

    Args:
        folder: The entry's folder.
        row: The entry.

    Raises:
        UserError: It is missing, or not what the board was computed from.
        Rejected: It is invalid.
    """
    from benchmark.submissions.reading.folder import read_submission

    if not (folder / "submission.json").is_file():
        raise UserError("the submission's folder is not here: its episodes cannot be shown")
    if _sha256(folder, "submission.json") != row.submission_sha256:
        raise UserError("the submission is not the one that the board was computed from")
    return read_submission(folder)


def records_of(
    folder: Path, submission: Submission, run: str, key: PanelKey, episode: str
) -> Iterator[EpisodeRecord]:
    """Stream the records of one episode in one run, without loading the whole file.

    Args:
        folder: The entry's folder.
        submission: Its `submission.json`.
        run: The run's folder within the entry's.
        key: The panel.
        episode: The episode's id.

    Raises:
        UserError: The file is outside the folder, or is not the one that the submission lists.
        Rejected: It is invalid.
    """
    from benchmark.evaluation.run_folder import parse_records

    name = episode.encode()
    # Only lines that contain the id are parsed.
    naming = (content for content in _lines(folder, submission, run) if name in content)
    records = parse_records(naming, "the submission's records")
    return (record for record in records if record.key[:3] == (*key, episode))


def _lines(folder: Path, submission: Submission, run: str) -> Iterable[bytes]:
    from benchmark.archive import lines_of
    from benchmark.submissions.reading.entry import MAX_LINE
    from benchmark.submissions.reading.folder import read_content

    name = f"{run}/episodes.jsonl.zst"
    file: StoredFile | None = next((f for f in submission.files if f.path == name), None)
    if file is None:
        raise UserError(f"the submission lists no {name}")
    if file.url is not None:
        raise UserError("the records are on the hub and are not fetched by this page")
    if _sha256(folder, name) != file.sha256:
        raise UserError(f"{name} is not the file that the submission lists")
    return lines_of(read_content(folder, file), MAX_LINE)


def _sha256(folder: Path, name: str) -> str:
    from benchmark.archive import sha256_of

    with os_error_as(f"{name} cannot be read"):
        return sha256_of(folder / name)[0]
