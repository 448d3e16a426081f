"""Programs of different episodes do not talk through the files that all of them can read."""

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.tir_math.sandbox.base import Sandbox
from tasks.tir_math.sandbox.bubblewrap import BubblewrapSandbox
from tasks.tir_math.sandbox.unsafe import UnsafeSandbox
from tests.tasks.tir_math.sandbox.needs import needs_bubblewrap

HEAD = """\
import fcntl, mmap, os, signal
file = os.open(os.__file__, os.O_RDONLY)
folder = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
memory = mmap.mmap(file, 4096, prot=mmap.PROT_READ)
"""
CHANNELS = {
    "drop pages": "os.posix_fadvise(file, 0, 4096, os.POSIX_FADV_DONTNEED)",
    "read ahead": "os.posix_fadvise(file, 0, 4096, os.POSIX_FADV_WILLNEED)",
    "what is cached, by reading": "os.preadv(file, [bytearray(1)], 0, os.RWF_NOWAIT)",
    "lock": "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
    "shared lock": "fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)",
    "lock of a range": "fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 1)",
    "lease": "fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)",
    "who has a lease": "fcntl.fcntl(file, fcntl.F_GETLEASE)",
    "watch a folder": "fcntl.fcntl(folder, fcntl.F_NOTIFY, fcntl.DN_ACCESS | fcntl.DN_MULTISHOT)",
    "signals for a file": "fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGUSR1)",
    "an owner for signals": "fcntl.fcntl(file, fcntl.F_SETOWN, os.getpid())",
    "pages in": "memory.madvise(mmap.MADV_WILLNEED)",
    "pages out": "memory.madvise(21)",
    "pages cold": "memory.madvise(20)",
}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with BubblewrapSandbox() as one:
        yield one


@needs_bubblewrap
@pytest.mark.parametrize("channel", list(CHANNELS))
def test_a_channel_is_closed(channel: str, sandbox: Sandbox) -> None:
    found = sandbox.run(f"{HEAD}\nprint('tried')\n{CHANNELS[channel]}\nprint('open')")
    assert found.stdout == "tried\n", found
    assert "Operation not permitted" in found.stderr


def test_without_isolation_they_are_open() -> None:
    """Most of them: what a kernel lacks is closed everywhere."""
    with UnsafeSandbox() as unsafe:
        runs = [unsafe.run(f"{HEAD}\n{each}\nprint('open')") for each in CHANNELS.values()]
    assert sum(run.stdout == "open\n" for run in runs) >= 10


@needs_bubblewrap
def test_a_lock_of_the_harness_is_not_seen_and_none_is_taken(sandbox: Sandbox) -> None:
    """From the other side: the harness locks the file, and finds it free after a program."""
    ask = f"{HEAD}\nfcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with Path(os.__file__).open("rb") as mine:
        free = sandbox.run(ask)
        fcntl.flock(mine, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = sandbox.run(ask)
        fcntl.flock(mine, fcntl.LOCK_UN)
    assert (free.status, free.stdout, free.stderr) == (held.status, held.stdout, held.stderr)


@needs_bubblewrap
def test_what_programs_need_still_works(sandbox: Sandbox) -> None:
    code = """\
import mmap, os, subprocess, threading, tempfile, numpy, sympy
read, write = os.pipe()
os.set_blocking(read, False)
copy = os.dup(write)
os.set_inheritable(copy, True)
with tempfile.TemporaryFile() as file:
    file.write(b"x" * 10_000)
    file.flush()
    mapped = mmap.mmap(file.fileno(), 0)
thread = threading.Thread(target=lambda: numpy.linalg.inv(numpy.eye(300)))
thread.start()
thread.join()
print(sympy.integrate(sympy.Symbol("x")), len(mapped), numpy.ones((2000, 2000)).sum())
"""
    assert sandbox.run(code).stdout == "x**2/2 10000 4000000.0\n"
