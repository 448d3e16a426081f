"""Measures memory and processor time of one call in a separate process."""

import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def alone(call: Callable[..., T], *arguments: Any) -> T:
    """Call a module's function in a new process, forked from one that has run nothing.

    The fork server has imported the modules of earlier calls, which saves time.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([call.__module__])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(call, *arguments).result()


def cost(call: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds of a call, and its peak additional memory in MiB (Linux)."""
    before = resident()
    # Resets the peak.
    Path("/proc/self/clear_refs").write_text("5")
    began = time.process_time()
    call()
    spent = time.process_time() - began
    status = Path("/proc/self/status").read_text()
    highest = int(status.split("VmHWM:")[1].split()[0]) / 1024
    return spent, highest - before


def resident() -> float:
    """Resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20
