"""Runs that cannot be begun or end with an error, beside others."""

import sys
from pathlib import Path

import pytest

from baselines.study import running
from baselines.study.current_tracks import current_tracks_of
from baselines.study.running import run_cells
from baselines.study.schema import Cell
from baselines.study.workspace import STATE, StudySetting, read_state


def test_a_run_whose_state_is_damaged_fails_and_the_rest_goes_on(
    tmp_path: Path, tiny_tracks: Path
) -> None:
    cells = [Cell("fixed", recipe, 0) for recipe in ("grpo", "gspo")]
    command = (sys.executable, "-c", "print('no'); raise SystemExit(3)")
    out, results = tmp_path / "runs", tmp_path / "results"
    setting = StudySetting(current_tracks_of(cells, "study.yaml"), out, results, 1, command)
    damaged = setting.folder(cells[0]) / STATE
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    said: dict[str, str] = {}
    run_cells(
        cells,
        setting,
        lambda cell, found: pytest.fail(f"{cell} {found} is finished"),
        lambda cell, why: said.update({cell.recipe: why}),
    )
    assert str(damaged) in said["grpo"]
    assert "train ended with exit code 3: no" in said["gspo"]


def test_a_run_knows_the_commits_that_it_was_made_with(
    tmp_path: Path, tiny_tracks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell("fixed", "grpo", 0)
    command = (sys.executable, "-c", "raise SystemExit(3)")
    tracks = current_tracks_of([cell], "study.yaml")
    setting = StudySetting(tracks, tmp_path / "runs", tmp_path / "results", 1, command)
    for commit in ("one", "two", "two", None, "one"):
        monkeypatch.setattr(running, "code_commit", lambda now=commit: now)
        run_cells(
            [cell], setting, lambda cell, found: pytest.fail("finished"), lambda cell, why: None
        )
    assert read_state(setting.folder(cell)).commits == ("one", "two", "one")
