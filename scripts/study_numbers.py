"""The numbers of the tiny study: which runs there are, what they reached, and what that says."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmark.collapse import first_below_start
from benchmark.statistics import Interval
from benchmark.training_curves import collapse_update
from benchmark.training_lines import Validation
from benchmark.training_log import LOG, TrainingLog, read_training_log
from scripts.study import (
    AGGRESSIVE,
    GRID,
    STABLE,
    TUNING_LAST,
    TUNING_UPDATES,
    Run,
    tuning,
)
from tasks.errors import UserError

SETTINGS = ("stable", "aggressive")


@dataclass(frozen=True, slots=True)
class Result:
    """A run that has begun.

    Attributes:
        run: What was to be made.
        log: What its log holds.
    """

    run: Run
    log: TrainingLog

    @property
    def updates(self) -> int:
        """Updates that were made."""
        return self.log.updates[-1].update if self.log.updates else 0

    @property
    def finished(self) -> bool:
        """Whether all updates were made and the last one was validated."""
        return self.updates == self.run.updates == self.last.update

    @property
    def learning_rate(self) -> float:
        """That of the configuration."""
        return float(_configured(self.log, "optimisation.learning_rate"))

    @property
    def validations(self) -> tuple[Validation, ...]:
        """All of its panel, the init's first."""
        return self.log.validations

    @property
    def init(self) -> Interval:
        """Success of the init."""
        return _success(self.validations[0])

    @property
    def last(self) -> Validation:
        """The last validation."""
        return self.validations[-1]

    @property
    def final(self) -> Interval:
        """Success at the last validation."""
        return _success(self.last)

    @property
    def gain(self) -> Interval:
        """Success at the last validation minus that of the init."""
        return difference(self.final, self.init)

    @property
    def collapse(self) -> int | None:
        """The update after which `collapse_step` finds a collapse."""
        return collapse_update(self.log)

    @property
    def below_half(self) -> int | None:
        """The update of the first validation below half of the init's success."""
        step = first_below_start([line.success for line in self.validations])
        return None if step is None else self.validations[step].update

    @property
    def lowest(self) -> float:
        """The lowest success of all validations."""
        return min(line.success for line in self.validations)

    @property
    def minutes(self) -> float:
        """Time on the clock, over all sessions."""
        ends = [line.seconds_total for line in self.log.updates[-1:]]
        return max([*ends, self.last.seconds_total]) / 60

    def highest_of(self, name: str, until: int | None = None) -> float | None:
        """The highest value of a number of the log, over all updates or the first ones."""
        return max(self._values(name, until), default=None)

    def lowest_of(self, name: str) -> float | None:
        """The lowest value of a number of the log."""
        return min(self._values(name), default=None)

    def last_of(self, name: str) -> float | None:
        """The value of a number of the log at the last update that has one."""
        values = list(self._values(name))
        return values[-1] if values else None

    def _values(self, name: str, until: int | None = None) -> Iterator[float]:
        for line in self.log.updates:
            value = line.values.get(name)
            if value is not None and (until is None or line.update <= until):
                yield value


@dataclass(frozen=True, slots=True)
class Trial:
    """One learning rate that was tried for a recipe.

    Attributes:
        recipe: The recipe.
        seed: The seed.
        rate: The learning rate.
        updates: Updates that were made.
        success: Mean success of the last rollouts; None if there are none.
        minutes: Time on the clock.
    """

    recipe: str
    seed: int
    rate: float
    updates: int
    success: float | None
    minutes: float

    @property
    def finished(self) -> bool:
        """Whether all updates were made."""
        return self.updates == TUNING_UPDATES


@dataclass(frozen=True, slots=True)
class Study:
    """What there is of a study.

    Attributes:
        recipes: Recipes that were asked for, in order.
        seeds: Seeds that were asked for, in order.
        trials: All rates of the grid, for each recipe.
        rates: The chosen rate of each recipe; None while trials are missing.
        results: Runs that have begun and have a validation, by setting, recipe and seed.
    """

    recipes: tuple[str, ...]
    seeds: tuple[int, ...]
    trials: Mapping[str, tuple[Trial, ...]]
    rates: Mapping[str, float | None]
    results: Mapping[tuple[str, str, int], Result]

    def begun(self, setting: str, recipe: str | None = None) -> list[Result]:
        """Runs of a setting (and recipe), in the order of recipes and seeds."""
        found = (
            self.results.get((setting, name, seed))
            for name in self.recipes
            if recipe in (None, name)
            for seed in self.seeds
        )
        return [result for result in found if result is not None]

    def finished(self, setting: str, recipe: str | None = None) -> list[Result]:
        """Those that are finished."""
        return [result for result in self.begun(setting, recipe) if result.finished]

    def complete(self, setting: str, recipe: str) -> bool:
        """Whether all seeds of a recipe are finished."""
        return len(self.finished(setting, recipe)) == len(self.seeds)


def load_study(recipes: Sequence[str], seeds: Sequence[int], runs_folder: Path) -> Study:
    """Read what there is.

    Args:
        recipes: Names, distinct.
        seeds: Distinct.
        runs_folder: Where `study.py` made the runs.

    Raises:
        UserError: A log is not valid, or not of the run whose place it stands at.
    """
    trials = {recipe: _trials(recipe, runs_folder) for recipe in recipes}
    rates = {recipe: _chosen(trials[recipe]) for recipe in recipes}
    results = {}
    for recipe in recipes:
        for seed in seeds:
            runs = [Run("aggressive", recipe, seed, AGGRESSIVE)]
            if (rate := rates[recipe]) is not None:
                chosen = f"optimisation.learning_rate={rate:g}"
                runs.append(Run("stable", recipe, seed, (*STABLE, chosen)))
            for run in runs:
                log = _log_of(run, runs_folder)
                if log is not None and log.validations:
                    results[run.setting, recipe, seed] = Result(run, log)
    _check_one_protocol(list(results.values()))
    return Study(tuple(recipes), tuple(seeds), trials, rates, results)


def difference(first: Interval, second: Interval) -> Interval:
    """Score interval of the difference (first minus second) of two independent success rates.

    Newcombe's method 10 for unpaired rates. With the Wilson intervals [l1, u1] and [l2, u2]:
    low = d - sqrt((p1-l1)^2 + (u2-p2)^2), high = d + sqrt((u1-p1)^2 + (p2-l2)^2).

    Two policies on one panel are paired, and logs do not say which episodes they solved: this
    interval is then, if anything, too wide.

    Source: Newcombe, Stat. Med. 17 (1998) 873-890, method 10.
    """
    value = first.value - second.value
    below = math.hypot(first.value - first.low, second.high - second.value)
    above = math.hypot(first.high - first.value, second.value - second.low)
    return Interval(value, value - below, value + above)


def mean_of(intervals: Sequence[Interval]) -> Interval:
    """The mean of some estimates on one panel, and the means of their ends.

    That is the interval of a mean whose parts all err together: more seeds do not make a panel
    larger. How seeds differ is not in it.

    Raises:
        ValueError: There are none.
    """
    if not intervals:
        raise ValueError("the mean of no intervals is not defined")

    def mean(end: Callable[[Interval], float]) -> float:
        return math.fsum(map(end, intervals)) / len(intervals)

    return Interval(mean(lambda i: i.value), mean(lambda i: i.low), mean(lambda i: i.high))


def _trials(recipe: str, runs_folder: Path) -> tuple[Trial, ...]:
    trials = []
    for run, rate in zip(tuning([recipe]), GRID, strict=True):
        log = _log_of(run, runs_folder)
        if log is None or not log.updates:
            trials.append(Trial(recipe, run.seed, rate, 0, None, 0.0))
            continue
        curve = [
            value for value in log.series("rollout/success")[-TUNING_LAST:] if value is not None
        ]
        last = log.updates[-1]
        success = statistics.fmean(curve) if curve else None
        trials.append(Trial(recipe, run.seed, rate, last.update, success, last.seconds_total / 60))
    return tuple(trials)


def _chosen(trials: Sequence[Trial]) -> float | None:
    """The rate that `tuned_rate` takes; None while rollouts of a rate are missing."""
    known = [(trial.success, trial.rate) for trial in trials if trial.success is not None]
    if len(known) < len(trials):
        return None
    return max(known, key=lambda one: one[0])[1]  # the first of equals


def _log_of(run: Run, runs_folder: Path) -> TrainingLog | None:
    """A run's log, if there is one.

    Raises:
        UserError: It is not valid, or of another run.
    """
    path = run.folder(runs_folder) / LOG
    if not path.exists() or not path.stat().st_size:
        return None
    log = read_training_log(path, allow_torn=True)
    wrong = [
        f"{name} is {found}, not {wanted}"
        for name, found, wanted in _facts(run, log)
        if found != wanted
    ]
    if wrong:
        raise UserError(
            f"{path} is not of this study ({'; '.join(wrong)}); remove its folder and make it again"
        )
    return log


def _facts(run: Run, log: TrainingLog) -> Iterator[tuple[str, Any, Any]]:
    """What a log says and what it should say: names, found, wanted."""
    yield "recipe", log.start.recipe, run.recipe
    yield "seed", log.start.seed, run.seed
    for setting in run.settings:
        key, _, text = setting.partition("=")
        yield key, _configured(log, key), None if text == "null" else float(text)
    if log.validations:
        yield "the update of the first validation", log.validations[0].update, 0


def _configured(log: TrainingLog, key: str) -> Any:
    value: Any = log.start.configuration
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _check_one_protocol(results: Sequence[Result]) -> None:
    """Success rates are compared: they must be of one panel, init and protocol."""
    for result in results:
        first = results[0].log
        if result.log.panels != first.panels or len(first.panels) != 1:
            raise UserError(f"{result.log.path} and {first.path} are not of one panel")
        same = (
            result.last.fingerprint == first.validations[0].fingerprint
            and result.log.start.init.sha256 == first.start.init.sha256
        )
        if not same:
            raise UserError(
                f"{result.log.path} and {first.path} differ in their init or protocol; remove the "
                "older one's folder and make it again"
            )


def _success(line: Validation) -> Interval:
    return Interval(line.success, line.wilson_low, line.wilson_high)
