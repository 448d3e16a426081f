"""What is dear to make, made once for all test processes of a run."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first process to ask for it fills; the others wait for it.

    Nobody may change what is in it.

    Args:
        factory: pytest's.
        name: Of the folder.
        make: Fills it. Where it fails, the next one to ask tries again.
    """
    base = factory.getbasetemp()
    # xdist gives every process a folder in a common one.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, part = shared / name, shared / f"{name}.part"
    with (shared / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            make(part)
            part.rename(folder)
    return folder
