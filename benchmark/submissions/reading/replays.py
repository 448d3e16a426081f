"""Replays that were made before: by the hash of what was played and of what replayed it.

A replay is a pure function of the records, the panels and the code that replays (`REPLAY`). One
that held is not made again as long as none of these changes, so that building a board of many
entries takes the time of the new ones. Nor is one of an entry that did not hold, or did not end, if
it took long: a few of these would take the time of all others in every build. It is tried again
after any change of the code. What failed quickly is always tried again, as a machine may fail as
well.
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
"""What can change the replay of a model's run: the tasks, panels included, and all modules that a
replay imports."""
ALL: Final = ("benchmark", "tasks")
"""What can change anything that is found."""
SLOW_S: Final = 60.0
"""Seconds of replaying an entry after which its refusal is worth keeping."""


class Refusal(Strict):
    """What was found by the replay of an entry.

    Attributes:
        limit_s: How long it was allowed to take.
        findings: The objections.
    """

    limit_s: float
    findings: Annotated[tuple[Finding, ...], Field(min_length=1, strict=False)]


class _Content(Strict):
    """Of the file: turns in doubt of runs that held, and refusals of entries, by their hashes."""

    held: dict[str, int] = Field(default_factory=dict)
    refused: dict[str, Refusal] = Field(default_factory=dict)


class Replays:
    """What is known of replays.

    Args:
        file: Where it is kept; made if it is not there. Only this program may write it: whoever
            can write it can have anything accepted.

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
        """Turns in doubt of a run that held before; None for one that is not known."""
        return self._content.held.get(key)

    def keep(self, key: str, doubts: int) -> None:
        """Note that a run holds.

        Raises:
            UserError: The file cannot be written.
        """
        self._content.held[key] = doubts
        self._write()

    def refusal(self, keys: Sequence[str], limit_s: float) -> Refusal | None:
        """Why an entry was refused before, with no less time than now; None if it was not.

        Args:
            keys: Of its runs.
            limit_s: How long its replay may take now.
        """
        known = self._content.refused.get(_of_entry(keys))
        return known if known is not None and known.limit_s >= limit_s else None

    def refuse(self, keys: Sequence[str], refusal: Refusal) -> None:
        """Note that an entry does not hold.

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
    """Hash of a run and of everything that decides on its replay.

    A scripted policy is also asked again (`check_records`), which is as slow as the replay: there
    any change of the code counts.
    """
    judge = _judge(ALL if manifest.model.kind == "policy" else REPLAY)
    digest = hashlib.sha256(judge.encode())
    digest.update(manifest.model_dump_json().encode())
    for record in records:
        digest.update(record.model_dump_json().encode() + b"\n")
    return digest.hexdigest()


@cache
def _judge(places: tuple[str, ...]) -> str:
    """Hash of files of this program and of the versions of what is installed.

    Args:
        places: Files, and folders with all that is in them.
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
