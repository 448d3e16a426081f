"""The folder through which a trainer sends new weights to its servers."""

import fcntl
import logging
import math
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmark.files import open_no_link

if TYPE_CHECKING:
    from baselines.config.run import TrainingRun

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a file system, not a file
_NAME: Final = "arlarena-weights-"
_LOCK: Final = ".lock"
"""Suffix of the lock file next to a folder that is in use."""
_GIB: Final = 2**30

log = logging.getLogger(__name__)


def exchange_folder(size: int, run: Path) -> Path:
    """Choose a folder for sending weights to the servers, in memory if they fit.

    Args:
        size: Bytes of all weights as sent; there is one copy at a time.
        run: The run's folder, which may be on a slow disk.
    """
    _delete_left()
    free = free_shared_memory()
    if free is not None and free >= size:
        return SHARED_MEMORY / f"{_NAME}{os.getpid()}"
    there = "is not there" if free is None else f"has {free / _GIB:.1f} GiB free"
    log.warning(
        "%s %s, and new weights take %.1f GiB: they go through %s, which is slow on a network disk",
        SHARED_MEMORY,
        there,
        size / _GIB,
        run / "weights",
    )
    return run / "weights"


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Protect a weights folder from deletion by other runs, and delete it at the end.

    A killed launcher leaves its folder in memory until another run finds it unused.

    Raises:
        OSError: Its lock cannot be written.
    """
    lock = folder.with_name(folder.name + _LOCK)
    descriptor = _locked(lock)
    try:
        yield
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Create and lock a file; return its open descriptor."""
    while True:
        descriptor = open_no_link(path, os.O_CREAT | os.O_WRONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another run may have deleted it in the meantime.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def _delete_left() -> None:
    """Delete folders in memory left by killed launchers."""
    for lock in SHARED_MEMORY.glob(f"{_NAME}*{_LOCK}"):
        # In use, another user's, or just deleted by another run.
        with suppress(OSError):
            descriptor = open_no_link(lock, os.O_WRONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink()
            finally:
                os.close(descriptor)


def sent_bytes(run: "TrainingRun") -> int:
    """Bytes of a file with all weights, as servers read them; it contains tied ones twice."""
    from benchmark.engines.core.weights import read_layout

    assert run.init.path is not None
    size = 2 if run.weights_dtype == "bfloat16" else 4
    return size * sum(math.prod(shape) for shape in read_layout(run.init.path).shapes.values())


def free_shared_memory() -> int | None:
    """Free bytes of the in-memory file system; None if there is none."""
    return shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else None
