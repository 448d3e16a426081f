"""Two tracks of seconds on eight levels of Sokoban, for tests of studies.

Run as a program, it is the command line with these tracks:
`python -m tests.support.training.tiny_study FOLDER ...`.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

import baselines.study.workspace
import baselines.tracks.registry
from tasks.panels import Panel
from tasks.sokoban.task import SokobanTask

LEVELS = 8
UPDATES = int(os.environ.get("TINY_UPDATES", "4"))
"""Of a run; `TINY_UPDATES` makes another number."""
_whole_panel = SokobanTask.panel


def first_levels(count: int) -> Callable[[SokobanTask, str], Panel]:
    """What stands for `SokobanTask.panel`: the first levels of a panel, as a panel."""

    def panel(task: SokobanTask, name: str) -> Panel:
        whole = _whole_panel(task, name)
        info = replace(whole.info, episodes=count)
        return replace(whole, info=info, entries=whole.entries[:count])

    return panel


def make_tracks(folder: Path) -> None:
    """Write `tuned`, whose rate is one of two, and `fixed`, in which a run takes seconds."""
    shipped = yaml.safe_load(
        (baselines.tracks.registry.TRACKS / "sokoban-standard.yaml").read_text()
    )
    settings = shipped["settings"]
    settings["rollout"] |= {"groups": 2, "group_size": 4, "max_turns": 4, "max_tokens": 32}
    settings["optimization"] |= {"updates": UPDATES, "mini_batches": 2, "warmup_updates": 0}
    settings["validation"]["every"] = 2
    settings["checkpoint_every"] = 1
    rules: dict[str, Any] = {
        "tuned": {"grid": [3.0e-4, 1.0e-3], "seed": 1000, "updates": 1, "last": 1},
        "fixed": {"fixed": 5.0e-4},
    }
    tracks = folder / "tracks"
    tracks.mkdir(parents=True)
    for name, rule in rules.items():
        content = {**shipped, "description": name, "learning_rate": rule}
        (tracks / f"{name}.yaml").write_text(yaml.safe_dump(content), "utf-8")
    pins: dict[str, dict[str, str | None]] = {
        name: {"sha256": baselines.tracks.registry.read_track(tracks / f"{name}.yaml").sha256}
        for name in rules
    }
    for pin in pins.values():
        pin["cpu_minutes"] = None
    (tracks / "index.yaml").write_text(yaml.safe_dump(pins), "utf-8")


def use_tracks(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Take the tracks of a folder, and small panels, in this process."""
    patch.setattr(baselines.tracks.registry, "TRACKS", folder / "tracks")
    patch.setattr(baselines.study.workspace, "COMMAND", command(folder))
    patch.setattr(SokobanTask, "panel", first_levels(LEVELS))


def command(folder: Path) -> tuple[str, ...]:
    """What begins a command line that takes the tracks of a folder."""
    return sys.executable, "-m", "tests.support.training.tiny_study", str(folder)


def main(arguments: Sequence[str]) -> int:
    """The command line with the tracks of a folder."""
    from benchmark.cli.main import main as program

    with pytest.MonkeyPatch.context() as patch:
        use_tracks(Path(arguments[0]), patch)
        return program(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
