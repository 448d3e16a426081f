"""The sandbox without isolation: programs run, and faulty ones end."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.tir_math.sandbox.base import Execution, Limits, Sandbox
from tasks.tir_math.sandbox.unsafe import UnsafeSandbox
from tests.tasks.tir_math.sandbox.processes import below


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with UnsafeSandbox(Limits(cpu_s=2, wall_s=8.0)) as one:
        yield one


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "execution"),
    [
        ("print(1+1)", Execution("ok", "2\n", "")),
        ("", Execution("ok", "", "")),
        ("final_answer('é')", Execution("ok", "\\boxed{é}\n", "")),
        ("import random; print(random.random())", Execution("ok", "0.8444218515250481\n", "")),
        ("import sys; sys.exit('no')", Execution("error", "", "no\n")),
        ("import os; os.abort()", Execution("killed", "", "")),
        ("print(1)\nwhile True: pass", Execution("time limit", "1\n", "")),
        ("print('x' * 10**6)", Execution("output limit", "x" * 65536, "")),
    ],
)
def test_programs_end_as_in_the_other_sandboxes(
    sandbox: Sandbox, code: str, execution: Execution
) -> None:
    assert sandbox.run(code) == execution


@pytest.mark.parametrize(
    ("code", "status", "last"),
    [
        ("x", "error", "NameError: name 'x' is not defined"),
        ("1 +", "error", "SyntaxError: invalid syntax"),
        ("a\0b", "error", "source code string cannot contain null bytes"),
        ("'\ud800'", "error", "surrogates not allowed"),
        ("bytearray(2 * 10**9)", "memory limit", "MemoryError"),
    ],
)
def test_errors_end_with_what_python_says(
    sandbox: Sandbox, code: str, status: str, last: str
) -> None:
    execution = sandbox.run(code)
    assert execution.status == status
    assert execution.stderr.rstrip().endswith(last)


@pytest.mark.slow
def test_wall_time_is_limited_and_children_are_killed() -> None:
    before = below(os.getpid())
    begin = time.monotonic()
    code = "import subprocess, time\nsubprocess.Popen(['sleep', '600'])\ntime.sleep(600)"
    with UnsafeSandbox(Limits(wall_s=2.0)) as sandbox:
        assert sandbox.run(code).status == "time limit"
    with UnsafeSandbox(Limits(wall_s=120.0)) as sandbox:
        assert sandbox.run("import subprocess; subprocess.Popen(['sleep', '600'])").status == "ok"
    assert time.monotonic() - begin < 240
    assert below(os.getpid()) == before


def test_the_environment_and_the_folder_are_the_programs_own(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "secret")
    code = "import os; print(os.environ.get('SECRET'), os.listdir()); print(os.getcwd())"
    first, folder = sandbox.run(code).stdout.splitlines()
    assert first == "None ['program.py']"
    assert not Path(folder).exists()


def test_it_says_what_it_is(sandbox: Sandbox) -> None:
    assert sandbox.describe()["kind"] == "unsafe"
