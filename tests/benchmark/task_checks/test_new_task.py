"""A task in a folder: the commands create, check, play, replay, change and pin it again."""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tasks
from benchmark.cli.main import main
from benchmark.task_template import write
from tasks.errors import UserError
from tasks.panels import read_rows
from tasks.registry import VARIABLE
from tasks.sokoban.task import SokobanTask

GUIDE = (Path(tasks.__file__).parent / "README.md").read_text("utf-8")
MOST_LINES = 150
INHERITED = """
from pathlib import Path
from tasks.base import TaskInfo
from tasks.presentation import Presentation
from tasks.sokoban.task import SokobanTask

class TASK(SokobanTask):
    info = TaskInfo("wrong_index", "1", Presentation("Mine", "Push."))
    folder = Path(__file__).parent
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder; modules imported from it are removed afterward."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv(VARIABLE, "")
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def command(line: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    """Run a command line from the guide, and return its output."""
    assert main(line.removeprefix("arlarena-bench ").split()) == code, line
    printed = capsys.readouterr()
    return printed.out + printed.err


@pytest.mark.slow
def test_the_guide_from_nothing_to_an_evaluated_task(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"^```bash\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    new, export, check, *others = block.splitlines()
    assert export == f"export {VARIABLE}=$PWD/number_path"
    assert "validate ./number_path --pin" in command(new, capsys)
    written = [path for path in (here / "number_path").glob("*.*") if path.is_file()]
    assert sorted(path.name for path in written) == [
        "README.md",
        "__init__.py",
        "make_panels.py",
        "prompt.md",
        "task.py",
    ]
    monkeypatch.setenv(VARIABLE, str(here / "number_path"))
    lines = sum(len(path.read_text().splitlines()) for path in written)
    assert lines < MOST_LINES, lines
    checked = command(f"{check} --training-entries 50", capsys)
    assert "FAIL" not in checked and "all checks passed" in checked
    for line in others:
        printed = command(line, capsys)
    assert "number_path/builtin" in printed and "100.0" in printed
    assert "all match" in command("arlarena-bench replay runs/expert", capsys)
    assert "number_path" in command("arlarena-bench tasks", capsys)


@pytest.mark.slow
def test_a_change_is_found_and_pinned(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("arlarena-bench new-task changed_path", capsys)
    path = here / "changed_path" / "panels" / "index.json"
    index = json.loads(path.read_text())
    pinned = index["builtin"]["trace_sha256"]
    index["builtin"] |= {"trace_sha256": "0" * 64, "random_success": [0.9, 1.0]}
    path.write_text(json.dumps(index))
    quick = "arlarena-bench validate ./changed_path --training-entries 3"
    failed = command(quick, capsys, code=1)
    assert "FAIL random policy stays in its band" in failed
    assert "pinned 000000000000...; raise the task's version, then run arlarena-bench" in failed
    said = command(f"{quick} --pin", capsys)
    assert f"changed_path/builtin: trace_sha256 000000000000... -> {pinned[:12]}..." in said
    assert "now plays differently: raise `version` in TaskInfo" in said
    assert "all checks passed" in said
    assert json.loads(path.read_text())["builtin"]["trace_sha256"] == pinned
    assert "nothing to pin" in command(f"{quick} --pin", capsys)


def test_what_is_missing_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("arlarena-bench new-task half_made", capsys)
    panels, prompt = here / "half_made" / "panels", here / "half_made" / "prompt.md"
    check = "arlarena-bench validate ./half_made --training-entries 3"
    index, entries = (panels / "index.json").read_text(), (panels / "builtin.jsonl").read_text()

    (panels / "index.json").write_text('{"builtin": {"description": "x", "max_turns": 10}}')
    assert "panel builtin is not pinned; run arlarena-bench validate half_made --pin" in command(
        check, capsys, code=2
    )
    (panels / "index.json").unlink()
    assert "index.json is missing: write description and max_turns" in command(
        check, capsys, code=2
    )
    (panels / "index.json").write_text(index)

    (panels / "builtin.jsonl").write_text(entries + '{"id": "x"}\n')
    assert "builtin was changed" in command(check, capsys, code=1)
    assert "builtin.jsonl, line 65 is not an entry" in command(f"{check} --pin", capsys, code=2)
    (panels / "builtin.jsonl").unlink()
    assert "builtin.jsonl is missing: the entries of panel builtin" in command(
        check, capsys, code=1
    )
    (panels / "builtin.jsonl").write_text(entries)
    assert os.environ[VARIABLE] == str(here / "half_made")
    assert "{{ observation }}" in prompt.read_text()


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ("[]", "index.json: Input should be an object"),
        ("{", "index.json: Invalid JSON"),
        ("{}", "index.json: there is no panel builtin, which every task needs"),
        ('{"builtin": {"description": "x"}}', "index.json: builtin.max_turns: Field required"),
        ({"max_turns": "10"}, "builtin.max_turns: Input should be a valid integer"),
        ({"max_turns": 0}, "builtin: Value error, max_turns is at least 1"),
        ({"random_success": [1]}, "builtin.random_success.1: Field required"),
        ({"standard": {"max_tokens": "5"}}, "builtin.standard.max_tokens: Input should be a valid"),
        ({"standard": {"max_token": 5}}, "builtin.standard.max_token: Unexpected keyword argument"),
        (
            {"standard": {"top_p": 0}},
            "builtin.standard: Value error, temperature is 0 or at least 0.01",
        ),
    ],
)
@pytest.mark.parametrize("option", ["", " --pin"])
def test_a_wrong_index_is_one_line(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    index: str | dict[str, object],
    message: str,
    option: str,
) -> None:
    (here / "wrong_index" / "panels").mkdir(parents=True)
    shutil.copy(SokobanTask.folder / "prompt.md", here / "wrong_index")
    (here / "wrong_index" / "task.py").write_text(INHERITED)
    facts = {"description": "x", "max_turns": 10, "episodes": 1, "sha256": "0" * 64}
    text = index if isinstance(index, str) else json.dumps({"builtin": {**facts, **index}})
    (here / "wrong_index" / "panels" / "index.json").write_text(text)
    printed = command(f"arlarena-bench validate ./wrong_index{option}", capsys, code=2)
    assert message in printed and len(printed.splitlines()) == 1


def test_entries_end_at_line_feeds_alone() -> None:
    place = Path("builtin.jsonl")
    content = '{"id": "a\u2028b\x85c", "category": "", "data": {}}\n'.encode()
    assert [entry.id for entry in read_rows(content, place)] == ["a\u2028b\x85c"]
    with pytest.raises(UserError, match=r"builtin\.jsonl, line 1 is not an entry .*UnicodeDecodeE"):
        read_rows(b"\xff", place)
    with pytest.raises(UserError, match=r"builtin\.jsonl has no entries"):
        read_rows(b"", place)


def test_an_unfinished_folder_is_removed(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(task: object) -> None:
        raise UserError(f"no pins for {task}")

    monkeypatch.setattr(write, "pin", fail)
    assert "no pins for" in command("arlarena-bench new-task never_made", capsys, code=2)
    assert not list(here.iterdir())


def test_a_task_is_made_in_a_folder_that_is_searched(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command("arlarena-bench new-task searched_first --folder mine", capsys)
    monkeypatch.setenv(VARIABLE, str(here / "mine"))
    command("arlarena-bench new-task searched_second --folder mine", capsys)
    assert (here / "mine" / "searched_second" / "panels" / "builtin.jsonl").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "Frozen-Lake",
            "a task's name has lowercase letters, digits and _ only, not 'Frozen-Lake'",
        ),
        ("sokoban", "there is a task 'sokoban' already"),
        ("numpy", "there is a Python package 'numpy' already"),
        ("taken_folder", "taken_folder already exists; choose another name or --folder"),
    ],
)
def test_names_that_cannot_be(
    here: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    (here / "taken_folder").mkdir()
    assert message in command(f"arlarena-bench new-task {name}", capsys, code=2)
    assert [path.name for path in here.iterdir()] == ["taken_folder"]


@pytest.mark.slow
def test_pinning_again_changes_nothing_of_the_benchmarks_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    index = SokobanTask.folder / "panels" / "index.json"
    before = index.read_bytes()
    line = "arlarena-bench validate sokoban --panel builtin --training-entries 3 --pin"
    assert "nothing to pin" in command(line, capsys)
    assert index.read_bytes() == before
