"""An entry's own files, read when somebody asks for an episode: in turn, and only what was judged.

Nothing of a submission is read at the start. What is read is compared with what the board was
computed from: `submission.json` must have the hash in the entry's row, and a file the hash in
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
"""One episode is read at a time, and always by the same thread: what that takes of memory is there
for the next one, whoever asks."""
_Found = TypeVar("_Found")


def one_at_a_time(read: Callable[[], _Found]) -> _Found:
    """Read something when nobody else reads.

    Args:
        read: What does it.

    Raises:
        UserError: It cannot be read, or is not what the board was computed from.
    """
    from benchmark.submissions.format.findings import Rejected

    try:
        return _READER.submit(read).result()
    except Rejected as rejected:
        raise UserError(rejected.finding.text) from rejected


def submission_of(folder: Path, row: BoardRow) -> Submission:
    """What an entry states of itself.

    Args:
        folder: The entry's folder.
        row: The entry.

    Raises:
        UserError: It is not there, or not what the board was computed from.
        Rejected: It is not valid.
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
    """The records of one episode in one run; never more than a part of the file is in memory.

    Args:
        folder: The entry's folder.
        submission: What it states.
        run: The run's folder, in the entry's.
        key: The panel.
        episode: The episode's id.

    Raises:
        UserError: The file lies elsewhere, or is not the one that the submission lists.
        Rejected: It is not valid.
    """
    from benchmark.evaluation.run_folder import parse_records

    name = episode.encode()
    # Only lines that name it are taken apart.
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
