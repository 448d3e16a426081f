"""Steps of deterministic engines: each begins when all that will be asked before it has been asked.

Where several engines serve the same clients (cross-policy sampling), they take their steps
together. Otherwise it would depend on their speed which of one's answers reach the other before
its next step.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Turn:
    """One engine's next step, which its thread waits for.

    Args:
        asked: Requests to the engine since its start; called in the event loop.
    """

    def __init__(self, asked: Callable[[], int]) -> None:
        self._begun = threading.Event()
        self._asked = asked
        self._taken = 0

    def begin(self) -> None:
        """Let the step begin, with all requests that there are."""
        self._taken = self._asked()
        self._begun.set()

    def wait(self, seconds: float) -> int | None:
        """The number of requests when the step began; None if it has not begun by then."""
        return self._taken if self._begun.wait(seconds) else None


class LockStep:
    """Decides when engines take their next steps. All methods run in the event loop.

    A step begins when every client has asked or has left, and when every engine with an open
    request has finished its last step. All engines that are ready then begin at once.
    """

    def __init__(self) -> None:
        self._thinking = 0
        self._open: Counter[object] = Counter()
        self._ready: dict[object, Turn] = {}

    @contextmanager
    def client(self) -> Iterator[None]:
        """Somebody who is waited for, as long as no request of theirs is open."""
        self._thinking += 1
        try:
            yield
        finally:
            self._thinking -= 1
            self._begin()

    @contextmanager
    def request(self, engine: object) -> Iterator[None]:
        """A client's open request to an engine, which has got it before."""
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
        """An engine has finished its last step, and its answers have reached the clients."""
        self._ready[engine] = turn
        self._begin()

    def _begin(self) -> None:
        playing = (engine for engine, count in self._open.items() if count)
        if self._thinking > 0 or not all(engine in self._ready for engine in playing):
            return
        for turn in self._ready.values():
            turn.begin()
        self._ready.clear()
