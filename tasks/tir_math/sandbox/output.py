"""Reads a process's output within bounds of size and time."""

import os
import select
import time
from collections.abc import Callable
from dataclasses import dataclass, field

_CHUNK = 65536


@dataclass(slots=True)
class Stream:
    """The reading end of a pipe, and what has been read.

    Attributes:
        descriptor: The pipe; it is set to be read without waiting.
        limit: Bytes that are kept; what comes after them is thrown away.
    """

    descriptor: int
    limit: int
    open: bool = True
    over: bool = False
    _kept: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        os.set_blocking(self.descriptor, False)

    def read(self) -> None:
        """Read what is there, at most one chunk."""
        try:
            data = os.read(self.descriptor, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self.open = False
        room = self.limit - len(self._kept)
        self.over = self.over or len(data) > room
        self._kept += data[:room]

    def drain(self) -> None:
        """Read what is left once nobody writes any more."""
        if self.open:
            for _ in range(2 + self.limit // _CHUNK):
                self.read()

    @property
    def text(self) -> str:
        """What is kept, as text."""
        return self._kept.decode("utf-8", "replace")


def read_until(
    streams: tuple[Stream, ...], end: int, stop: Callable[[], None], wall_s: float, grace_s: float
) -> bool:
    """Read streams until a descriptor becomes readable.

    Args:
        streams: What to read.
        end: The descriptor.
        stop: Called once, when a stream is over its limit or the time is over; it should bring
            the end about.
        wall_s: Seconds before `stop` is called.
        grace_s: Seconds after that before nothing more is waited for.

    Returns:
        Whether the time was over.

    Raises:
        TimeoutError: The end did not come after `stop`.
    """
    poll = select.poll()
    poll.register(end, select.POLLIN)
    for stream in streams:
        poll.register(stream.descriptor, select.POLLIN)
    deadline, stopped, late = time.monotonic() + wall_s, False, False
    while True:
        left = deadline - time.monotonic()
        if left <= 0 and stopped:
            raise TimeoutError
        if not stopped and (left <= 0 or any(stream.over for stream in streams)):
            late = left <= 0
            stopped = True
            deadline = time.monotonic() + grace_s
            stop()
            continue
        ready = {descriptor for descriptor, _ in poll.poll(max(left, 0) * 1000)}
        for stream in streams:
            if stream.descriptor in ready:
                stream.read()
                if not stream.open:
                    poll.unregister(stream.descriptor)
        if end in ready:
            return late
