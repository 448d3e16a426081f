"""Steps of deterministic engines: each starts once all requests that belong before it have arrived.

If several engines serve the same clients (cross-policy sampling), they step together. Otherwise
their speed would decide which requests, made after one engine's answers, reach the other before its
next step.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Turn:
    """One engine's next step, for which its thread waits.

    Args:
        asked: Returns the number of requests since the engine's start; called in the event loop.
    """

    def __init__(self, asked: Callable[[], int]) -> None:
        self._begun = threading.Event()
        self._asked = asked
        self._taken = 0

    def begin(self) -> None:
        """Start the step with all requests so far."""
        self._taken = self._asked()
        self._begun.set()

    def wait(self, seconds: float) -> int | None:
        """The number of requests at the step's start; None if it has not started in time."""
        return self._taken if self._begun.wait(seconds) else None


class LockStep:
    """Decides when engines take their next steps. All methods run in the event loop.

    A step starts when every client has sent a request or left, and every engine with an open
    request has finished its last step. All engines that are ready then start at once.
    """

    def __init__(self) -> None:
        self._thinking = 0
        self._open: Counter[object] = Counter()
        self._ready: dict[object, Turn] = {}

    @contextmanager
    def client(self) -> Iterator[None]:
        """A client that steps wait for whenever it has no open request."""
        self._thinking += 1
        try:
            yield
        finally:
            self._thinking -= 1
            self._begin()

    @contextmanager
    def request(self, engine: object) -> Iterator[None]:
        """A client's open request to an engine, which has already received it."""
        self._open[engine] += 1
        self._thinking -= 1
        self._begin()
        try:
            yield
        finally:
            self._thinking += 1
            self._open[engine] -= 1
            self._begin()

    def ready(self, engine: object, turn: Turn) -> None:
        """Report that an engine finished its last step and its answers reached the clients."""
        self._ready[engine] = turn
        self._begin()

    def _begin(self) -> None:
        playing = (engine for engine, count in self._open.items() if count)
        if self._thinking > 0 or not all(engine in self._ready for engine in playing):
            return
        for turn in self._ready.values():
            turn.begin()
        self._ready.clear()
