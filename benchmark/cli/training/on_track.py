"""`arlarena-bench train --track`: settings pinned by the track, and the tuned learning rate."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmark.cli.from_baselines import find_model
from benchmark.flat import flat
from benchmark.logs.training_log import LOG, read_training_log
from benchmark.models import ModelSource
from benchmark.stats.formatting import percent_text
from benchmark.track_schema import FREE, LEARNING_RATE, RateGrid, Track
from tasks.errors import UserError
from tasks.texts import digest_text

if TYPE_CHECKING:
    from baselines.config.run import TrainingRun
    from baselines.config.schema import TrainConfig


def find_track(arguments: argparse.Namespace) -> Track | None:
    """The track that a command names; None for an open run.

    Raises:
        UserError: It is unknown, or the command also sets something that it pins.
    """
    from baselines.tracks.registry import load_track

    if arguments.track is None:
        if arguments.results is not None:
            raise UserError("--results needs a --track: it holds a track's tuned learning rates")
        if arguments.tuning is not None:
            raise UserError("--tuning needs a --track: it holds a track's tuning runs")
        return None
    track = load_track(arguments.track)
    given = [name for name in ("init", "task", "scale") if getattr(arguments, name) is not None]
    if given:
        options = ", ".join(f"--{name}" for name in given)
        raise UserError(
            f"{options} beside --track: {track.name} pins the init ({track.init.name}), the "
            f"tasks and the sizes; remove {options} or --track"
        )
    return track


def track_init(track: Track) -> ModelSource:
    """The init of a track.

    Raises:
        UserError: It cannot be loaded, or its weights are not those that the track pins.
    """
    init = find_model(track.init.name)
    found, pinned = init.identity.sha256, track.init.sha256
    if pinned is not None and found != pinned:
        raise UserError(
            f"track {track.name} starts from {track.init.name} with SHA-256 "
            f"{digest_text(pinned)}, but the one found here has {digest_text(found)}; use "
            "the version of this project that has both, or train without --track"
        )
    return init


def leaves_track(own: Sequence[str], of_tasks: Sequence[str]) -> list[str]:
    """The user's settings that turn a run on a track into an open one.

    Args:
        own: Settings of the training, `key=value` each.
        of_tasks: Settings of its tasks.
    """
    from baselines.config.layers import own_settings

    names = flat(own_settings(own))
    return [*(name for name in names if name not in FREE), *of_tasks]


def track_config(
    track: Track, recipe: str, own: Sequence[str], results: Path | None
) -> "tuple[TrainConfig, str | None]":
    """The configuration of a recipe on a track, with the user's settings.

    Args:
        track: The track.
        recipe: Name of the recipe, or its file.
        own: Settings, `key=value` each.
        results: Folder of results with the tuned rates, including those of custom recipes, by name;
            None for the shipped one, which has only those of shipped recipes.

    Returns:
        The configuration, and the origin of its learning rate on one line. The origin is None if
        the rate is not known yet: the configuration then has the lowest of the grid, and `Tuning`
        finds the right one.

    Raises:
        UserError: The recipe, its rate or a setting cannot be used.
    """
    from baselines.config.layers import apply_layer, check, own_settings
    from baselines.tracks.registry import read_rates, settings_on_track

    users, rule = own_settings(own), track.learning_rate
    # A custom recipe cannot have the name of a shipped one (`read_recipe`).
    name = recipe if results is None else Path(recipe).stem
    if LEARNING_RATE in flat(users):
        rate, origin = rule.rates[0], "your own"
    elif not isinstance(rule, RateGrid):
        rate, origin = rule.fixed, f"fixed by track {track.name}"
    elif (tuned := read_rates(track, results).get(name)) is not None:
        rate, origin = tuned, f"tuned by the study of track {track.name}"
    else:
        rate, origin = rule.rates[0], None
    settings = apply_layer(settings_on_track(track, recipe, rate), users)
    return check(settings, f"recipe {recipe} on track {track.name}", users), origin


@dataclass(frozen=True, slots=True)
class Tuning:
    """The search for a run's learning rate by the rule of its track.

    Attributes:
        track: The track, which has a grid of rates.
        trials: The tuning runs, by rate; some may be finished.
    """

    track: Track
    trials: "Mapping[float, TrainingRun]"

    @property
    def rule(self) -> RateGrid:
        """The track's rule."""
        assert isinstance(self.track.learning_rate, RateGrid)
        return self.track.learning_rate

    @property
    def left(self) -> "Sequence[TrainingRun]":
        """The unfinished tuning runs."""
        from baselines.tracks.tuning import tuning_success

        return [run for run in self.trials.values() if tuning_success(run, self.rule) is None]

    def updates_left(self, training: "TrainingRun") -> float:
        """Remaining work of the tuning runs, in updates with as many episodes as the run's."""
        from baselines.tracks.tuning import updates_left

        wanted = sum(updates_left(run, self.rule) * _episodes(run) for run in self.left)
        return wanted / _episodes(training)

    def text(self, processes: int) -> str:
        """Announce the tuning on one line.

        Args:
            processes: Number of the run's processes.

        Raises:
            UserError: The tuning would use several processes.
        """
        left, rule = self.left, self.rule
        folder = next(iter(self.trials.values())).folder.parent
        if not left:
            return f"learning rate: the tuning in {folder} is finished"
        if processes > 1:
            raise UserError(
                f"the learning rate on track {self.track.name} is tuned by a single process "
                "first: run the command without accelerate launch or --gpus, or set "
                "optimization.learning_rate with --set"
            )
        rates = ", ".join(f"{rate:g}" for rate in rule.grid)
        done = len(self.trials) - len(left)
        return (
            f"learning rate: tuning over {rates} first, with {rule.updates} updates each "
            f"on seed {rule.seed}, judged by the rollouts"
            + (f"; {done} of {len(self.trials)} are finished in {folder}" if done else "")
        )

    def settle(
        self, training: "TrainingRun", train: "Callable[[TrainingRun], object]"
    ) -> "tuple[TrainingRun, str]":
        """Find the learning rate; finished tuning runs are not repeated.

        Args:
            training: The run, at any rate.
            train: Carries out one tuning run.

        Returns:
            The run at the best rate, and the result on one line.

        Raises:
            UserError: A tuning run fails, or was stopped early.
        """
        from baselines.tracks.tuning import best_rate, tuning_success, with_rate

        successes: dict[float, float] = {}
        for rate, run in self.trials.items():
            if tuning_success(run, self.rule) is None:
                train(run)
            success = tuning_success(run, self.rule)
            if success is None:
                raise UserError(f"the tuning run in {run.folder} did not finish: remove the folder")
            successes[rate] = success
        rate = best_rate(successes)
        return replace(training, config=with_rate(training.config, rate)), _found(rate, successes)


def find_tuning(
    training: "TrainingRun", track: Track, recipe: str, folder: Path | None
) -> "Tuning":
    """Set up the search for a run's learning rate, including finished tuning runs.

    Args:
        training: The run, at any rate.
        track: Its track, which has a grid of rates.
        recipe: Its recipe, as in the command.
        folder: Folder of the tuning runs; None for one in the run's own.

    Raises:
        UserError: The folder has tuning runs that belong to another run.
    """
    from baselines.tracks.registry import resolve_on_track
    from baselines.tracks.tuning import is_of, tuning_runs
    from baselines.training.checkpoints import what_differs

    rule = track.learning_rate
    assert isinstance(rule, RateGrid)
    # With the track's configuration, whatever is set for this run.
    pinned = replace(training, config=resolve_on_track(track, recipe, rule.grid[0]))
    trials = tuning_runs(pinned, rule, folder)
    for run in trials.values():
        path = run.folder / LOG
        if path.exists() and not is_of(read_training_log(path, allow_torn=True), run):
            raise UserError(
                f"{run.folder} has a tuning run of another run; choose another "
                + ("--out" if folder is None else "--tuning")
                + what_differs(path, run.facts)
            )
    return Tuning(track, trials)


def _episodes(run: "TrainingRun") -> int:
    """Number of episodes per update, without dynamic sampling."""
    return run.config.rollout.groups * run.config.rollout.group_size


def _found(rate: float, successes: Mapping[float, float]) -> str:
    others = ", ".join(
        f"{each:g}: {percent_text(successes[each])}" for each in successes if each != rate
    )
    own = percent_text(successes[rate])
    return f"learning rate: {rate:g}, whose last rollouts solve {own} ({others})"
