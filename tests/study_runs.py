"""Runs of the tiny study with invented numbers, at the places where the study looks for them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.study import AGGRESSIVE, Run, final, tuning
from scripts.study_numbers import Study, load_study
from tests.training_logs import Line, start_line, update_line, validation_line, write_log

STEADY = (128,) * 6  # of 256
FALLEN = (128, 128, 0, 0, 0, 0)
"""Means .5 .5 .33 .17: collapsed at the fourth validation, after update 9."""


def configuration(run: Run) -> dict[str, Any]:
    """A configuration that has a run's settings."""
    settings: dict[str, Any] = {}
    for setting in run.settings:
        key, _, text = setting.partition("=")
        part, name = key.split(".")
        settings.setdefault(part, {})[name] = None if text == "null" else float(text)
    return settings


def write_run(
    root: Path,
    run: Run,
    solved: Sequence[int] = (),
    made: int | None = None,
    values: Mapping[str, float] | None = None,
) -> Path:
    """A run whose validations, spaced evenly, solve so many of 256 episodes.

    `made` updates of it are there, all by default, every one with the same values.
    """
    lines: list[Line] = [start_line(run.recipe, run.seed, configuration=configuration(run))]
    if solved:
        lines.append(validation_line(0, solved[0]))
    every = run.updates // max(len(solved) - 1, 1)
    for update in range(1, (run.updates if made is None else made) + 1):
        lines.append(update_line(update, values))
        if solved and update % every == 0:
            lines.append(validation_line(update, solved[update // every]))
    return write_log(run.folder(root), lines)


def tune(root: Path, *recipes: str, success: Sequence[float] = (0.4, 0.6, 0.5)) -> None:
    """Finish the tuning of recipes; the rate .0003 is best by default."""
    for recipe in recipes:
        for run, value in zip(tuning([recipe]), success, strict=True):
            write_run(root, run, values={"rollout/success": value})


def stable(root: Path, recipe: str, *ends: int) -> None:
    """Finish stable runs from 128 to so many solved, seeds 0, 1, ..."""
    tune(root, recipe)
    for run in final([recipe], range(len(ends)), root):
        if run.setting == "stable":
            write_run(root, run, (128, 128, 128, ends[run.seed]))


def aggressive(root: Path, recipe: str, *curves: Sequence[int]) -> None:
    for seed, solved in enumerate(curves):
        write_run(root, Run("aggressive", recipe, seed, AGGRESSIVE), solved)


def study_of(root: Path, *recipes: str, seeds: int = 3) -> Study:
    return load_study(recipes, range(seeds), root)
