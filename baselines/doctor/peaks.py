"""Peak memory of each phase of a run."""

import os
from pathlib import Path
from typing import Final

import torch

_STATUS: Final = Path("/proc/self/status")
_RESET: Final = Path("/proc/self/clear_refs")
_KIB: Final = 2**20


class Peaks:
    """Records the peak memory of phases as they begin and end; in GiB.

    On a GPU this is the memory allocated by this process's torch; on a CPU it is the process's
    resident memory, whose peak Linux can reset.

    Attributes:
        of: The highest peak of each completed phase.
    """

    def __init__(self) -> None:
        self.of: dict[str, float] = {}
        self._phase: str | None = None

    def begin(self, phase: str | None, done: int = 0, total: int = 0) -> None:
        """Start a phase, or with None end the last one; calls within a phase are ignored."""
        del done, total
        if phase == self._phase:
            return
        if self._phase is not None:
            self.of[self._phase] = max(self.of.get(self._phase, 0.0), _peak())
        self._phase = phase
        _set_back()


def _peak() -> float:
    if torch.cuda.is_available():
        return float(torch.cuda.max_memory_allocated()) / 2**30
    lines = dict(line.split(":", 1) for line in _STATUS.read_text("utf-8").splitlines())
    return int(lines["VmHWM"].split()[0]) / _KIB


def _set_back() -> None:
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    elif os.access(_RESET, os.W_OK):
        # 5: "reset the peak resident set size" (proc(5)).
        _RESET.write_text("5", "ascii")
