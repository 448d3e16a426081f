"""Downloaded data is located by one environment variable per task."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import tasks.options
from tasks.base import Task
from tasks.errors import UserError
from tasks.options import use_data
from tasks.registry import load_task
from tasks.sokoban.task import SokobanTask

VARIABLE = "SOKOBAN_DATA_OF_A_TEST"


class Downloaded(SokobanTask):
    info = replace(SokobanTask.info, name="downloaded", data_variable=VARIABLE)


@pytest.fixture(autouse=True)
def _downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task `downloaded` next to the real ones; the variable is unset during and after a test."""

    def load(name: str) -> Task:
        return Downloaded() if name == "downloaded" else load_task(name)

    monkeypatch.setattr(tasks.options, "load_task", load)
    monkeypatch.setenv(VARIABLE, "")


def test_the_option_sets_what_the_variable_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_data([f"downloaded={tmp_path}"])
    assert os.environ[VARIABLE] == str(tmp_path)
    # Relative paths still work in another working folder, and so does a tilde.
    monkeypatch.chdir(tmp_path)
    use_data(["downloaded=."])
    assert os.environ[VARIABLE] == str(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "a=b").mkdir()
    use_data(["downloaded=~/a=b"])
    assert os.environ[VARIABLE] == str(tmp_path / "a=b")


def test_no_option_changes_nothing() -> None:
    before = dict(os.environ)
    use_data([])
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["downloaded"], "--data must be TASK=PATH, not 'downloaded'"),
        (["downloaded="], "--data must be TASK=PATH, not 'downloaded='"),
        (["sokobn=/tmp"], "unknown task 'sokobn'; did you mean sokoban?"),
        (["sokoban=/tmp"], "--data sokoban: the task has no downloaded data; remove it"),
        (["downloaded=/no/such"], "--data downloaded: /no/such is not a folder"),
        (["downloaded=/etc/passwd"], "--data downloaded: /etc/passwd is not a folder"),
        (["downloaded=/tmp", "downloaded=/"], "--data is given twice for downloaded"),
    ],
)
def test_a_mistake_changes_nothing(options: list[str], message: str) -> None:
    with pytest.raises(UserError) as raised:
        use_data(options)
    assert str(raised.value) == message or str(raised.value).startswith(f"{message}")
    assert os.environ[VARIABLE] == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["eval", "--engine", "random"],
        ["replay", "x"],
        ["report", "x"],
        ["merge", "x", "--out", "y"],
        ["tasks"],
        ["play", "sokoban"],
        ["validate", "sokoban"],
        ["bc", "tiny-sokoban"],
    ],
)
def test_every_command_that_reads_panels_takes_it(command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmark.cli", *command, "--data", "sokoban=/tmp"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith("--data sokoban: the task has no downloaded data; remove it")
