"""Wall time of an update, by phase."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from baselines.learning.metrics import Metrics


class Clock:
    """Wall time of an update, by phase."""

    def __init__(self) -> None:
        self._began = 0.0
        self._phases: dict[str, float] = {}

    def begin(self) -> None:
        """Start an update."""
        self._began = time.monotonic()
        self._phases = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time one phase, even if it is interrupted."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._phases[name] = self._phases.get(name, 0.0) + time.monotonic() - began

    @property
    def total(self) -> float:
        """Seconds since the update started."""
        return time.monotonic() - self._began

    def metrics(self) -> Metrics:
        """`seconds/` metrics."""
        phases: Metrics = {f"seconds/{name}": value for name, value in self._phases.items()}
        return phases | {"seconds/total": self.total}
