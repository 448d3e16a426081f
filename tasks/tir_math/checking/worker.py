"""The checker's own process: makes every comparison in a disposable copy of itself.

A comparison may take for ever, also inside of C code, or fill the memory. So this process only
waits; for each question it forks a copy, in which math-verify is loaded already, and reads what
the copy says before it ends. No answer leaves anything behind for the next one.

Both sides speak over a pair of sockets, in frames: four bytes that give the length, then JSON. The
process says `{"ready": true}`, or why it cannot, and then gives one reply to every question, which
is `[truth, answer]`. The copy speaks to this process over a pipe, and its words are read as plain
text: first `read` once it has read the right answer, then the result.
"""

import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.tir_math.checking import comparison as comparisons

HEADER = struct.Struct(">I")
MOST_FRAME_BYTES = 2**20

_WATCH_S = 1.0
_PR_SET_PDEATHSIG = 1
# Copies inherit what reading these leaves in caches: tables of the grammar, modules of sympy.
_WARM_UP = (
    (r"\frac{1}{2}", "0.5"),
    (r"x^2 + 2x + 1", "(x+1)^{2}"),
    (r"\left( 3, \frac{\pi}{2} \right)", r"(3, \pi/2)"),
    (r"1 \pm \sqrt{19}", r"1 + \sqrt{19}, 1 - \sqrt{19}"),
    (r"[-2, 7)", r"-2 \leq x < 7"),
    (r"\{1, 2\}", "x = 1, x = 2"),
    (r"\text{(C)}", "C"),
    (r"(-\infty, 2) \cup (3, \infty)", r"(-\infty, 2]"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{bmatrix} 1 \\ 3 \end{bmatrix}"),
    ("6 - 5i", "6 + 5i"),
    (r"10!", r"\binom{10}{5} \cdot 2^{3}"),
)


def main(descriptor: int, parent: int, cpu_s: float, wall_s: float, memory_bytes: int) -> None:
    """Answer questions until the other side is gone.

    Args:
        descriptor: This process's end of the pair of sockets.
        parent: Process that holds the other end.
        cpu_s: Processor seconds of one comparison.
        wall_s: Seconds after which a comparison that uses no processor time is given up.
        memory_bytes: Address space of this process and of each copy.
    """
    # The other side decides when the work ends; Ctrl-C may reach all processes of a run.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _set_limits(memory_bytes)
    with socket.socket(fileno=descriptor) as connection:
        try:
            comparison = _load()
        except Exception as error:
            _send(connection, {"ready": False, "error": f"{type(error).__name__}: {error}"})
            return
        try:
            _send(connection, {"ready": True})
            while _waits(connection, parent):
                question = receive(connection)
                if question is None:
                    break
                truth, answer = question
                reply = _Copy(comparison, connection, truth, answer, cpu_s).outcome(parent, wall_s)
                if reply is None:
                    break
                _send(connection, reply)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the other side is gone


def receive(connection: socket.socket) -> Any:
    """The next frame's value; None at the end.

    Raises:
        ValueError: It is too long, or no JSON.
    """
    header = _read(connection, HEADER.size)
    if header is None:
        return None
    (length,) = HEADER.unpack(header)
    if length > MOST_FRAME_BYTES:
        raise ValueError(f"a frame of {length} bytes")
    frame = _read(connection, length)
    return None if frame is None else json.loads(frame)


def frame_of(value: Any) -> bytes:
    """A frame; JSON in ASCII, which holds every string, lone surrogates included."""
    data = json.dumps(value).encode("ascii")
    return HEADER.pack(len(data)) + data


class _Copy:
    """A copy of this process that makes one comparison."""

    def __init__(
        self,
        comparison: "type[comparisons.Pair]",
        connection: socket.socket,
        truth: str,
        answer: str,
        cpu_s: float,
    ) -> None:
        self._connection = connection
        self._said, theirs = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._said)
                connection.close()
                _confine(cpu_s)
                _compare(comparison, theirs, truth, answer)
            finally:
                # Nothing of this process's own ending is the copy's to do.
                os._exit(1)
        os.close(theirs)

    def outcome(self, parent: int, wall_s: float) -> dict[str, Any] | None:
        """Wait for the copy's end.

        Args:
            parent: Process whose end is the copy's, too.
            wall_s: Seconds after which it is killed.

        Returns:
            What it said and how it ended; None if the other side is gone.
        """
        said = b""
        gone = False
        deadline = time.monotonic() + wall_s
        try:
            while True:
                left = deadline - time.monotonic()
                watched: list[int | socket.socket] = [self._said, self._connection]
                ready, _, _ = select.select(watched, [], [], max(0.0, min(left, _WATCH_S)))
                # While it waits, the other side sends nothing: what can be read is the end.
                gone = self._connection in ready or os.getppid() != parent
                if gone or left <= 0:
                    os.kill(self._pid, signal.SIGKILL)
                    break
                if self._said in ready:
                    data = os.read(self._said, 4096)
                    if not data:
                        break
                    said += data
        finally:
            os.close(self._said)
            _, status = os.waitpid(self._pid, 0)
        if gone:
            return None
        return {
            "said": said.decode("ascii", "replace").split(),
            "status": os.waitstatus_to_exitcode(status),
        }


def _load() -> "type[comparisons.Pair]":
    from tasks.tir_math.checking import comparison

    comparison.quiet()
    for truth, answer in _WARM_UP:
        comparison.Pair(truth, answer).compare()
    gc.collect()
    gc.freeze()
    return comparison.Pair


def _compare(
    comparison: "type[comparisons.Pair]", descriptor: int, truth: str, answer: str
) -> None:
    """Compare, say the result and end."""
    from tasks.tir_math.checking.comparison import UnreadableTruth

    result: str
    try:
        pair = comparison(truth, answer)
        os.write(descriptor, b"read ")
        result = pair.compare()
    except UnreadableTruth:
        result = "unreadable"
    except MemoryError:
        result = "memory"
    except RecursionError:
        result = "failed"
    os.write(descriptor, result.encode())
    os._exit(0)


def _set_limits(memory_bytes: int) -> None:
    for limit, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        _, hard = resource.getrlimit(limit)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (most, most))


def _confine(cpu_s: float) -> None:
    """Let the kernel end this process after so much processor time, whatever it is doing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    signal.setitimer(signal.ITIMER_PROF, cpu_s)


def _waits(connection: socket.socket, parent: int) -> bool:
    """Wait for something to read; whether the other side is still there.

    Its end of the sockets may live on in processes that it has forked, so its own end is looked
    for as well.
    """
    while os.getppid() == parent:
        if select.select([connection], [], [], _WATCH_S)[0]:
            return True
    return False


def _send(connection: socket.socket, value: Any) -> None:
    connection.sendall(frame_of(value))


def _read(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            return None
        data += part
    return data
