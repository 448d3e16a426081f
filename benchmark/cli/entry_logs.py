"""Training logs that a command is given as the folder of a submission."""

from pathlib import Path

from benchmark.submissions.format.findings import Rejected
from benchmark.submissions.format.schema import SUBMISSION
from benchmark.submissions.reading.folder import read_submission
from tasks.errors import UserError


def logs_of(path: Path, chosen: str | None = None) -> list[Path]:
    """The path itself; for a submission's folder, all logs that it names.

    Args:
        path: A log, a run folder or a submission's folder.
        chosen: The format that is asked for; None for any.

    Raises:
        UserError: The submission cannot be read, or has no logs of the chosen format.
    """
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
