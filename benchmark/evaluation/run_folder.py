"""The run folder: what a run writes to disk, and how it is resumed and read.

    run.json         the manifest, written once when the run starts
    episodes.jsonl   one record per line; appended and synced as episodes finish, and sorted into
                     the panels' order when the run is complete
    sessions.jsonl   one line per session: speed, tokens, versions
    summary.json     all numbers, derived from the records alone
    report.html      the same for people

Nothing in it is trusted when it is read: a folder may come from somebody else.
"""

import asyncio
import io
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, Self

from pydantic import ValidationError

from benchmark.evaluation.manifest import Manifest, Shard, differing_facts, differing_protocols
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.records import EpisodeRecord
from benchmark.files import (
    append_durably,
    lock_folder,
    open_no_link,
    refuse_other_files,
    sync_folder,
    write_atomically,
)
from tasks.errors import UserError, os_error_as
from tasks.strict import first_fault
from tasks.texts import counted

MANIFEST = "run.json"
_AROUND = ("*/", "*/eval/", "*/*/eval/")
"""Location of runs in a folder of runs, in a study's track, and in a study."""
RECORDS = "episodes.jsonl"
PACKED = "episodes.jsonl.zst"
"""The file that replaces it in a leaderboard entry."""
SESSIONS = "sessions.jsonl"
SUMMARY = "summary.json"
REPORT = "report.html"
MAX_LINE = 64 * 2**20
"""Longest accepted line of a records file, in bytes."""
MAX_PACKED = 2**30
"""Maximum size of packed records, in bytes."""

Key = tuple[str, str, str, int]


class RunFolder:
    """A run that this process works on, with an exclusive lock.

    Use as a context manager, or call `close`.

    Args:
        path: The folder; created if missing.
        manifest: The run to play. A folder that contains a different run is refused.
        order: Keys of all records of the complete run, in the panels' order.

    Raises:
        UserError: The folder cannot be written, is in use, belongs to another run, or is something
            else.
    """

    def __init__(self, path: Path, manifest: Manifest, order: Sequence[Key]) -> None:
        self.path = path
        self.manifest = manifest
        self._order = {key: number for number, key in enumerate(order)}
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="records")
        self._file = self._lock = -1
        if path.exists() and not path.is_dir():
            raise UserError(f"{path} is not a folder; choose another --out")
        try:
            with _writing(path):
                path.mkdir(parents=True, exist_ok=True)
                self._lock = _lock(path)
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        _refuse_entry(self.path)
        if (self.path / MANIFEST).exists():
            existing = read_manifest(self.path)
            _check_same_run(self.path, existing, self.manifest)
            self.manifest = existing
        else:
            refuse_others(self.path)
            content = self.manifest.model_dump_json(indent=2) + "\n"
            write_atomically(self.path / MANIFEST, content.encode())
        self.dropped_bytes = _drop_partial_line(self.path / RECORDS)
        _drop_partial_line(self.path / SESSIONS)
        self.replaced_errors = 0
        self.records: dict[Key, EpisodeRecord] = {}
        for record in _read_records(self.path):
            if record.key not in self._order:
                raise UserError(f"{self.path / RECORDS}: {record.key} is not part of this run")
            self.records[record.key] = record
        self._file = self._open_records()
        sync_folder(self.path)

    def _open_records(self) -> int:
        return open_no_link(self.path / RECORDS, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def __enter__(self) -> Self:
        """The folder itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the folder."""
        self.close()

    @property
    def complete(self) -> bool:
        """Whether every record exists."""
        return len(self.records) == len(self._order)

    async def append(self, record: EpisodeRecord) -> None:
        """Store a record durably: once this returns, it survives a crash.

        If this is cancelled, for example because the engine died under another episode, the record
        is still stored; `close` waits for it.

        Raises:
            UserError: The disk is full or failed. Earlier records stay.
        """
        line = record.model_dump_json().encode() + b"\n"
        writing = asyncio.get_running_loop().run_in_executor(self._writer, self._append, line)
        # One error is told; asyncio would report those for which nothing waits any more.
        writing.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(writing)
        self.records[record.key] = record

    def _append(self, line: bytes) -> None:
        with _writing(self.path):
            append_durably(self._file, line)

    def drop_errors(self) -> int:
        """Drop the records of episodes that ended in an error, so that they are replayed.

        Returns:
            The number of dropped records.
        """
        failed = [key for key, record in self.records.items() if record.error is not None]
        for key in failed:
            del self.records[key]
        if failed:
            self._rewrite()
        self.replaced_errors = len(failed)
        return len(failed)

    def finish(self) -> None:
        """Sort the records into the panels' order."""
        self._rewrite()

    def _rewrite(self) -> None:
        self.records = dict(sorted(self.records.items(), key=lambda item: self._order[item[0]]))
        lines = [record.model_dump_json().encode() + b"\n" for record in self.records.values()]
        with _writing(self.path):
            write_atomically(self.path / RECORDS, b"".join(lines))
        # If reopening fails, `close` must not close the descriptor again: it may be reused by then.
        replaced, self._file = self._file, -1
        os.close(replaced)
        with _writing(self.path):
            self._file = self._open_records()

    def add_session(self, line: str) -> None:
        """Append a line to `sessions.jsonl`.

        Raises:
            UserError: It cannot be written.
        """
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND
        with _writing(self.path / SESSIONS):
            descriptor = open_no_link(self.path / SESSIONS, flags)
            try:
                append_durably(descriptor, line.encode() + b"\n")
            finally:
                os.close(descriptor)

    def close(self) -> None:
        """Wait for pending writes and release the lock."""
        self._writer.shutdown()
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1


def check_folder(
    path: Path, panels: Sequence[PanelProtocol], shard: Shard | None, limit: int | None
) -> None:
    """Check a folder before loading a model for it; create it if missing.

    Args:
        path: The run's folder.
        panels: The protocol of each of the run's panels.
        shard: The part that is played; None for all.
        limit: Number of episodes played per panel; None for all.

    Raises:
        UserError: It cannot be written, belongs to a different run, or is something else.
            `RunFolder` later checks that model and engine are the same.
    """
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is not a folder; choose another --out")
    _refuse_entry(path)
    refuse_others(path)
    if (path / MANIFEST).exists():
        there = read_manifest(path)
        _refuse_another(path, "protocol", *differing_protocols(there.panels, panels))
        _refuse_another(path, "limit", there.limit or "none", limit or "none")
        _refuse_another_shard(path, there.shard, shard)
    with os_error_as(f"{path} cannot be written", "; choose another --out"):
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass


def read_run(path: Path) -> tuple[Manifest, list[EpisodeRecord]]:
    """Read a run without locking or changing it; an incomplete last line is skipped.

    Raises:
        UserError: Not a run folder, or a line is not a valid record.
    """
    manifest = read_manifest(path)
    return manifest, list(_read_records(path))


def read_sessions(path: Path) -> list[dict[str, Any]]:
    """Read `sessions.jsonl`, with the speed of each session.

    Lines that are not JSON are skipped: no number of the benchmark depends on this file.
    """
    sessions = []
    for line in _lines(path / SESSIONS):
        try:
            session = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(session, dict):
            sessions.append(session)
    return sessions


def read_manifest(path: Path) -> Manifest:
    """Read `run.json` and check its fingerprint.

    Raises:
        UserError: It is missing, malformed or edited.
    """
    file = path / MANIFEST
    try:
        with os.fdopen(open_no_link(file, os.O_RDONLY), "rb") as stream:
            content = stream.read(MAX_LINE + 1)
    except FileNotFoundError:
        raise UserError(f"{path} is not a run folder: {_what_else(path)}") from None
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from error
    if len(content) > MAX_LINE:
        raise UserError(f"{file} is longer than {MAX_LINE} bytes")
    return parse_manifest(content, str(file))


def _what_else(path: Path) -> str:
    """Describe what a folder without a manifest is, and what to do with it."""
    if not path.is_dir():
        return "there is no such folder" if not path.exists() else "it is a file"
    places = (f"{around}{MANIFEST}" for around in _AROUND)
    runs = sorted(manifest.parent for place in places for manifest in path.glob(place))
    if (path / "training_log.jsonl").exists():
        how = f"`eval --model {path / 'last'}` evaluates its weights"
        if runs:
            how = f"{runs[0]} is an evaluation of its weights: name that"
        return (
            f"it has no {MANIFEST}; it is the folder of a training run: `plot` and `stability` "
            f"read it, {how}"
        )
    if runs:
        found = counted(len(runs), "run")
        return f"it has no {MANIFEST}, but holds {found}, such as {runs[0]}: name one"
    return f"it has no {MANIFEST}"


def parse_manifest(content: bytes, where: str) -> Manifest:
    """Read a manifest and check its fingerprint.

    Args:
        content: The file's content.
        where: Its name in messages.

    Raises:
        UserError: It is malformed or edited.
    """
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError as error:
        raise UserError(f"{where} is not valid: {first_fault(error)}") from error
    manifest.check()
    return manifest


def _read_records(path: Path) -> Iterator[EpisodeRecord]:
    """Yield all complete records of a folder, or of a run of an entry.

    Raises:
        UserError: A line is not a valid record, or an episode occurs twice.
    """
    file, packed = path / RECORDS, path / PACKED
    if file.exists() or not packed.exists():
        yield from parse_records(_lines(file), str(file))
        return
    from benchmark.archive import read_at_most  # imports pyarrow

    content = read_at_most(packed, MAX_PACKED)
    if not content.endswith(b"\n"):
        raise UserError(f"{packed} ends in the middle of a record")
    yield from parse_records(_complete_lines(io.BytesIO(content), packed), str(packed))


def parse_records(lines: Iterable[bytes], where: str) -> Iterator[EpisodeRecord]:
    """Read records, one per line.

    Args:
        lines: The lines.
        where: Their source, for messages.

    Raises:
        UserError: A line is not a valid record, or an episode occurs twice.
    """
    seen: set[Key] = set()
    for number, line in enumerate(lines, 1):
        try:
            record = EpisodeRecord.model_validate_json(line)
        except ValidationError as error:
            fault = first_fault(error)
            raise UserError(f"{where}, line {number}: not a record: {fault}") from error
        if record.key in seen:
            raise UserError(f"{where}, line {number}: {record.key} appears twice")
        seen.add(record.key)
        yield record


def _lines(file: Path) -> Iterator[bytes]:
    """Yield the complete lines of a file, none if it is missing; skip an incomplete last line.

    Raises:
        UserError: A line is too long, or the file cannot be read.
    """
    try:
        with os.fdopen(open_no_link(file, os.O_RDONLY), "rb") as stream:
            yield from _complete_lines(stream, file)
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from error


def _complete_lines(stream: BinaryIO, file: Path) -> Iterator[bytes]:
    number = 0
    while (line := stream.readline(MAX_LINE)).endswith(b"\n"):
        number += 1
        yield line
    if len(line) == MAX_LINE:
        raise UserError(f"{file}, line {number + 1}: longer than {MAX_LINE} bytes")


def _drop_partial_line(file: Path) -> int:
    """Remove an incomplete last line left by a crash; return its size in bytes."""
    try:
        descriptor = open_no_link(file, os.O_RDWR)
    except FileNotFoundError:
        return 0
    with os.fdopen(descriptor, "r+b") as records:
        size = end = records.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - 2**16)
            records.seek(start)
            newline = records.read(end - start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            records.truncate(end)
            os.fsync(records.fileno())
        return size - end


def _check_same_run(path: Path, existing: Manifest, wanted: Manifest) -> None:
    """Refuse to continue a run with a different protocol, model, engine or shard."""
    for name, (old, new) in differing_facts(existing, wanted).items():
        _refuse_another(path, name, old, new)
    _refuse_another_shard(path, existing.shard, wanted.shard)


def _refuse_entry(path: Path) -> None:
    if (path / PACKED).exists():
        raise UserError(f"{path} is a run of an entry, which stays as it is; choose another --out")


def refuse_others(path: Path) -> None:
    """Refuse to begin a run in a folder that is something else, or has a part of another run.

    Raises:
        UserError: It is, or has.
    """
    files = (RECORDS, SESSIONS, SUMMARY, REPORT)
    refuse_other_files(path, "evaluation", (MANIFEST,), files)


def _refuse_another(path: Path, name: str, old: object, new: object) -> None:
    if old != new:
        raise UserError(
            f"{path} holds a run with another {name} ({old}; this is {new}); "
            "choose another folder with --out"
        )


def _refuse_another_shard(path: Path, old: Shard | None, new: Shard | None) -> None:
    if old != new:
        raise UserError(
            f"{path} holds {_shard_text(old)}, this is {_shard_text(new)}; "
            "choose another folder with --out"
        )


def _shard_text(shard: Shard | None) -> str:
    return f"shard {shard.index}/{shard.count}" if shard else "all shards"


def _lock(path: Path) -> int:
    try:
        return lock_folder(path)
    except BlockingIOError:
        raise UserError(f"{path} is being written by another process; wait for it") from None


def _writing(path: Path) -> AbstractContextManager[None]:
    kept = "; the records so far are kept: fix this and run the same command again to resume"
    return os_error_as(f"{path} cannot be written", kept)
