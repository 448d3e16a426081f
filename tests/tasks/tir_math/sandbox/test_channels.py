"""Programs of different episodes cannot communicate through shared files or the kernel."""

import fcntl
import os
import platform
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.tir_math.sandbox.base import Sandbox
from tasks.tir_math.sandbox.bubblewrap import BubblewrapSandbox
from tasks.tir_math.sandbox.seccomp import MACHINES, missing_calls
from tasks.tir_math.sandbox.unsafe import UnsafeSandbox
from tests.tasks.tir_math.sandbox.needs import needs_bubblewrap

_HERE, _MISSING = MACHINES[platform.machine()], missing_calls(platform.machine())
HEAD = """\
import ctypes, fcntl, mmap, os, resource, signal, time
file = os.open(os.__file__, os.O_RDONLY)
folder = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
memory = mmap.mmap(file, 4096, prot=mmap.PROT_READ)
own = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
libc = ctypes.CDLL(None, use_errno=True)
space = ctypes.create_string_buffer(512)
def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
def call(*arguments):
    return checked(libc.syscall(*arguments))
libc.mmap.restype = ctypes.c_void_p
page = ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(4096), 1, 1, file, ctypes.c_long(0)))
word = ctypes.c_uint.from_buffer_copy(os.pread(file, 4, 0))
"""
WAKE = f"call({_HERE.futex}, page, 1, 1, None, None, 0)"
"""FUTEX_WAKE: returns the number of waiters at the first word of the file."""
WAIT = f"call({_HERE.futex}, page, 0, word, (ctypes.c_long * 2)(20, 0), None, 0)"
"""FUTEX_WAIT at the same word, for at most 20 seconds."""
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
    "was memory short": "own.madvise(8)",
    "what is cached, by name": (
        f"call({_MISSING['openat2']}, -100, b'/usr', (ctypes.c_uint64 * 3)(0, 0, 0x20), 24)"
    ),
    "what was read from the disk": "resource.getrusage(resource.RUSAGE_SELF)",
    "memory and processes": "checked(libc.sysinfo(space))",
    "space on the disk": "os.statvfs('/usr/lib')",
    "space of an open file's disk": "os.fstatvfs(file)",
    "mounts": f"call({_MISSING['statx']}, -100, b'/tmp', 0, 0x1FFF, space)",
    "numbers of pipes": "os.fstat(os.pipe()[0]).st_ino",
    "numbers of pipes, with flags": "os.pipe2(os.O_CLOEXEC)",
    "budget for pipes": "fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 4096)",
    "size of a pipe": "fcntl.fcntl(1, fcntl.F_GETPIPE_SZ)",
    "who waits": WAKE,
}

REFUSED = ("PermissionError: [Errno 1]", "OSError: [Errno 38]", "BlockingIOError: [Errno 11]")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with BubblewrapSandbox(warm=2) as one:
        yield one


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize("channel", list(CHANNELS))
def test_a_channel_is_closed(channel: str, sandbox: Sandbox) -> None:
    found = sandbox.run(f"{HEAD}\nprint('tried')\n{CHANNELS[channel]}\nprint('open')")
    assert found.stdout == "tried\n", found
    assert found.stderr.rstrip().rpartition("\n")[2].startswith(REFUSED)


@pytest.mark.slow
def test_without_isolation_they_are_open() -> None:
    """Most of them: channels that a kernel lacks are always closed."""
    with UnsafeSandbox() as unsafe:
        runs = [unsafe.run(f"{HEAD}\n{each}\nprint('open')") for each in CHANNELS.values()]
    assert sum(run.stdout == "open\n" for run in runs) >= 22


def _bit_between(sandbox: Sandbox) -> tuple[str, str]:
    """The output of a waiting program and of one that wakes waiters, run simultaneously."""
    wakes = f"""
deadline = time.monotonic() + 10
while not {WAKE} and time.monotonic() < deadline:
    time.sleep(0.01)
"""
    programs = [f"{HEAD}\n{step}\nprint('met')" for step in (WAIT, wakes)]
    with ThreadPoolExecutor(2) as pool:
        waiting, waking = pool.map(sandbox.run, programs)
    return waiting.stdout, waking.stdout


def test_without_isolation_programs_meet_in_a_page_of_a_file() -> None:
    with UnsafeSandbox() as unsafe:
        assert _bit_between(unsafe) == ("met\n", "met\n")


@pytest.mark.slow
@needs_bubblewrap
def test_programs_do_not_meet_in_a_page_of_a_file(sandbox: Sandbox) -> None:
    assert _bit_between(sandbox) == ("", "")


@needs_bubblewrap
def test_few_signals_can_wait(sandbox: Sandbox) -> None:
    """Pending signals share a budget per user, which one program could exhaust."""
    code = "print(resource.getrlimit(resource.RLIMIT_SIGPENDING))"
    assert sandbox.run(f"import resource\n{code}").stdout == "(64, 64)\n"


@needs_bubblewrap
def test_huge_pages_are_refused_whether_there_are_any_or_not(sandbox: Sandbox) -> None:
    code = f"{HEAD}\nmmap.mmap(-1, 2**21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)"
    assert "PermissionError" in sandbox.run(code).stderr


@needs_bubblewrap
def test_the_c_library_does_without_what_is_refused(sandbox: Sandbox) -> None:
    """`qsort` queries the memory size, and `pthread_join` waits on a shared futex."""
    code = """\
import ctypes, time
libc = ctypes.CDLL(None)
order = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.POINTER(ctypes.c_int)] * 2)
numbers = (ctypes.c_int * 5000)(*[i * 7919 % 5003 for i in range(5000)])
libc.qsort(numbers, 5000, 4, order(lambda one, other: one[0] - other[0]))
said = []
main = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
body = main(lambda _: time.sleep(0.05) or said.append("ended"))
thread = ctypes.c_ulong()
assert libc.pthread_create(ctypes.byref(thread), None, body, None) == 0
assert libc.pthread_join(thread, None) == 0
print(list(numbers) == sorted(numbers), said)
"""
    assert sandbox.run(code).stdout == "True ['ended']\n"


@needs_bubblewrap
def test_a_lock_of_the_harness_is_not_seen_and_none_is_taken(sandbox: Sandbox) -> None:
    """In the other direction: the harness locks the file, and finds it unlocked after a program."""
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
copy = os.dup(1)
os.set_blocking(copy, True)
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
