"""The escape suite: malicious programs, judged from outside the sandbox."""

import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import pytest
import sympy

from tasks.tir_math.sandbox.base import MIB, Limits, Sandbox
from tasks.tir_math.sandbox.bubblewrap import BubblewrapSandbox
from tasks.tir_math.sandbox.unsafe import UnsafeSandbox
from tests.tasks.tir_math.sandbox.escape import TOOLS
from tests.tasks.tir_math.sandbox.escapes import ESCAPES
from tests.tasks.tir_math.sandbox.needs import needs_bubblewrap
from tests.tasks.tir_math.sandbox.processes import below

REPOSITORY = Path(__file__).parents[4]
CANARY = "canary-" + os.urandom(8).hex()
MEMORY = 512 * MIB
# For programs that end only at a limit: short, so that infinite loops end soon.
SHORT = Limits(cpu_s=1, wall_s=5.0, memory_bytes=MEMORY)
# For programs that end by themselves: long, so that a busy machine has no effect.
LONG = Limits(cpu_s=60, wall_s=300.0, memory_bytes=MEMORY)


@dataclass
class World:
    """Everything outside the sandbox that a program could harm."""

    folder: Path
    listeners: list[socket.socket] = field(default_factory=list)
    addresses: dict[str, str] = field(default_factory=dict)
    descriptor: int = -1

    def fill(self, source: str) -> str:
        return TOOLS + re.sub("@([A-Z]+)@", lambda found: self.addresses[found[1]], source)

    def harm(self) -> list[str]:
        """The harm done: to connections, files, the interpreter, the repository."""
        found = [str(listener.getsockname()) for listener in self.listeners if _visited(listener)]
        names = sorted(path.name for path in self.folder.iterdir())
        if names != ["canary.txt", "socket"]:
            found.append(f"the folder holds {names}")
        elif (self.folder / "canary.txt").read_text() != CANARY:
            found.append("the canary is another")
        return found


def _visited(listener: socket.socket) -> bool:
    try:
        if listener.type == socket.SOCK_DGRAM:
            listener.recv(10)
        else:
            listener.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def _listener(family: int, kind: int, address: tuple[str, int] | str) -> socket.socket:
    listener = socket.socket(family, kind)
    listener.bind(address)
    if kind == socket.SOCK_STREAM:
        listener.listen()
    listener.setblocking(False)
    return listener


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "canary.txt").write_text(CANARY)
    one = World(folder)
    abstract = f"sandbox-test-{CANARY}"
    one.descriptor = os.open(folder / "canary.txt", os.O_RDONLY)
    os.set_inheritable(one.descriptor, True)
    one.listeners = [
        _listener(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        _listener(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        _listener(socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "socket")),
        _listener(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{abstract}"),
    ]
    one.addresses = {
        "OUTSIDE": str(folder),
        "REPOSITORY": str(REPOSITORY),
        "TCP": str(one.listeners[0].getsockname()[1]),
        "UDP": str(one.listeners[1].getsockname()[1]),
        "UNIX": str(folder / "socket"),
        "ABSTRACT": abstract,
        "PID": str(os.getpid()),
        "DESCRIPTOR": str(one.descriptor),
    }
    yield one
    os.close(one.descriptor)
    for listener in one.listeners:
        listener.close()


@pytest.fixture(scope="module")
def canary_in_environment() -> Iterator[None]:
    os.environ["CANARY"] = CANARY  # the harness's environment
    yield
    del os.environ["CANARY"]


@pytest.fixture(scope="module")
def hasty(world: World, canary_in_environment: None) -> Iterator[Sandbox]:
    with BubblewrapSandbox(limits=SHORT) as one:
        assert one.run("print(1+1)").stdout == "2\n"
        yield one


@pytest.fixture(scope="module")
def sandbox(world: World, canary_in_environment: None) -> Iterator[Sandbox]:
    with BubblewrapSandbox(limits=LONG) as one:
        assert one.run("print(1+1)").stdout == "2\n"
        yield one


def _fingerprint() -> list[tuple[str, int, int, int]]:
    """State of the files from which programs run and by which they are judged."""
    package = REPOSITORY / "tasks" / "tir_math"
    paths = [os.path.realpath("/proc/self/exe"), os.__file__, numpy.__file__, sympy.__file__]
    paths += [str(REPOSITORY / "pyproject.toml"), str(package / "__init__.py")]
    paths += [str(path) for path in sorted((package / "sandbox").glob("*.*"))]
    states = ((path, Path(path).stat()) for path in paths)
    return [(path, state.st_ino, state.st_size, state.st_mtime_ns) for path, state in states]


@pytest.mark.slow
@needs_bubblewrap
@pytest.mark.parametrize("name", list(ESCAPES))
def test_a_program_does_no_harm(name: str, sandbox: Sandbox, hasty: Sandbox, world: World) -> None:
    escape = ESCAPES[name]
    if "time limit" in escape.ends:
        sandbox = hasty
    processes, files, host = below(os.getpid()), _fingerprint(), os.uname()
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    execution = sandbox.run(world.fill(escape.source))

    assert execution.status in escape.ends, execution
    assert ("tried" in execution.stdout) == escape.tried, execution
    assert "HARM" not in execution.stdout + execution.stderr, execution
    assert CANARY not in execution.stdout + execution.stderr
    assert world.harm() == []
    assert not (REPOSITORY / "harm.txt").exists()
    assert below(os.getpid()) == processes
    assert _fingerprint() == files
    assert os.uname() == host
    still_free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert still_free > free - 4 * MEMORY
    assert sandbox.run("import os; print(1+1, os.listdir())").stdout == "2 []\n"


def test_there_are_at_least_forty_escapes() -> None:
    assert len(ESCAPES) >= 40
    assert len({escape.source for escape in ESCAPES.values()}) == len(ESCAPES)


@pytest.mark.parametrize(
    "name",
    ["reading: files of the user", "network: TCP", "network: UDP", "network: unix sockets"],
)
def test_without_isolation_the_same_program_does_harm(name: str, world: World) -> None:
    with UnsafeSandbox(LONG) as unsafe:
        execution = unsafe.run(world.fill(ESCAPES[name].source))
    harmed = bool(world.harm()) or CANARY in execution.stdout
    assert harmed
    assert "HARM" in execution.stdout


def test_without_isolation_a_file_outside_is_written(world: World) -> None:
    with UnsafeSandbox(LONG) as unsafe:
        unsafe.run(f"open({str(world.folder / 'new.txt')!r}, 'w')")
    assert world.harm() != []
    (world.folder / "new.txt").unlink()
    assert world.harm() == []


SPOILERS = {
    "builtins": "import builtins\nbuiltins.print = builtins.len = None",
    "sympy": "import sympy\nsympy.factorint = lambda n: 'spoilt'\nsympy.Integer = None",
    "numpy": "import numpy\nnumpy.sum = None\nnumpy.random.rand = None",
    "modules": "import sys\nsys.modules.clear()\nsys.path.clear()",
    "environment": "import os\nos.environ['SPOILT'] = 'yes'\nos.umask(0o777)\nos.chdir('/')",
    "files": "import os\nopen('/tmp/spoilt', 'w').write('x')\nos.makedirs('/tmp/a/b')",
    "random numbers": "import random, numpy\nrandom.seed(5)\nnumpy.random.seed(5)",
    "memory": (
        "import ctypes\nctypes.memset(id(1) + 24, 7, 1)"  # overwrites the cached number 1
    ),
}
HEALTHY = """\
import os, random, sys, numpy, sympy
print(len([1, 2]), sympy.factorint(12), numpy.sum(numpy.array([1, 2])), os.listdir("/tmp"))
print("SPOILT" in os.environ, os.getcwd(), random.random(), numpy.random.rand(), 1 + 1)
"""


@needs_bubblewrap
@pytest.mark.parametrize("what", list(SPOILERS))
def test_nothing_is_left_for_the_next_program(what: str, sandbox: Sandbox) -> None:
    before = sandbox.run(HEALTHY)
    assert before.stdout.startswith("2 {2: 2, 3: 1} 3 []\nFalse /tmp 0.8444218515250481 0.548813")
    sandbox.run(SPOILERS[what])
    assert sandbox.run(HEALTHY) == before


@needs_bubblewrap
def test_a_program_is_not_in_the_memory_of_the_next(sandbox: Sandbox) -> None:
    needle = "needle-" + CANARY[::-1]  # unique, so that no other program contains it
    assert sandbox.run(f"text = {needle!r} * 9\nprint(text)\nfinal_answer(text)").status == "ok"
    zygotes = [process for process in below(os.getpid()) if _occurs(process, b"def final_answer")]
    assert zygotes
    assert not any(_occurs(zygote, needle.encode()) for zygote in zygotes)


def _occurs(process: int, text: bytes) -> bool:
    """Whether a text occurs in a process's writable memory."""
    with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            area, rights = line.split()[:2]
            if rights.startswith("rw"):
                begin, end = (int(part, 16) for part in area.split("-"))
                memory.seek(begin)
                if text in memory.read(end - begin):
                    return True
    return False
