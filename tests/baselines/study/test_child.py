"""A child process of a study."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from baselines.study.current_tracks import current_tracks_of
from baselines.study.running import run_cells
from baselines.study.schema import Cell
from baselines.study.workspace import STATE, StudySetting

GROUP = Path("/proc/self/autogroup")
NICE = """
import os
from pathlib import Path
from baselines.study.child import Child
os.nice(7)
child = Child(["sleep", "60"], None)
print(Path(f"/proc/{child.pid}/autogroup").read_text(), os.getpriority(os.PRIO_PROCESS, child.pid))
child.kill()
"""


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


@pytest.mark.skipif(not GROUP.exists(), reason="a kernel without groups of sessions")
def test_a_child_is_as_nice_as_its_parent() -> None:
    """It has a session of its own, and with it a group for the scheduler."""
    made = subprocess.run(
        [sys.executable, "-c", NICE], capture_output=True, text=True, check=True, timeout=60
    )
    nice = min(os.nice(0) + 7, 19)
    assert f"nice {nice}\n {nice}" in made.stdout
