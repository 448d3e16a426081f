"""Tuned learning rates of a study: one per track and recipe, shared by the seeds.

Rates of shipped recipes are stored with the results. Rates of a study's own recipes are read from
their tuning runs, whose logs name their code.
"""

from pathlib import Path
from typing import Final

from baselines.config.run import TrainingRun
from baselines.inits.registry import find_model
from baselines.study.schema import Cell
from baselines.study.workspace import StudySetting
from baselines.tracks.registry import RATES, rates_text, read_tuning, resolve_on_track
from baselines.tracks.tuning import TUNING, best_rate, tuning_runs, tuning_success
from benchmark.files import write_atomically
from benchmark.track_schema import RateGrid
from tasks.errors import UserError, os_error_as

SHARED: Final = "tuning"
"""Suffix of the folder with the tuning runs shared by a recipe's seeds."""


def known_rate(cell: Cell, setting: StudySetting) -> float | None:
    """The learning rate of a run; None if it must be tuned first.

    Raises:
        UserError: The rates file, or the log of a tuning run, is damaged.
    """
    track = setting.current_tracks[cell.track].track
    rule = track.learning_rate
    if not isinstance(rule, RateGrid):
        return rule.fixed
    if cell.recipe not in setting.custom.methods:
        return read_tuning(track, setting.results).rates.get(cell.recipe)
    success, unfinished = _trials(cell, setting, rule)
    return None if unfinished else best_rate(success)


def share_tuning(cell: Cell, setting: StudySetting) -> None:
    """Make the tuning runs shared by all seeds of a recipe available in a run's folder.

    Raises:
        UserError: It cannot be written.
    """
    folder = setting.folder(cell)
    shared = folder.parent / setting.custom.stem(cell.recipe, f"{cell.recipe}-{SHARED}")
    link = folder / TUNING
    with os_error_as(f"{link} cannot be written"):
        shared.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(Path("..") / shared.name, target_is_directory=True)


def tuning_commands(cell: Cell, setting: StudySetting) -> list[list[str]]:
    """Arguments of `train` for the unfinished tuning runs of a recipe.

    They set the same as `tuning_runs`, which `tuning_success` checks.
    """
    rule = _grid(cell, setting)
    _, unfinished = _trials(cell, setting, rule)
    commands = []
    for rate, trial in unfinished.items():
        command = ["train", "--track", cell.track, *setting.custom.options(cell.recipe)]
        command += ["--seed", str(rule.seed)]
        for changed in (
            f"optimization.learning_rate={rate!r}",
            f"optimization.updates={rule.updates}",
            "validation.every=null",
        ):
            command += ["--set", changed]
        commands.append([*command, "--out", str(trial.folder)])
    return commands


def keep_rate(cell: Cell, setting: StudySetting) -> None:
    """Add the rate found by a shipped recipe's tuning runs to the rates file.

    Raises:
        UserError: A tuning run is not finished, or the file cannot be written.
    """
    success, unfinished = _trials(cell, setting, _grid(cell, setting))
    for trial in unfinished.values():
        raise UserError(f"the tuning run in {trial.folder} is incomplete; remove the folder")
    if cell.recipe in setting.custom.methods:
        return
    track = setting.current_tracks[cell.track].track
    path = setting.results / track.name / RATES
    known = read_tuning(track, setting.results)
    rates = known.rates | {cell.recipe: best_rate(success)}
    found = known.success | {cell.recipe: success}
    with os_error_as(f"{path} cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, rates_text(track, rates, found).encode())


def _grid(cell: Cell, setting: StudySetting) -> RateGrid:
    rule = setting.current_tracks[cell.track].track.learning_rate
    assert isinstance(rule, RateGrid)
    return rule


def _trials(
    cell: Cell, setting: StudySetting, rule: RateGrid
) -> tuple[dict[float, float], dict[float, TrainingRun]]:
    """The tuning runs of a run's recipe, by rate: success of finished ones, and unfinished ones.

    Raises:
        UserError: A log cannot be read.
    """
    track, custom = setting.current_tracks[cell.track].track, setting.custom
    run = TrainingRun(
        recipe=cell.recipe,
        config=resolve_on_track(track, custom.recipe(cell.recipe), rule.grid[0]),
        tasks=track.load_tasks(),
        init=find_model(track.init.name),
        seed=rule.seed,
        folder=setting.folder(cell),
        plugins=custom.code(cell.recipe),
    )
    success, unfinished = {}, {}
    for rate, trial in tuning_runs(run, rule).items():
        if (found := tuning_success(trial, rule)) is None:
            unfinished[rate] = trial
        else:
            success[rate] = found
    return success, unfinished
