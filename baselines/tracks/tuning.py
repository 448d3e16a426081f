"""Selects a recipe's learning rate on a track from a grid, with short tuning runs.

Every rate of the grid is trained for a few updates with the rule's own seed, without a validation.
The criterion is rollout success, never a panel: the tuned quantity is not the reported one.
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
"""Folder of the tuning runs inside their run's folder, unless runs share another one."""


def with_rate(config: TrainConfig, rate: float) -> TrainConfig:
    """A configuration with a different learning rate."""
    optimization = config.optimization.model_copy(update={"learning_rate": rate})
    return config.model_copy(update={"optimization": optimization})


def tuning_runs(
    run: TrainingRun, rule: RateGrid, folder: Path | None = None
) -> Mapping[float, TrainingRun]:
    """The tuning runs that select a run's learning rate, by rate, ascending.

    Args:
        run: The run as its track pins it, at any rate.
        rule: The track's rule.
        folder: Their folder, with one subfolder per rate. They do not depend on the run's seed, so
            seeds can share it; None for `TUNING` in the run's own folder.
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

    A rollout without measured success counts as 0, and so does a training run that ended because
    its steps were not finite.

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
    """Remaining updates of a tuning run, according to its log.

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
    """The rate with the highest success; for ties, the lowest."""
    return min(successes, key=lambda rate: (-successes[rate], rate))


def is_of(log: TrainingLog, run: TrainingRun) -> bool:
    """Whether a log belongs to a tuning run: same configuration, init, seed and plug-ins."""
    start = log.start
    mine = run.configuration, run.init.identity.sha256, run.seed, run.plugins
    return (start.configuration, start.init.sha256, start.seed, start.plugins) == mine
