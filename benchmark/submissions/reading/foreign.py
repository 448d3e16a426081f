"""Reads another trainer's log in a submission."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmark.logs.foreign import Found, Reading, own_words, readings
from benchmark.submissions.format.findings import Finding, Rejected
from benchmark.submissions.format.schema import Checkpoint, StoredFile
from benchmark.submissions.reading.allowance import Allowance
from benchmark.submissions.reading.folder import read_content
from tasks.errors import UserError

SEND: Final = "send the log as its trainer wrote it, and say with --map what its fields mean"


def read_foreign(
    folder: Path, point: Checkpoint, files: Mapping[str, StoredFile], allowance: Allowance
) -> Reading:
    """Read the log that another trainer wrote for a checkpoint.

    Args:
        folder: The submission's folder, with exactly the listed files.
        point: A checkpoint with a `foreign_log`.
        files: All listed files by path.
        allowance: The remaining memory.

    Returns:
        The only run in it, with the checkpoint's seed.

    Raises:
        Rejected: It cannot be read, has several runs, or has no known field.
    """
    log = point.foreign_log
    assert log is not None
    name = log.files[0]
    # The readers need files on disk, because TensorBoard's loader accepts nothing else.
    with tempfile.TemporaryDirectory() as place:
        paths = tuple(Path(place) / str(number) for number, _ in enumerate(log.files))
        for path, file in zip(paths, log.files, strict=True):
            with path.open("wb") as stream:
                stream.writelines(read_content(folder, files[file]))
        try:
            found = readings(Found(log.format, paths), own_words(log.meanings))
        except UserError as error:
            text = str(error)
            for path, file in zip(paths, log.files, strict=True):
                text = text.replace(str(path), file)
            problem = text.removeprefix(name).lstrip(" ,:")
            raise Rejected(Finding(name, "", problem, SEND)) from error
    if len(found) != 1:
        problem = f"has {len(found)} runs"
        raise Rejected(Finding(name, "", problem, "send the log of each training run separately"))
    (reading,) = found
    allowance.add_curves(reading.run)
    return replace(reading, run=replace(reading.run, name=name, seed=point.seed))
