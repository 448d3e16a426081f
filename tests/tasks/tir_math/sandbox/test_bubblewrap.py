"""The default sandbox: what programs can use, what they return, and that nothing is left behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tasks.errors import UserError
from tasks.tir_math.sandbox.base import Execution, Limits, Sandbox, SandboxError
from tasks.tir_math.sandbox.bubblewrap import BubblewrapSandbox
from tests.tasks.tir_math.sandbox.needs import needs_bubblewrap
from tests.tasks.tir_math.sandbox.processes import below, parents

REPOSITORY = Path(__file__).parents[4]
# Long limits, so that a busy machine has no effect where time is not tested.
LIMITS = Limits(cpu_s=60, wall_s=240.0)

pytestmark = needs_bubblewrap


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with BubblewrapSandbox(limits=LIMITS) as one:
        yield one


def _soon(condition: Callable[[], bool], within_s: float = 20.0) -> bool:
    deadline = time.monotonic() + within_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


class Started:
    """The processes started since its creation, and their descendants."""

    def __init__(self) -> None:
        self._before = below(os.getpid())
        self._seen: set[int] = set()

    def now(self) -> set[int]:
        found = below(os.getpid()) - self._before
        self._seen |= found
        return found

    def zygote(self) -> int:
        return max(self.now())

    def gone(self) -> bool:
        """Whether all processes seen so far have ended, whatever their present parents."""
        assert self._seen
        return _soon(lambda: not self._seen & set(parents()))


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_program_runs(sandbox: Sandbox) -> None:
    assert sandbox.run("print(1+1)") == Execution("ok", "2\n", "")


def test_the_libraries_are_there_and_few(sandbox: Sandbox) -> None:
    code = """\
import numpy, sympy, mpmath
print(sympy.factorint(10**12 + 39), numpy.linalg.det(numpy.eye(50)), mpmath.mpf(1) / 4)
for name in ("pytest", "torch", "pydantic", "pip", "setuptools"):
    try:
        print("there is", __import__(name))
    except ModuleNotFoundError as error:
        print(error)
"""
    assert sandbox.run(code).stdout.splitlines() == [
        "{1000000000039: 1} 1.0 0.25",
        *(f"No module named '{name}'" for name in ("pytest", "torch", "pydantic", "pip")),
        "No module named 'setuptools'",
    ]


@pytest.mark.parametrize(
    ("code", "last"),
    [
        ("print(x)", "NameError: name 'x' is not defined"),
        ("1 +", "SyntaxError: invalid syntax"),
        ("def f(): return 1/0\nf()", "ZeroDivisionError: division by zero"),
        ("input()", "EOFError: EOF when reading a line"),
        ("a\0b", "SyntaxError: source code string cannot contain null bytes"),
        ("raise SystemExit('no')", "no"),
        ("exit(3)", ""),
        ("import os; os._exit(9)", ""),
        ("x = '\ud800'", "surrogates not allowed"),
    ],
)
def test_errors_end_with_what_python_says(sandbox: Sandbox, code: str, last: str) -> None:
    execution = sandbox.run(code)
    assert execution.status == "error"
    lines = execution.stderr.splitlines() or [""]
    # Python 3.11 before 3.11.4 raises ValueError for null bytes.
    assert lines[-1].removeprefix("ValueError").endswith(last.removeprefix("SyntaxError"))


def test_a_traceback_shows_the_program_alone(sandbox: Sandbox) -> None:
    execution = sandbox.run("def f():\n    return 1/0\n\nf()")
    assert execution.stderr.splitlines() == [
        "Traceback (most recent call last):",
        '  File "<program>", line 4, in <module>',
        '  File "<program>", line 2, in f',
        "ZeroDivisionError: division by zero",
    ]


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        ("", ""),
        ("# " + "x" * 10**6 + "\nprint(3)", "3\n"),
        ("final_answer(7)", "\\boxed{7}\n"),
        ("def f(): final_answer('x'); return 1\nprint(f())", "\\boxed{x}\n1\n"),
        ("from __future__ import annotations\nprint(__name__)", "__main__\n"),
        ("import sys; sys.stdout.buffer.write(b'a\\xff\\xfeb')", "a��b"),
        ("import sys; sys.stdout.buffer.write(b'a\\0b')", "a\0b"),
        ("print(list({'b', 'a', 'd', 'c', 'e'}) == list({'b', 'a', 'd', 'c', 'e'}))", "True\n"),
        ("import sys\nprint(sys.argv, sorted(sys.modules['__main__'].__dict__)[-1])", None),
        ("import threading\nthreading.Thread(target=print, args=(5,)).start()", "5\n"),
        ("import atexit\natexit.register(print, 6)", "6\n"),
        ("print(end='no newline')\nimport sys\nsys.exit()", "no newline"),
        ("open('x', 'w').write('ab')\nprint(open('/tmp/x').read())", "ab\n"),
    ],
)
def test_odd_programs_run(sandbox: Sandbox, code: str, stdout: str | None) -> None:
    execution = sandbox.run(code)
    assert (execution.status, execution.stderr) == ("ok", "")
    if stdout is not None:
        assert execution.stdout == stdout


@pytest.mark.slow
def test_the_same_program_prints_the_same(sandbox: Sandbox) -> None:
    code = (
        "import random, numpy\nprint({'b', 'a', 'c'}, hash('x'), random.random(), id(object()) > 0)"
        "\nprint(numpy.random.rand(), random.sample(range(99), 5))"
    )
    first = sandbox.run(code)
    with BubblewrapSandbox() as other:
        assert [sandbox.run(code), other.run(code), other.run(code)] == [first] * 3
    assert "0.8444218515250481" in first.stdout  # random.seed(0)
    assert "0.548813503927" in first.stdout  # numpy.random.seed(0)


def test_much_output_is_cut(sandbox: Sandbox) -> None:
    execution = sandbox.run("print('x' * 10**6)")
    assert execution == Execution("output limit", "x" * 65536, "")
    most = sandbox.run("import sys; sys.stdout.write('x' * 65536)")
    assert most == Execution("ok", "x" * 65536, "")
    both = sandbox.run("import sys\nprint('a')\nsys.stderr.write('é' * 40000)")
    assert (both.status, both.stdout) == ("output limit", "a\n")
    assert both.stderr == "é" * 32768


@pytest.mark.slow
def test_what_was_printed_before_a_limit_is_kept() -> None:
    with BubblewrapSandbox(limits=Limits(cpu_s=1, wall_s=240.0)) as sandbox:
        execution = sandbox.run("print('begin', end='')\nwhile True: pass")
    assert execution == Execution("time limit", "begin", "")


@pytest.mark.slow
def test_processor_time_and_wall_time_are_limited() -> None:
    with BubblewrapSandbox(limits=Limits(cpu_s=30, wall_s=5.0)) as sandbox:
        begin = time.monotonic()
        assert sandbox.run("import time; time.sleep(600)").status == "time limit"
        assert time.monotonic() - begin < 120
        assert sandbox.run("print(1+1)").stdout == "2\n"


@pytest.mark.slow
def test_memory_is_limited(sandbox: Sandbox) -> None:
    execution = sandbox.run("print('begin')\nkept = []\nwhile True: kept.append(' ' * 1000)")
    assert (execution.status, execution.stdout) == ("memory limit", "begin\n")
    assert sandbox.run("x = bytearray(2 * 10**9)").status == "memory limit"
    assert sandbox.run("x = bytearray(5 * 10**8)\nprint(len(x))").stdout == "500000000\n"


@pytest.mark.slow
def test_threads_are_counted() -> None:
    program = (
        "import _thread, time\n_thread.stack_size(65536)\n"
        "for _ in range({0}): _thread.start_new_thread(time.sleep, ({1} + 1,))\n"
        "time.sleep({1})\nprint('all')"
    )
    with BubblewrapSandbox(limits=Limits(wall_s=240.0, threads=10)) as sandbox:
        assert sandbox.run(program.format(8, 2)).stdout == "all\n"
        # Whoever counts them may be late.
        assert sandbox.run(program.format(30, 200)) == Execution("killed", "", "")


def test_threads_that_allocate_have_room(sandbox: Sandbox) -> None:
    program = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from threading import Barrier\n"
        "together = Barrier(60)\n"
        "def work(n):\n    kept = bytearray(n)\n    together.wait(200)\n    return len(kept)\n"
        "with ThreadPoolExecutor(60) as pool: print(sum(pool.map(work, [1000] * 60)))"
    )
    assert sandbox.run(program).stdout == "60000\n"


def test_a_sandbox_describes_itself(sandbox: Sandbox) -> None:
    described = dict(sandbox.describe())
    limits = described.pop("limits")
    assert limits.startswith("cpu 60 s, wall 240 s, memory 1024 MiB, no processes, 64 threads")
    code = (
        "import sys, numpy, sympy, mpmath\nprint('%d.%d' % sys.version_info[:2],"
        "numpy.__version__, sympy.__version__, mpmath.__version__)"
    )
    inside = dict(
        zip(("python", "numpy", "sympy", "mpmath"), sandbox.run(code).stdout.split(), strict=True)
    )
    assert described == {"kind": "bubblewrap", **inside}


@pytest.mark.slow
def test_several_threads_share_the_zygotes() -> None:
    started = Started()
    with BubblewrapSandbox(warm=2) as sandbox, ThreadPoolExecutor(6) as threads:
        codes = [f"import time; time.sleep(0.05); print({number})" for number in range(24)]
        printed = [one.stdout for one in threads.map(sandbox.run, codes)]
        # bubblewrap, its first process and the zygote, twice
        assert len(started.now()) == 6
    assert printed == [f"{number}\n" for number in range(24)]


@pytest.mark.slow
def test_a_thread_that_ends_does_not_end_the_zygote_that_it_caused() -> None:
    with BubblewrapSandbox() as sandbox:
        thread = threading.Thread(target=sandbox.run, args=("",))
        thread.start()
        thread.join()
        before = below(os.getpid())
        assert sandbox.run("print(1+1)").stdout == "2\n"
        assert below(os.getpid()) == before != set()


@pytest.mark.slow
def test_a_zygote_killed_while_it_is_idle_is_replaced() -> None:
    started = Started()
    with BubblewrapSandbox() as sandbox:
        assert sandbox.run("print(1)").stdout == "1\n"
        killed = started.zygote()
        os.kill(killed, signal.SIGKILL)
        assert started.gone()
        assert sandbox.run("print(2)").stdout == "2\n"
        assert killed != started.zygote()
    assert started.gone()


@pytest.mark.slow
def test_a_zygote_killed_midway_fails_the_program_and_is_replaced() -> None:
    started = Started()
    with BubblewrapSandbox() as sandbox, ThreadPoolExecutor(1) as threads:
        sandbox.run("")
        zygote = started.zygote()
        running = threads.submit(sandbox.run, "import time; time.sleep(60)")
        assert _soon(lambda: bool(below(zygote)))
        os.kill(zygote, signal.SIGKILL)
        with pytest.raises(SandboxError, match="the sandbox (has ended|is gone)"):
            running.result(timeout=30)
        assert sandbox.run("print(2)").stdout == "2\n"
        started.now()
    assert started.gone()


@pytest.mark.slow
def test_a_zygote_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Started()
    monkeypatch.setattr("tasks.tir_math.sandbox.forkserver.GRACE_S", 1.0)
    with BubblewrapSandbox(limits=Limits(wall_s=1.0)) as sandbox:
        sandbox.run("")
        stopped = started.zygote()
        os.kill(stopped, signal.SIGSTOP)
        with pytest.raises(SandboxError, match="cannot end a program and is abandoned"):
            sandbox.run("print(1)")
        assert _soon(lambda: stopped not in parents())
        sandbox_without_hurry = sandbox.run("")
        assert sandbox_without_hurry.status in {"ok", "time limit"}


@pytest.mark.slow
def test_a_closed_sandbox_refuses_and_leaves_nothing() -> None:
    started = Started()
    before = _descriptors()
    sandbox = BubblewrapSandbox()
    with ThreadPoolExecutor(1) as threads:
        sandbox.run("")
        zygote = started.zygote()
        running = threads.submit(sandbox.run, "import time; time.sleep(60)")
        assert _soon(lambda: bool(below(zygote)))
        sandbox.close()
        sandbox.close()
        with pytest.raises(SandboxError):
            running.result(timeout=30)
    with pytest.raises(SandboxError, match="the sandbox is closed"):
        sandbox.run("print(1)")
    assert started.gone()
    assert _descriptors() == before


HARNESS = """\
from tasks.tir_math.sandbox.bubblewrap import BubblewrapSandbox
sandbox = BubblewrapSandbox()
sandbox.run("")
print("ready", flush=True)
sandbox.run("import time; time.sleep(600)")
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_death_of_the_harness_leaves_nothing(how: signal.Signals) -> None:
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS], stdout=subprocess.PIPE, cwd=REPOSITORY
    )
    with harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"ready\n"
        # bubblewrap, its first process, the zygote, the program
        assert _soon(lambda: len(below(harness.pid)) == 4)
        started = below(harness.pid)
        harness.send_signal(how)
        harness.wait()
    assert _soon(lambda: not started & set(parents()))


@pytest.mark.slow
def test_hundreds_of_programs_leave_nothing_behind() -> None:
    """`tests.benchmarks.scripts.sandbox_speed` runs two thousand."""
    started = Started()
    temporary = set(Path("/tmp").iterdir())
    with BubblewrapSandbox() as sandbox:
        sandbox.run("")
        processes, descriptors = started.now(), _descriptors()
        zygote = max(processes)
        inside = len(list(Path(f"/proc/{zygote}/fd").iterdir()))
        for number in range(300):
            execution = sandbox.run(f"open('x', 'w').write('x')\nprint({number})")
            assert execution == Execution("ok", f"{number}\n", "")
        assert started.now() == processes
        assert _descriptors() == descriptors
        assert len(list(Path(f"/proc/{zygote}/fd").iterdir())) == inside
        assert sandbox.run("import os; print(os.listdir('/tmp'))").stdout == "[]\n"
    assert started.gone()
    ours = {path for path in set(Path("/tmp").iterdir()) - temporary if "sandbox" in path.name}
    assert ours == set()


def test_a_broken_bubblewrap_is_told(tmp_path: Path) -> None:
    before = below(os.getpid())
    broken = tmp_path / "bwrap"
    says = "bwrap: setting up uid map: Permission denied"
    broken.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(UserError, match="uid map: Permission denied.*tir_math.sandbox=unsafe"):
        BubblewrapSandbox(bubblewrap=str(broken))
    with pytest.raises(UserError, match="does not start .*No such file"):
        BubblewrapSandbox(bubblewrap=str(tmp_path / "missing"))
    assert below(os.getpid()) == before


def test_limits_that_are_too_low_are_told() -> None:
    with pytest.raises(UserError, match="does not start|limits may be too low"):
        BubblewrapSandbox(limits=Limits(memory_bytes=2**20))
    with pytest.raises(UserError, match="at least one warm process, not 0"):
        BubblewrapSandbox(warm=0)
