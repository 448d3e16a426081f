"""Expensive fixtures, made once for all test processes of a run."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that the first process to request it fills, while the others wait.

    It must not be modified.

    Args:
        factory: pytest's.
        name: Name of the folder.
        make: Fills the folder. If it fails, the next process to request it tries again.
    """
    base = factory.getbasetemp()
    # xdist gives every process a folder within a shared one.
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
