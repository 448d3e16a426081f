"""This project's own submissions: scripted policies, shipped inits, and the recipes of a study.

    python scripts/own_entries.py [policies] [inits] [study] --date YYYYMMDD

This uses only the public commands: `arlarena-bench eval`, which resumes where it was stopped,
`submit prepare` and `submit check`. The entries of a study come from its finished cells, which
contain logs and records; no weights are needed. Existing folders stay unchanged. Two entries cannot
contain the same weights, so if the study has more seeds than an entry, that entry has to be removed
first.
"""

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from safetensors.torch import load_file

from baselines.inits.registry import INITS, read_registry
from baselines.study.cells import Finished, unpack
from baselines.study.current_tracks import CurrentTrack, current_tracks_of
from baselines.study.schema import TABLE, cells_of, read_study
from baselines.study.workspace import survey
from baselines.tracks.registry import RESULTS
from baselines.tracks.sweeps import points_of_sweeps
from tasks.errors import UserError
from tasks.texts import printable

ROOT = Path(__file__).parents[1]
POLICIES = {
    "expert": "The scripted solver of each task. It sees the whole state of the world, so that no "
    "model can be expected to do better.",
    "random": "Draws among the admissible actions.",
}
PANELS = (
    "sokoban/builtin",
    "sokoban/two_boxes",
    "alfworld/builtin",
    "webshop/builtin",
    "tir_math/builtin",
)
PIXELS = ("sokoban/builtin",)
"""Panels of the protocol for images that every entry with that protocol plays."""
CLONED = (
    "Turns of scripted players on the task's training stream (baselines/inits, recipe.yaml of the "
    "init)."
)


@dataclass(frozen=True, slots=True)
class Plan:
    """An entry to make.

    Attributes:
        folder: Name of its folder, without the date.
        about: Content of its `about.yaml`.
        evaluations: Arguments of `eval` by the run's name.
        cells: Finished cells whose records and logs are submitted, in the order of their seeds.
    """

    folder: str
    about: dict[str, Any]
    evaluations: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cells: tuple[Finished, ...] = ()


def policies() -> list[Plan]:
    """The scripted policies, on all built-in panels and on those of the protocol for images."""
    plans = []
    for ending, panels, options in (
        ("", PANELS, ()),
        ("-pixels", PIXELS, ("--protocol", "pixels")),
    ):
        played = (*options, *(part for panel in panels for part in ("--task", panel)))
        for name, text in POLICIES.items():
            folder = f"{name}{ending}"
            called = f"{name.capitalize()} policy{ending.replace('-', ' - ')}"
            about = _about(called, {"recipe": name, "description": text})
            plans.append(Plan(folder, about, {folder: ("--engine", name, *played)}))
    return plans


def inits() -> list[Plan]:
    """The shipped inits, each on the built-in panels of its own tasks."""
    plans = []
    for name, init in read_registry().items():
        if init.folder is None:
            continue
        about = _about(
            name,
            {"recipe": "behavior cloning", "description": "The shipped init, as it is."},
            base_model=name,
            parameters=_parameters(INITS / name),
            training_data=_data(*init.tasks),
        )
        panels = (part for task in init.tasks for part in ("--task", f"{task}/builtin"))
        played = ("--model", name, *panels)
        plans.append(Plan(name, about, {name: played}))
    return plans


def study(file: Path, results: Path, *, partial: bool) -> list[Plan]:
    """The recipes of a study, one entry per track.

    Args:
        file: The study.
        results: Its finished cells.
        partial: Include recipes that lack seeds, with the finished ones.
    """
    cells = cells_of(read_study(file))
    current_tracks = current_tracks_of(cells, str(file))
    finished = {each.cell: each for each in survey(cells, current_tracks, results).finished}
    # A point of a sweep of learning rates is not an entry: the study's page shows the sweep.
    points = points_of_sweeps(each.track for each in current_tracks.values())
    plans = []
    for track, recipe in dict.fromkeys((cell.track, cell.recipe) for cell in cells):
        if track in points:
            continue
        wanted = sorted(cell for cell in cells if (cell.track, cell.recipe) == (track, recipe))
        there = [finished[cell] for cell in wanted if cell in finished]
        if there and (partial or len(there) == len(wanted)):
            plans.append(_trained(recipe, current_tracks[track], there))
    return plans


def _trained(recipe: str, current_track: CurrentTrack, cells: Sequence[Finished]) -> Plan:
    track = current_track.track
    rate = cells[0].facts.learning_rate
    init = track.init.name
    shipped = read_registry()[init].folder
    about = _about(
        f"{recipe.upper()} {track.name}",
        {
            "recipe": recipe,
            "description": f"The recipe {recipe} on the track {track.name}: "
            f"{current_track.updates} updates from {init} at the learning rate {rate:g}; "
            "the last weights of every seed. Part of this project's study.",
        },
        base_model=init,
        **({} if shipped is None else {"parameters": _parameters(shipped)}),
        init=init,
        training_data=_data(*track.tasks, played="Episodes of the training stream, played by the "),
    )
    folder = f"{recipe}-{track.name}".replace("_", "-")
    return Plan(folder, about, cells=tuple(cells))


def _about(name: str, method: dict[str, Any], **more: object) -> dict[str, Any]:
    contact = "the issues of this repository"
    return {
        "name": name,
        "authors": ["arlarena-bench"],
        "contact": contact,
        "method": method,
        **more,
    }


def _data(*tasks: str, played: str = "") -> dict[str, Any]:
    before = f"{played}policy itself. The init: " if played else ""
    return {
        "statement": before + CLONED,
        "training_streams": list(tasks),
        "other": False,
        "panel_episodes": False,
    }


def _parameters(folder: Path) -> int:
    """Number of parameters of a folder's model."""
    tensors = (t for path in folder.glob("*.safetensors") for t in load_file(path).values())
    return sum(tensor.numel() for tensor in tensors)


def _seeds(folder: Path) -> set[int]:
    """Seeds of an entry."""
    about = json.loads((folder / "submission.json").read_text("utf-8"))
    return {checkpoint["seed"] for checkpoint in about["checkpoints"]}


def make(plan: Plan, date: str, runs: Path, submissions: Path) -> bool:
    """Evaluate, prepare and check one entry; returns whether it is accepted."""
    folder = submissions / f"{date}_{plan.folder}"
    made = sorted(submissions.glob(f"[0-9]*_{plan.folder}"))
    lacking = sorted({cell.cell.seed for cell in plan.cells} - _seeds(made[-1])) if made else []
    if made and not lacking:
        print(f"{made[-1]} is there", flush=True)
        return True
    if made:
        print(f"{made[-1]} lacks seeds {lacking}: remove it (git rm -r), then make it again")
        return False
    for name, arguments in plan.evaluations.items():
        _command("eval", *arguments, "--out", str(runs / name))
    about = runs / f"{plan.folder}.yaml"
    about.parent.mkdir(parents=True, exist_ok=True)
    about.write_text(yaml.safe_dump(plan.about, sort_keys=False))
    unpacked = [unpack(cell, runs / plan.folder / cell.cell.stem) for cell in plan.cells]
    logs = ("--training-log", *(str(log) for _, log in unpacked)) if unpacked else ()
    played = [*(str(runs / name) for name in plan.evaluations), *(str(run) for run, _ in unpacked)]
    files = ("--about", str(about), "--out", str(folder))
    if _command("submit", "prepare", *played, *files, *logs, may_fail=True):
        return False
    return _command("submit", "check", str(folder), may_fail=True) == 0


def _command(*arguments: str, may_fail: bool = False) -> int:
    command = [sys.executable, "-m", "benchmark.cli", *arguments]
    code = subprocess.run(command, check=False, cwd=ROOT).returncode  # noqa: S603 - our own command
    # 1 means "not accepted"; any other code is an error.
    if code and not (may_fail and code == 1):
        raise UserError(f"`arlarena-bench {' '.join(arguments)}` failed with exit code {code}")
    return code


def main() -> int:
    """Make the requested entries; paths are relative to the repository's root."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", help="policies, inits, study (default: all)")
    parser.add_argument("--date", default=f"{datetime.now(UTC):%Y%m%d}", help="yyyymmdd")
    parser.add_argument("--study", type=Path, default=TABLE, help="study file")
    parser.add_argument("--results", type=Path, default=RESULTS, help="of its finished cells")
    parser.add_argument("--partial", action="store_true", help="recipes that lack seeds, too")
    parser.add_argument("--runs", type=Path, default=Path("runs/entries"), help="of evaluations")
    parser.add_argument("--submissions", type=Path, default=Path("submissions"))
    with contextlib.chdir(ROOT):  # Entries store the paths of their runs relative to here.
        return _make_all(parser.parse_args())


def _make_all(arguments: argparse.Namespace) -> int:
    parts: dict[str, Callable[[], list[Plan]]] = {
        "policies": policies,
        "inits": inits,
        "study": lambda: study(arguments.study, arguments.results, partial=arguments.partial),
    }
    accepted = True
    try:
        if unknown := set(arguments.what) - parts.keys():
            raise UserError(f"{min(unknown)!r} is none of {', '.join(parts)}")
        for name in arguments.what or parts:
            for plan in parts[name]():
                accepted &= make(plan, arguments.date, arguments.runs, arguments.submissions)
    except UserError as error:
        print(f"own_entries: {printable(str(error))}", file=sys.stderr)
        return 2
    return 0 if accepted else 1


if __name__ == "__main__":
    sys.exit(main())
