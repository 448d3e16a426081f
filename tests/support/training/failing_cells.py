"""A study in which every run fails."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from baselines.launch.slots import NO_GPUS, GpuSlots
from baselines.study.current_tracks import current_tracks_of
from baselines.study.running import run_cells
from baselines.study.schema import Cell
from baselines.study.workspace import StudySetting


def failing_setting(
    folder: Path, cells: Sequence[Cell], program: str, gpus: GpuSlots = NO_GPUS, jobs: int = 1
) -> StudySetting:
    """A study in a folder, with a Python program as its commands."""
    tracks, command = current_tracks_of(cells, "study.yaml"), (sys.executable, "-c", program)
    return StudySetting(tracks, folder / "runs", folder / "results", jobs, command, gpus=gpus)


def failures(cells: Sequence[Cell], setting: StudySetting) -> dict[str, str]:
    """Try to run cells; returns why each failed, by recipe."""
    why: dict[str, str] = {}
    run_cells(
        cells,
        setting,
        lambda *_: None,
        lambda cell, found: pytest.fail(f"{cell} {found} is finished"),
        lambda cell, reason: why.update({cell.recipe: reason}),
    )
    return why
