"""Atomic writing: files and folders appear complete or not at all."""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tasks.errors import UserError

OF_FOLDERS: Final = (
    "run.json",
    "training_log.jsonl",
    "submission.json",
    "pyproject.toml",
    "config.json",
    ".git",
)
"""Files that mark what a folder is: an evaluation, a training run, an entry, a project, a model."""
_OF_A_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EIO}


def os_error_text(error: OSError, folder: Path) -> str:
    """Describe on one line why writing a folder failed.

    Returns:
        That the folder cannot be written, unless the error belongs to another file or to none:
        programs also run out of memory, processes or open files.
    """
    why = error.strerror or str(error) or type(error).__name__
    if not isinstance(error.filename, str | bytes | os.PathLike):
        return f"{folder} cannot be written: {why}" if error.errno in _OF_A_DISK else why
    name = os.fsdecode(error.filename)
    file, place = Path(name).resolve(), folder.resolve()
    if file.is_relative_to(place) or place.is_relative_to(file):
        return f"{folder} cannot be written: {why}"
    return f"{name}: {why}"


def refuse_other_files(
    folder: Path, what: str, own: Iterable[str], written: Iterable[str] = ()
) -> None:
    """Refuse to begin something in a folder that is something else.

    Other files are left alone: schedulers, studies and users put theirs next to a run's.

    Args:
        folder: The folder; it need not exist.
        what: What begins there.
        own: Files that mark one that has begun, which the caller resumes or refuses.
        written: Files that it writes only later: nobody else's are overwritten.

    Raises:
        UserError: It is something else; the message names what is there.
    """
    if any((folder / name).exists() for name in own):
        return
    for name in (*OF_FOLDERS, *written):
        if (folder / name).exists():
            raise UserError(f"{folder} holds {name}, but no {what}; choose another --out")


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that readers, even after a crash, see either the old or the new content.

    The content goes to a new file of an unpredictable name in the same folder, which then replaces
    `path`: an existing link is replaced, never followed.

    Raises:
        OSError: The folder cannot be written or is full; the old content stays.
    """
    descriptor, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def open_no_link(path: Path, flags: int) -> int:
    """Open a regular file in a folder from an untrusted source; refuse links.

    Returns:
        A file descriptor.

    Raises:
        OSError: It is a link, is not a regular file, or cannot be opened.
    """
    # Without O_NONBLOCK, opening a named pipe blocks until its other end is opened.
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return descriptor


LOCK: Final = ".lock"
"""Lock file of a folder in which a process works; it is never deleted."""


def lock_folder(folder: Path) -> int:
    """Lock a folder against other processes until the descriptor is closed; see `lock_file`."""
    return lock_file(folder / LOCK, os.O_CREAT | os.O_WRONLY)


def lock_file(path: Path, flags: int) -> int:
    """Open a file and lock it against other processes until the descriptor is closed.

    Returns:
        A file descriptor.

    Raises:
        BlockingIOError: Another process has locked it.
        OSError: It cannot be opened; see `open_no_link`.
    """
    descriptor = open_no_link(path, flags)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def append_durably(descriptor: int, content: bytes) -> None:
    """Append to an open file and wait until the data is on disk; all of it or nothing.

    Raises:
        OSError: The disk is full or failed. The file is truncated to its old length if possible;
            otherwise readers skip an incomplete last line.
    """
    size = os.fstat(descriptor).st_size
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


def replace_folder(fresh: Path, kept: Path) -> None:
    """Replace a folder with a new one next to it.

    At least one of them is complete at any time. After a crash in between, `kept` is missing,
    `fresh` is complete, and the old one has `kept`'s name with `.old` appended.

    Args:
        fresh: The new, complete folder.
        kept: The folder to replace; the old one is removed.

    Raises:
        OSError: The disk failed.
    """
    old = kept.with_name(f"{kept.name}.old")
    sync_tree(fresh)
    shutil.rmtree(old, ignore_errors=True)
    if kept.exists():
        kept.rename(old)
    fresh.rename(kept)
    sync_folder(kept.parent)
    shutil.rmtree(old, ignore_errors=True)


def sync_tree(folder: Path) -> None:
    """Make a folder and all its contents survive a power failure."""
    for path in (*folder.rglob("*"), folder):
        if path.is_dir() or path.is_file():
            _sync(path)


def sync_folder(folder: Path) -> None:
    """Make a folder's entries (new and renamed files) survive a power failure."""
    _sync(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
