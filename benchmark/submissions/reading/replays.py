"""Replays that were made before and held: by the hash of what was played and of what replayed it.

A replay is a pure function of the records, the code and the panels. One that held is not made again
as long as none of these changes, so that building a board of many entries takes the time of the new
ones.
"""

import hashlib
import importlib.metadata
from functools import cache
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter, ValidationError

from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.records import EpisodeRecord
from benchmark.files import write_atomically
from tasks.errors import UserError

_ROOT: Final = Path(__file__).parents[3]
_JUDGES: Final = ("benchmark", "tasks")
_HELD: Final = TypeAdapter(dict[str, int])


class Replays:
    """What has held, and how many turns were in doubt.

    Args:
        file: Where it is kept; made if it is not there. Only this program may write it: whoever
            can write it can have anything accepted.

    Raises:
        UserError: The file cannot be read.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            self._held = _HELD.validate_json(file.read_bytes()) if file.exists() else {}
        except (OSError, ValidationError) as error:
            raise UserError(f"{file} is not a file of replays; delete it") from error

    def doubts(self, key: str) -> int | None:
        """Turns in doubt of a run that held before; None for one that is not known."""
        return self._held.get(key)

    def keep(self, key: str, doubts: int) -> None:
        """Note that a run holds.

        Raises:
            UserError: The file cannot be written.
        """
        self._held[key] = doubts
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, _HELD.dump_json(self._held))
        except OSError as error:
            raise UserError(f"{self._file} cannot be written: {error.strerror}") from error


def key_of(manifest: Manifest, records: tuple[EpisodeRecord, ...]) -> str:
    """Hash of a run and of everything that decides on it."""
    digest = hashlib.sha256(_judge().encode())
    digest.update(manifest.model_dump_json().encode())
    for record in records:
        digest.update(record.model_dump_json().encode() + b"\n")
    return digest.hexdigest()


@cache
def _judge() -> str:
    """Hash of this program's files, panels included, and of the versions of what is installed."""
    digest = hashlib.sha256()
    for package in _JUDGES:
        for path in sorted((_ROOT / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(_ROOT).as_posix()
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{name}\0{content}\n".encode())
    installed = {(each.name, each.version) for each in importlib.metadata.distributions()}
    for name, version in sorted(installed, key=str):
        digest.update(f"{name} {version}\n".encode())
    return digest.hexdigest()
