"""This project's own submissions: scripted policies, shipped inits, and the recipes of the study.

    python scripts/own_entries.py [policies] [inits] [study] --date 20270102

Everything is done with the commands that anybody uses: `arlarena-bench eval`, which goes on where
it was stopped, `submit prepare` and `submit check`. Folders that are there stay as they are.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from safetensors.torch import load_file

from baselines.registry import INITS, read_registry
from scripts.study import RECIPES
from scripts.study_numbers import Result, load_study
from tasks.errors import UserError

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
SETTINGS = {
    "stable": ("", "with the learning rate that its tuning has chosen"),
    "aggressive": (
        " (aggressive)",
        "with a high learning rate, two passes over every rollout and no KL to the init",
    ),
}
"""What the study's settings add to an entry's name, and what they are."""
CLONED = "Episodes of the scripted expert on the task's training stream (recipe.yaml of the init)."


@dataclass(frozen=True, slots=True)
class Plan:
    """An entry that is to be made.

    Attributes:
        folder: Name of its folder, without the date.
        about: What people say of it.
        evaluations: Arguments of `eval` by the name of the run.
        logs: Folders of the trainings, in the order of the runs.
    """

    folder: str
    about: dict[str, Any]
    evaluations: dict[str, tuple[str, ...]]
    logs: tuple[Path, ...] = ()


def policies() -> list[Plan]:
    """What needs no model, on all built-in panels."""
    panels = tuple(part for panel in PANELS for part in ("--task", panel))
    return [
        Plan(
            name,
            _about(f"{name.capitalize()} policy", {"recipe": name, "description": text}),
            {name: ("--engine", name, *panels)},
        )
        for name, text in POLICIES.items()
    ]


def inits() -> list[Plan]:
    """The shipped inits, each on its own task's built-in panel."""
    plans = []
    for name, init in read_registry().items():
        if init.folder is None:
            continue
        about = _about(
            name,
            {"recipe": "behaviour cloning", "description": "The shipped init, as it is."},
            base_model=name,
            parameters=_parameters(INITS / name),
            training_data=_data(init.task),
        )
        played = ("--model", name, "--task", f"{init.task}/builtin")
        plans.append(Plan(name, about, {name: played}))
    return plans


def study(runs: Path, seeds: Sequence[int]) -> list[Plan]:
    """The recipes of the study whose seeds are all finished, with the last checkpoint of each."""
    found = load_study(RECIPES, seeds, runs)
    plans = []
    for setting, (suffix, text) in SETTINGS.items():
        for recipe in RECIPES:
            results = [r for r in found.finished(setting) if r.run.recipe == recipe]
            if {result.run.seed for result in results} == set(seeds):
                results.sort(key=lambda result: result.run.seed)
                plans.append(_trained(recipe, setting, suffix, text, results, runs))
    return plans


def _trained(
    recipe: str, setting: str, suffix: str, text: str, results: Sequence[Result], runs: Path
) -> Plan:
    rate = results[0].learning_rate
    folders = [result.run.folder(runs) for result in results]
    label = recipe.replace("_", "-")
    init = "tiny-sokoban"
    about = _about(
        f"{recipe.upper()}{suffix}",
        {
            "recipe": recipe,
            "description": f"The recipe {recipe} from {init}, {results[0].updates} updates {text} "
            f"({rate:g}); the last checkpoint of every seed. Part of this project's study.",
        },
        base_model=init,
        parameters=_parameters(INITS / init),
        init=init,
        training_data=_data("sokoban", "Levels of the training stream of Sokoban, played by the "),
    )
    return Plan(
        f"{label}-{init}" + ("" if setting == "stable" else f"-{setting}"),
        about,
        {
            f"{setting}-{recipe}-s{result.run.seed}": (
                "--model",
                str(folder / "last"),
                "--task",
                "sokoban/builtin",
            )
            for result, folder in zip(results, folders, strict=True)
        },
        tuple(folders),
    )


def _about(name: str, method: dict[str, Any], **more: object) -> dict[str, Any]:
    contact = "the issues of this repository"
    return {
        "name": name,
        "authors": ["arlarena-bench"],
        "contact": contact,
        "method": method,
        **more,
    }


def _data(task: str, before: str = "") -> dict[str, Any]:
    played = f"{before}policy itself. The init: " if before else ""
    return {
        "statement": played + CLONED,
        "training_streams": [task],
        "other": False,
        "panel_episodes": False,
    }


def _parameters(folder: Path) -> int:
    """Number of weights of a folder's model."""
    tensors = (t for path in folder.glob("*.safetensors") for t in load_file(path).values())
    return sum(tensor.numel() for tensor in tensors)


def make(plan: Plan, date: str, runs: Path, submissions: Path) -> bool:
    """Evaluate, prepare and check one entry; whether it is accepted."""
    folder = submissions / f"{date}_{plan.folder}"
    made = sorted(submissions.glob(f"[0-9]*_{plan.folder}"))
    if made:
        print(f"{made[0]} is there", flush=True)
        return True
    for name, arguments in plan.evaluations.items():
        _command("eval", *arguments, "--out", str(runs / name))
    about = runs / f"{plan.folder}.yaml"
    about.write_text(yaml.safe_dump(plan.about, sort_keys=False))
    logs = ("--training-log", *map(str, plan.logs)) if plan.logs else ()
    played = [str(runs / name) for name in plan.evaluations]
    files = ("--about", str(about), "--out", str(folder))
    if _command("submit", "prepare", *played, *files, *logs, may_fail=True):
        return False
    return _command("submit", "check", str(folder), may_fail=True) == 0


def _command(*arguments: str, may_fail: bool = False) -> int:
    command = [sys.executable, "-m", "benchmark.cli", *arguments]
    code = subprocess.run(command, check=False, cwd=ROOT).returncode  # noqa: S603 - our own command
    # 1 is the answer "no"; everything else is no answer.
    if code and not (may_fail and code == 1):
        raise UserError(f"`arlarena-bench {' '.join(arguments)}` failed with exit code {code}")
    return code


def main() -> int:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", help="policies, inits, study (default: all)")
    parser.add_argument("--date", default=f"{datetime.now(UTC):%Y%m%d}", help="yyyymmdd")
    parser.add_argument("--seeds", default="0,1,2", help="of the study")
    parser.add_argument("--study", type=Path, default=Path("runs/study-sokoban"))
    parser.add_argument("--runs", type=Path, default=Path("runs/entries"), help="of evaluations")
    parser.add_argument("--submissions", type=Path, default=Path("submissions"))
    arguments = parser.parse_args()
    parts: dict[str, Callable[[], list[Plan]]] = {
        "policies": policies,
        "inits": inits,
        "study": lambda: study(arguments.study, [int(s) for s in arguments.seeds.split(",")]),
    }
    for name in arguments.what:
        if name not in parts:
            parser.error(f"{name!r} is none of {', '.join(parts)}")
    accepted = True
    try:
        for name in arguments.what or parts:
            for plan in parts[name]():
                accepted &= make(plan, arguments.date, arguments.runs, arguments.submissions)
    except UserError as error:
        print(f"own_entries: {error}", file=sys.stderr)
        return 2
    return 0 if accepted else 1


if __name__ == "__main__":
    sys.exit(main())
