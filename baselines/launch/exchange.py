"""The folder through which new weights go from a trainer to its servers."""

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
"""End of the name of the file that is locked while a folder is in use; it lies beside it."""
_GIB: Final = 2**30

log = logging.getLogger(__name__)


def exchange_folder(size: int, run: Path) -> Path:
    """Where weights go on their way to the servers: in memory, if it has room for them.

    Args:
        size: Bytes of all weights as they are sent; there is one copy of them at a time.
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
    """Keep a folder for weights from being deleted by other runs, and delete it at the end.

    A launcher that is killed leaves its folder, in memory, until another run finds that nobody
    uses it.

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
    """A file that is made and locked, as an open descriptor."""
    while True:
        descriptor = open_no_link(path, os.O_CREAT | os.O_WRONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        # Another run may have deleted it in between.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def _delete_left() -> None:
    """Delete what launchers that were killed have left in memory."""
    for lock in SHARED_MEMORY.glob(f"{_NAME}*{_LOCK}"):
        # In use, somebody else's, or deleted by another run in this moment.
        with suppress(OSError):
            descriptor = open_no_link(lock, os.O_WRONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink()
            finally:
                os.close(descriptor)


def sent_bytes(run: "TrainingRun") -> int:
    """Bytes of a file with all weights, as servers read them; tied ones are in it twice."""
    from benchmark.engines.core.weights import read_layout

    assert run.init.path is not None
    size = 2 if run.weights_dtype == "bfloat16" else 4
    return size * sum(math.prod(shape) for shape in read_layout(run.init.path).shapes.values())


def free_shared_memory() -> int | None:
    """Bytes that are free in the file system in memory; None where there is none."""
    return shutil.disk_usage(SHARED_MEMORY).free if SHARED_MEMORY.is_dir() else None
