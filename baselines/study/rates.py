"""Tuned learning rates of a study: one per track and recipe, shared by the seeds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from baselines.config.run import TrainingRun
from baselines.inits.registry import find_model
from baselines.tracks.registry import RATES, rates_text, read_tuning, resolve_on_track
from baselines.tracks.tuning import TUNING, best_rate, tuning_runs, tuning_success
from benchmark.files import write_atomically
from benchmark.track_schema import RateGrid, Track
from tasks.errors import UserError

SHARED: Final = "tuning"
"""End of the name of the folder that the tuning runs of a recipe's seeds are shared in."""


def known_rate(results: Path, track: Track, recipe: str) -> float | None:
    """The learning rate of a recipe; None if it must be tuned first.

    Raises:
        UserError: The file of the rates is damaged.
    """
    rule = track.learning_rate
    return (
        read_tuning(track, results).rates.get(recipe) if isinstance(rule, RateGrid) else rule.fixed
    )


def share_tuning(folder: Path, recipe: str) -> None:
    """Let a run's folder find the tuning runs that all seeds of its recipe share.

    Raises:
        UserError: It cannot be written.
    """
    shared = folder.parent / f"{recipe}-{SHARED}"
    link = folder / TUNING
    try:
        shared.mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(Path("..") / shared.name, target_is_directory=True)
    except OSError as error:
        raise UserError(f"{link} cannot be written: {error.strerror}") from error


def tuning_commands(track: Track, folder: Path, recipe: str) -> list[list[str]]:
    """Arguments of `train` that make the tuning runs of a recipe that are not finished.

    What they set is what `tuning_runs` sets; `trials_of` checks that it is.
    """
    rule = track.learning_rate
    assert isinstance(rule, RateGrid)
    commands = []
    for rate, trial in _trials(track, rule, folder, recipe).items():
        if tuning_success(trial, rule) is not None:
            continue
        command = ["train", "--track", track.name, "--recipe", recipe, "--seed", str(rule.seed)]
        for setting in (
            f"optimization.learning_rate={rate!r}",
            f"optimization.updates={rule.updates}",
            "validation.every=null",
        ):
            command += ["--set", setting]
        commands.append([*command, "--out", str(trial.folder)])
    return commands


def keep_rate(results: Path, track: Track, folder: Path, recipe: str) -> None:
    """Write the rate that the tuning runs of a recipe have found beside those of others.

    Raises:
        UserError: A short training is not finished, or the file cannot be written.
    """
    success = trials_of(track, folder, recipe)
    path = results / track.name / RATES
    known = read_tuning(track, results)
    rates = known.rates | {recipe: best_rate(success)}
    found = known.success | {recipe: success}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, rates_text(track, rates, found).encode())
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}") from error


def trials_of(track: Track, folder: Path, recipe: str) -> dict[float, float]:
    """Success of a recipe's tuning runs, by rate.

    Raises:
        UserError: One is not finished or not of this track.
    """
    rule = track.learning_rate
    assert isinstance(rule, RateGrid)
    found = {}
    for rate, trial in _trials(track, rule, folder, recipe).items():
        success = tuning_success(trial, rule)
        if success is None:
            raise UserError(
                f"the short training run in {trial.folder} is incomplete; remove the folder"
            )
        found[rate] = success
    return found


def _trials(track: Track, rule: RateGrid, folder: Path, recipe: str) -> Mapping[float, TrainingRun]:
    """The tuning runs of a recipe, by rate."""
    run = TrainingRun(
        recipe=recipe,
        config=resolve_on_track(track, recipe, rule.grid[0]),
        tasks=track.load_tasks(),
        init=find_model(track.init.name),
        seed=rule.seed,
        folder=folder,
    )
    return tuning_runs(run, rule)
