"""Runs that fail to start or end with an error, next to others."""

from pathlib import Path

import pytest

from baselines.study import running
from baselines.study.schema import Cell
from baselines.study.workspace import STATE, read_state
from tests.support.training.failing_cells import failing_setting, failures


def test_a_run_whose_state_is_damaged_fails_and_the_rest_goes_on(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    cells = [Cell("fixed", recipe, 0) for recipe in ("grpo", "gspo")]
    setting = failing_setting(tmp_path, cells, "print('no'); raise SystemExit(3)")
    damaged = setting.folder(cells[0]) / STATE
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    said = failures(cells, setting)
    assert str(damaged) in said["grpo"]
    assert "train ended with exit code 3: no" in said["gspo"]


NO_OUTPUT = """
import sys
from pathlib import Path
if sys.argv[1] == "train" and "grpo" in sys.argv:
    output = Path(sys.argv[sys.argv.index("--out") + 1], "output.txt")
    output.unlink()
    output.mkdir()
    sys.exit(0)
sys.exit(3)
"""


def test_a_step_that_cannot_be_started_fails_its_run_and_the_rest_goes_on(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    cells = [Cell("fixed", recipe, 0) for recipe in ("grpo", "gspo")]
    setting = failing_setting(tmp_path, cells, NO_OUTPUT)
    blocked = setting.folder(Cell("fixed", "grpo", 0))
    said = failures(cells, setting)
    assert said["grpo"] == f"eval cannot be started in {blocked}: Is a directory"
    assert "train ended with exit code 3" in said["gspo"]
    state = read_state(blocked)
    assert state.pid is None and set(state.cpu_seconds) == {"train"}


def test_a_run_knows_the_commits_that_it_was_made_with(
    tmp_path: Path, tiny_tracks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell("fixed", "grpo", 0)
    setting = failing_setting(tmp_path, [cell], "raise SystemExit(3)")
    for commit in ("one", "two", "two", None, "one"):
        monkeypatch.setattr(running, "code_commit", lambda now=commit: now)
        failures([cell], setting)
    assert read_state(setting.folder(cell)).commits == ("one", "two", "one")
