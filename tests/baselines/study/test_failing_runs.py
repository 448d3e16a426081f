"""Runs that cannot be begun or end with an error, beside others."""

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


def test_a_run_knows_the_commits_that_it_was_made_with(
    tmp_path: Path, tiny_tracks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell("fixed", "grpo", 0)
    setting = failing_setting(tmp_path, [cell], "raise SystemExit(3)")
    for commit in ("one", "two", "two", None, "one"):
        monkeypatch.setattr(running, "code_commit", lambda now=commit: now)
        failures([cell], setting)
    assert read_state(setting.folder(cell)).commits == ("one", "two", "one")
