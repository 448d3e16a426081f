"""Tracks that train in seconds on eight episodes of each task, for tests of studies.

Run as a program, it is the command line with these tracks: `python -m
tests.support.training.tiny_study FOLDER ...`.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

import baselines.study.workspace
import baselines.tracks.registry
from tasks.base import Task
from tasks.panels import Panel
from tasks.sokoban.task import SokobanTask
from tasks.text_task import TextTask
from tasks.tir_math.task import TirMathTask

LEVELS = 8
UPDATES = int(os.environ.get("TINY_UPDATES", "4"))
"""Updates per run; the environment variable `TINY_UPDATES` overrides it."""
T = TypeVar("T", bound=Task)
MIXED = ("sokoban", "tir_math")
"""Tasks of the track `mixed`."""


def use_first_entries(patch: pytest.MonkeyPatch, task_type: type[T], count: int) -> None:
    """Reduce all panels of a task to their first entries, and undo all effects of that later."""
    patch.setattr(task_type, "panel", first_entries(task_type, count))
    if issubclass(task_type, TextTask):
        # The entries that training streams exclude are computed once, from the current panels.
        patch.setattr(task_type, "panel_problems", cache(TextTask.panel_problems.__wrapped__))


def first_entries(task_type: type[T], count: int) -> Callable[[T, str], Panel]:
    """A replacement for a task's `panel` that returns only the panel's first entries."""
    whole_panel = task_type.panel

    def panel(task: T, name: str) -> Panel:
        whole = whole_panel(task, name)
        info = replace(whole.info, episodes=count)
        return replace(whole, info=info, entries=whole.entries[:count])

    return panel


def make_tracks(folder: Path) -> None:
    """Write tracks in which a run takes seconds: `tuned`, whose rate is one of two, `fixed`,
    `math`, on another task, and `mixed`, on both tasks. `fast` and `free` vary `fixed`: three times
    its rate, without KL.
    """
    shipped = yaml.safe_load(
        (baselines.tracks.registry.TRACKS / "sokoban-standard.yaml").read_text()
    )
    settings = shipped["settings"]
    settings["rollout"] |= {"groups": 2, "group_size": 4, "max_turns": 4, "max_tokens": 32}
    settings["optimization"] |= {"updates": UPDATES, "mini_batches": 2, "warmup_updates": 0}
    settings["validation"]["every"] = 2
    settings["checkpoint_every"] = 1
    fixed = {"learning_rate": {"fixed": 5.0e-4}}
    tuned = {"grid": [3.0e-4, 1.0e-3], "seed": 1000, "updates": 1, "last": 1}
    left_to_tasks = {"unit": None, "validation": {**settings["validation"], "panel": None}}
    own: dict[str, dict[str, Any]] = {
        "tuned": {"learning_rate": tuned},
        "fixed": fixed,
        "math": {**fixed, "tasks": ["tir_math"], "settings": {**settings, "unit": "trajectory"}},
        "mixed": {**fixed, "tasks": list(MIXED), "settings": {**settings, **left_to_tasks}},
    }
    varied: dict[str, dict[str, Any]] = {
        "fast": {"base": "fixed", "learning_rate": {"fixed": 1.5e-3}},
        "free": {"base": "fixed", "settings": {"kl": {"coef": 0.0}}},
    }
    contents = {name: {**shipped, **pinned} for name, pinned in own.items()} | varied
    tracks = folder / "tracks"
    tracks.mkdir(parents=True)
    for name, pinned in contents.items():
        content = {**pinned, "description": name}
        (tracks / f"{name}.yaml").write_text(yaml.safe_dump(content), "utf-8")
    pins: dict[str, dict[str, str | None]] = {
        name: {"sha256": baselines.tracks.registry.read_track(tracks / f"{name}.yaml").sha256}
        for name in contents
    }
    for pin in pins.values():
        pin["cpu_minutes"] = None
    (tracks / "index.yaml").write_text(yaml.safe_dump(pins), "utf-8")


def use_tracks(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Use a folder's tracks and small panels in this process."""
    patch.setattr(baselines.tracks.registry, "TRACKS", folder / "tracks")
    patch.setattr(baselines.study.workspace, "COMMAND", command(folder))
    for task_type in (SokobanTask, TirMathTask):
        use_first_entries(patch, task_type, LEVELS)


def command(folder: Path) -> tuple[str, ...]:
    """The start of a command line that uses a folder's tracks."""
    return sys.executable, "-m", "tests.support.training.tiny_study", str(folder)


def main(arguments: Sequence[str]) -> int:
    """Run the command line with a folder's tracks."""
    from benchmark.cli.main import main as program

    with pytest.MonkeyPatch.context() as patch:
        use_tracks(Path(arguments[0]), patch)
        return program(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
