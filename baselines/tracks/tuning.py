"""Selects a recipe's learning rate on a track with a grid, by short tuning runs.

Every rate of the grid is trained for a few updates on the rule's own seed, without a validation.
Judged are the rollouts, never a panel: what is tuned is not what is reported.
"""

import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from baselines.config.run import TrainingRun
from baselines.config.schema import TrainConfig
from benchmark.logs.training_log import LOG, TrainingLog, read_training_log
from benchmark.stability.run_end import divergence
from benchmark.track_schema import RateGrid

TUNING: Final = "tuning"
"""Folder of the tuning runs, in that of the run that they are for; runs may share another."""


def with_rate(config: TrainConfig, rate: float) -> TrainConfig:
    """A configuration with another learning rate."""
    optimization = config.optimization.model_copy(update={"learning_rate": rate})
    return config.model_copy(update={"optimization": optimization})


def tuning_runs(
    run: TrainingRun, rule: RateGrid, folder: Path | None = None
) -> Mapping[float, TrainingRun]:
    """The tuning runs that decide on a run's learning rate, by rate, ascending.

    Args:
        run: The run as its track pins it, at any rate.
        rule: How the track chooses.
        folder: Where they lie, one folder a rate. They do not depend on the run's seed, so that
            seeds can share it; None for `TUNING` in the run's own.
    """
    place = folder or run.folder / TUNING
    found = {}
    for rate in rule.grid:
        config = with_rate(run.config, rate)
        length = config.optimization.model_copy(update={"updates": rule.updates})
        unseen = config.validation.model_copy(update={"every": None})
        found[rate] = replace(
            run,
            config=config.model_copy(update={"optimization": length, "validation": unseen}),
            seed=rule.seed,
            folder=place / f"{rate:g}",
            trackers=(),
            stop_on_collapse=False,
            track=None,
        )
    return found


def tuning_success(run: TrainingRun, rule: RateGrid) -> float | None:
    """Mean success of the last rollouts of a tuning run; None if it is not finished.

    A rollout of which no success was measured counts as 0, and so does a training that ended
    because its steps were not finite.

    Raises:
        UserError: Its log cannot be read.
    """
    if not (run.folder / LOG).exists():
        return None
    log = read_training_log(run.folder / LOG, allow_torn=True)
    if not is_of(log, run) or not log.updates:
        return None
    if log.updates[-1].update < rule.updates:
        return None if divergence(log) is None else 0.0
    curve = log.series("rollout/success")[: rule.updates]
    return statistics.fmean(value or 0.0 for value in curve[-rule.last :])


def updates_left(run: TrainingRun, rule: RateGrid) -> int:
    """Updates of a tuning run that are still to be made, by its log.

    Raises:
        UserError: Its log cannot be read.
    """
    if not (run.folder / LOG).exists():
        return rule.updates
    if tuning_success(run, rule) is not None:
        return 0
    log = read_training_log(run.folder / LOG, allow_torn=True)
    return rule.updates - (log.updates[-1].update if is_of(log, run) and log.updates else 0)


def best_rate(successes: Mapping[float, float]) -> float:
    """The rate with the highest success; of equals the lowest."""
    return min(successes, key=lambda rate: (-successes[rate], rate))


def is_of(log: TrainingLog, run: TrainingRun) -> bool:
    """Whether a log is that of a tuning run: same configuration, init, seed and plug-ins."""
    start = log.start
    mine = run.configuration, run.init.identity.sha256, run.seed, run.plugins
    return (start.configuration, start.init.sha256, start.seed, start.plugins) == mine
