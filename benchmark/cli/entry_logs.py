"""Finds training logs for a command: single logs, those of a submission, or those of a study."""

from collections.abc import Sequence
from pathlib import Path

from benchmark.logs.training_log import cells_in, is_beside_log
from benchmark.submissions.format.findings import Rejected
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.folder import read_submission
from tasks.errors import UserError


def logs_of(words: Sequence[str], chosen: str | None = None) -> list[Path]:
    """Resolve the words of a command line to logs; a folder of several logs yields all of them.

    Args:
        words: Logs, run folders, submissions' folders, a study's results for a track, or
            FOLDER/RECIPE for one recipe of these. Files that a study keeps beside a log are skipped
            if the log is given, too.
        chosen: The requested format; None for any.

    Raises:
        UserError: A submission cannot be read, or has no logs of the chosen format.
    """
    given = dict.fromkeys(map(Path, words))
    return [
        log
        for path in map(Path, words)
        if not is_beside_log(path, given)
        for log in cells_in(path) or _logs_of_submission(path, chosen)
    ]


def _logs_of_submission(path: Path, chosen: str | None) -> list[Path]:
    """All logs of a submission; any other path itself."""
    if not (path / SUBMISSION).is_file():
        return [path]
    try:
        points = read_submission(path).checkpoints
    except Rejected as rejected:
        raise UserError(f"{path}: {rejected}") from rejected
    if any(point.foreign_log for point in points):
        raise UserError(f"{path}: `submit check` shows the stability of other trainers' logs")
    logs = [path / point.training_log for point in points if point.training_log is not None]
    if chosen not in (None, "arlarena-bench") or not logs:
        raise UserError(f"{path} is a submission without {chosen or 'training'} logs")
    return logs
