"""SIGTERM and Ctrl-C of a training run: the first one saves a checkpoint, a later one ends it."""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, Self

from benchmark.cli.training.processes import is_main, process_count

if TYPE_CHECKING:
    from baselines.training.trainer import Trainer

SAME_SIGTERM_S: Final = 10.0
"""Seconds within which another SIGTERM counts as the same: launchers and schedulers forward it,
too."""
SAME_PRESS_S: Final = 0.5
"""The same for Ctrl-C, which users press again once they have read the message."""

_STOPPING: Final = "stopping, with a checkpoint"

log = logging.getLogger(__name__)


@contextlib.contextmanager
def handlers_kept() -> Iterator[None]:
    """Within this context, handlers of both signals may be replaced; it restores them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        # Only the main thread may set them, and only there were they replaced; one that was not set
        # from Python is None and cannot be.
        with contextlib.suppress(ValueError, TypeError):
            for number, handler in before.items():
                signal.signal(number, handler)


class StopSignals:
    """A context manager that handles both signals in an event loop's main task.

    Before there is a trainer, they cancel the task. With one, the first asks it to stop where it
    can be resumed. Python runs the handlers in the main thread as soon as it executes any bytecode
    there, even while the policy learns and the event loop is blocked. Thus Ctrl-C gets an immediate
    response, and a step that hangs can be ended.

    Args:
        ends: Whether nothing is left to stop afterward if no exception is raised. Both signals are
            then ignored, until `handlers_kept` restores their handlers: a finished run must not
            look like a stopped one.

    Attributes:
        trainer: The trainer to stop; None before there is one.
    """

    def __init__(self, ends: bool = False) -> None:
        self.trainer: Trainer | None = None
        self._ends = ends
        self._asked: float | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        """Install the handlers."""
        task = asyncio.current_task()
        assert task is not None
        self._task, self._loop = task, asyncio.get_running_loop()
        # Not in another thread, which receives no signals.
        with contextlib.suppress(ValueError):
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Restore the previous handlers."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if self._ends and kind is None else handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.trainer is None:
            self._loop.call_soon_threadsafe(self._task.cancel)
            return
        if self._asked is None:
            self._asked = time.monotonic()
            if is_main():
                what = "ending: all updates are made" if self.trainer.finished else _STOPPING
                log.warning("%s; to stop at once, ask again", what)
            self._loop.call_soon_threadsafe(self.trainer.stop)
            return
        # A launcher forwards Ctrl-C, too.
        pressed = number == signal.SIGINT and process_count() == 1
        if time.monotonic() - self._asked > (SAME_PRESS_S if pressed else SAME_SIGTERM_S):
            raise KeyboardInterrupt
