"""Cache of replays, keyed by hashes of the run and of the code that replays it.

A replay is a pure function of the records, the panels and the code that replays (`REPLAY`). A run
that held is not replayed again until one of these changes, so that building a board only takes time
for new entries. The cache also keeps slow replays that failed or did not finish, because a few of
these would dominate every build; they are repeated after any code change. Quick failures are always
repeated, because the machine may have been at fault.
"""

import hashlib
import importlib.metadata
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field, ValidationError

from benchmark.evaluation.manifest import Manifest
from benchmark.evaluation.records import EpisodeRecord
from benchmark.files import write_atomically
from benchmark.submissions.format.findings import Finding
from tasks.errors import UserError, os_error_as
from tasks.strict import Strict

_ROOT: Final = Path(__file__).parents[3]
REPLAY: Final = (
    "tasks",
    "benchmark/engines/core/base.py",
    "benchmark/evaluation/manifest.py",
    "benchmark/evaluation/protocol.py",
    "benchmark/evaluation/records.py",
    "benchmark/evaluation/replay.py",
    "benchmark/evaluation/response_part.py",
    "benchmark/evaluation/rollout.py",
    "benchmark/evaluation/sequences.py",
    "benchmark/fields.py",
    "benchmark/flat.py",
    "benchmark/hosts/base.py",
    "benchmark/hosts/choose.py",
    "benchmark/hosts/inline.py",
    "benchmark/hosts/process.py",
    "benchmark/hosts/processes.py",
    "benchmark/hosts/worker.py",
    "benchmark/model_files.py",
    "benchmark/models.py",
    "benchmark/submissions/checks/replay.py",
)
"""Everything that can change the replay of a model's run: the tasks with their panels, and all
modules that a replay imports."""
ALL: Final = ("benchmark", "tasks")
"""Everything that can change any finding."""
SLOW_S: Final = 60.0
"""Minimum replay time of a refused entry in seconds for its refusal to be cached."""


class Refusal(Strict):
    """Findings from the replay of an entry.

    Attributes:
        limit_s: Time limit of the replay in seconds.
        findings: The objections.
    """

    limit_s: float
    findings: Annotated[tuple[Finding, ...], Field(min_length=1, strict=False)]


class _Content(Strict):
    """Content of the file: doubted turns of runs that held, and refusals of entries, by hash."""

    held: dict[str, int] = Field(default_factory=dict)
    refused: dict[str, Refusal] = Field(default_factory=dict)


class Replays:
    """The cache of replays.

    Args:
        file: Its file; created if missing. Only this program may write it: anybody who can write it
            can get anything accepted.

    Raises:
        UserError: The file cannot be read.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        try:
            there = file.exists()
            self._content = _Content.model_validate_json(file.read_bytes()) if there else _Content()
        except (OSError, ValidationError) as error:
            raise UserError(f"{file} is not a file of replays; delete it") from error

    def doubts(self, key: str) -> int | None:
        """Number of doubted turns of a run that held before; None if the run is unknown."""
        return self._content.held.get(key)

    def keep(self, key: str, doubts: int) -> None:
        """Record that a run holds.

        Raises:
            UserError: The file cannot be written.
        """
        self._content.held[key] = doubts
        self._write()

    def refusal(self, keys: Sequence[str], limit_s: float) -> Refusal | None:
        """Why an entry was refused before, with at least the current time limit; None if it wasn't.

        Args:
            keys: Keys of its runs.
            limit_s: Current time limit of its replay in seconds.
        """
        known = self._content.refused.get(_of_entry(keys))
        return known if known is not None and known.limit_s >= limit_s else None

    def refuse(self, keys: Sequence[str], refusal: Refusal) -> None:
        """Record that an entry does not hold.

        Raises:
            UserError: The file cannot be written.
        """
        self._content.refused[_of_entry(keys)] = refusal
        self._write()

    def _write(self) -> None:
        with os_error_as(f"{self._file} cannot be written"):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, self._content.model_dump_json().encode())


def _of_entry(keys: Sequence[str]) -> str:
    return hashlib.sha256(" ".join((_judge(ALL), *keys)).encode()).hexdigest()


def key_of(manifest: Manifest, records: tuple[EpisodeRecord, ...]) -> str:
    """Hash of a run and of everything that its replay depends on.

    Scripted policies are also queried again (`check_records`), which is as slow as the replay, so
    for them any change of the code counts.
    """
    judge = _judge(ALL if manifest.model.kind == "policy" else REPLAY)
    digest = hashlib.sha256(judge.encode())
    digest.update(manifest.model_dump_json().encode())
    for record in records:
        digest.update(record.model_dump_json().encode() + b"\n")
    return digest.hexdigest()


@cache
def _judge(places: tuple[str, ...]) -> str:
    """Hash of this program's files and of the installed packages' versions.

    Args:
        places: Files, and folders with their whole content.
    """
    digest = hashlib.sha256(sys.version.encode())
    for place in places:
        whole = (_ROOT / place).is_dir()
        for path in sorted((_ROOT / place).rglob("*")) if whole else [_ROOT / place]:
            if path.is_file() and "__pycache__" not in path.parts:
                name = path.relative_to(_ROOT).as_posix()
                content = hashlib.sha256(path.read_bytes()).hexdigest()
                digest.update(f"{name}\0{content}\n".encode())
    installed = {(each.name, each.version) for each in importlib.metadata.distributions()}
    for name, version in sorted(installed, key=str):
        digest.update(f"{name} {version}\n".encode())
    return digest.hexdigest()
