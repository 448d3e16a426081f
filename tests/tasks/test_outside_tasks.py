"""Tasks outside the benchmark, and unfinished tasks."""

import os
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from benchmark.cli.main import main
from tasks import registry
from tasks.errors import UserError
from tasks.registry import VARIABLE, load_task, own_names, task_name, task_names
from tasks.sokoban.task import SokobanTask

Folder = Callable[[str, str], Path]

FINISHED = """
from pathlib import Path
from tasks.base import TaskInfo
from tasks.sokoban.task import SokobanTask
from tasks.presentation import Presentation

class Mine(SokobanTask):
    info = TaskInfo("{name}", "1", Presentation("Mine", "Push."))

TASK = Mine
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    """Make the folder of a task with this `task.py`, and undo the effects of its import."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    # Set first, so that additions by a command are undone as well.
    monkeypatch.setenv(VARIABLE, "")

    def make(name: str, text: str) -> Path:
        path = tmp_path / name
        path.mkdir()
        (path / "task.py").write_text(text.format(name=name))
        return path

    yield make
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_a_task_is_given_by_its_folder(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder("given_by_path", FINISHED)
    monkeypatch.chdir(path.parent)
    assert task_name("./given_by_path") == "given_by_path"
    assert task_name("./given_by_path/builtin") == "given_by_path/builtin"
    assert task_name(f"{path}/") == "given_by_path"
    assert os.environ[VARIABLE] == str(path)
    assert load_task("given_by_path").info.presentation.title == "Mine"
    assert "given_by_path" in task_names()
    assert "given_by_path" not in own_names()
    assert task_name("sokoban") == "sokoban"
    assert task_name(f"{SokobanTask.folder}/builtin") == "sokoban/builtin"


def test_tasks_are_found_in_the_folder_that_the_variable_names(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder("found_by_variable", FINISHED)
    monkeypatch.setenv(VARIABLE, str(path.parent))
    assert load_task("found_by_variable").info.name == "found_by_variable"


@pytest.mark.parametrize("spelled", ["{}/", "{}/..", "spelled_otherwise", "./spelled_otherwise/"])
def test_a_folder_is_the_same_however_the_variable_spells_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, spelled: str
) -> None:
    path = folder("spelled_otherwise", FINISHED)
    monkeypatch.chdir(path.parent)
    monkeypatch.setenv(VARIABLE, spelled.format(path))
    assert task_name("./spelled_otherwise") == "spelled_otherwise"
    assert os.environ[VARIABLE] == spelled.format(path)


@pytest.mark.parametrize("text", ["~no-such-user/task", "./" + "x" * 5000])
def test_a_path_that_the_system_refuses_is_one_line(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"^the task's folder .* cannot be read: [^/]+$"):
        task_name(text)
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(UserError, match=r"cannot be read"):
        task_names()


def test_a_package_brings_a_task(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder("of_a_package", FINISHED)
    monkeypatch.syspath_prepend(str(path.parent))
    point = EntryPoint("of_a_package", "of_a_package.task:TASK", registry.GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: (point,))
    assert load_task("of_a_package").info.name == "of_a_package"
    missing = EntryPoint("gone", "no_such_package.task:TASK", registry.GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: (missing,))
    with pytest.raises(UserError, match="task gone cannot be loaded: ModuleNotFoundError: No mod"):
        load_task("gone")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("empty_file", "", r"task empty_file is not finished: .*task\.py has no TASK = YourTask"),
        ("a_number", "TASK = 3", r"TASK must be a subclass of tasks.base.Task, not 3"),
        (
            "no_methods",
            "from tasks.base import Task\nclass TASK(Task): pass",
            "not finished: TASK lacks contract, episode, expert_response, identity, panel, panels",
        ),
        (
            "wrong_name",
            FINISHED.replace("{name}", "other"),
            "info.name is 'other'; it must be the folder's name",
        ),
        ("bad_syntax", "def", r"cannot be loaded: invalid syntax \(.*task\.py, line 1\)"),
        ("bad_name", "\n\nx = y", r"NameError: name 'y' is not defined \(.*task\.py, line 3\)"),
    ],
)
def test_what_is_not_finished_is_one_line(
    folder: Folder, name: str, text: str, message: str
) -> None:
    with pytest.raises(UserError, match=message) as raised:
        load_task(task_name(str(folder(name, text))))
    assert "\n" not in str(raised.value)


def test_names_that_are_taken(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="there is another task 'sokoban'; rename the folder"):
        task_name(str(folder("sokoban", FINISHED)))
    with pytest.raises(UserError, match="there is another package called 'numpy'"):
        load_task(task_name(str(folder("numpy", FINISHED))))
    with pytest.raises(UserError, match="not the folder of a task: it has no task.py"):
        task_name(str(tmp_path / "nothing"))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nothing"))
    with pytest.raises(UserError, match="is neither a task's folder nor contains one"):
        task_names()


def test_an_unfinished_task_stops_no_other_command(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    task_name(str(folder("begun_today", "")))
    assert main(["tasks"]) == 0
    listed = capsys.readouterr().out
    assert "sokoban" in listed
    assert "not listed: task begun_today is not finished" in listed


def test_all_tasks_without_the_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unfinished folder inside the repository, which `eval` of all tasks skips."""
    monkeypatch.setattr("benchmark.cli.commands.eval.own_names", lambda: ("begun", "sokoban"))
    out = str(tmp_path / "run")
    assert main(["eval", "--engine", "expert", "--shard", "1/128", "--out", out]) == 0
    printed = capsys.readouterr().out
    assert "not played: unknown task 'begun'" in printed
    assert "sokoban/builtin" in printed
