"""Results of the finished cells of a track: a method's success, gain and collapses.

A track's score is the unweighted mean of success over its panels, one per task. Differences between
methods, and between a method and the init, are those of `benchmark.stats.paired`: paired by episode
on each panel, including the variance between seeds.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from baselines.study.cells import Finished, Plays, read_plays
from baselines.study.estimate import episodes_of
from baselines.study.schema import INIT, Cell
from benchmark.logs.curves import RunCurves, run_curves_of
from benchmark.logs.equal_progress import SUCCESS, By, equal_success, progress_of
from benchmark.logs.training_log import TrainingLog
from benchmark.stability.collapse import MIN_EVALUATIONS, collapse_update, halved_on, judged_success
from benchmark.stability.run_end import early_stop
from benchmark.stats.arrays import Values
from benchmark.stats.crossed import crossed_difference
from benchmark.stats.intervals import Interval
from benchmark.stats.paired import Side, score_difference

BUSY, BUSY_ASYNC = 0.9, 1.1
"""Minimum ratio of CPU time to wall time for training that did not wait for cores, and the same for
training that plays while it learns."""
MEAN = "mean"
"""Stands for the mean over tasks in a list of tasks."""
PanelKey = tuple[str, str]
Sides = tuple[Side, ...]
"""Success on each of some panels, for comparisons of their mean."""


@dataclass(frozen=True, slots=True)
class RecipeRuns:
    """A recipe on a track.

    Attributes:
        recipe: Its name.
        planned: Seeds that the study plans.
        runs: Their finished cells, in the order of the seeds.
        plays: Episodes that each run's last weights solved.
        curves: Curves of the training logs.
    """

    recipe: str
    planned: tuple[int, ...]
    runs: tuple[Finished, ...]
    plays: tuple[Plays, ...]
    curves: tuple[RunCurves, ...]

    @property
    def logs(self) -> tuple[TrainingLog, ...]:
        """Training logs of the runs."""
        return tuple(run.log for run in self.runs if run.log is not None)

    def without(self, seed: int) -> "RecipeRuns":
        """A copy without one seed."""
        kept = [run.cell.seed != seed for run in self.runs]
        of_logs = [run.cell.seed != seed for run in self.runs if run.log is not None]
        return replace(
            self,
            planned=tuple(each for each in self.planned if each != seed),
            runs=tuple(compress(self.runs, kept)),
            plays=tuple(compress(self.plays, kept)),
            curves=tuple(compress(self.curves, of_logs)),
        )

    @property
    def missing(self) -> tuple[int, ...]:
        """Planned seeds that are not finished."""
        there = {run.cell.seed for run in self.runs}
        return tuple(seed for seed in self.planned if seed not in there)

    @property
    def collapsed(self) -> tuple[int, ...]:
        """Updates after which runs collapsed, for those that did.

        A run that ended early counts as collapsed, since its further course is unknown.
        """
        updates = map(collapse_of, self.logs)
        return tuple(update for update in updates if update is not None)

    @property
    def unknown(self) -> int:
        """Number of runs without collapse that are too short to show one (`shows_collapse`)."""
        return sum(not shows_collapse(log) for log in self.logs)

    @property
    def halved(self) -> Mapping[int, tuple[str, ...]]:
        """Seeds that end at half of their best validation of at least 10%, but have not collapsed.

        With several tasks, each has the tasks on which it does; `MEAN` is their mean.
        Collapse is judged by a mean over several validations, which misses a late loss.
        """
        found = {run.cell.seed: halved_of(run.log) for run in self.runs if run.log is not None}
        return {seed: where for seed, where in found.items() if where}

    @property
    def learning_rate(self) -> float | None:
        """Learning rate of its runs; a track gives a recipe only one."""
        return self.runs[0].facts.learning_rate if self.runs else None

    @property
    def cpu_minutes(self) -> float | None:
        """Mean CPU time of a run, without tuning."""
        seconds = [run.facts.own_seconds for run in self.runs]
        return statistics.fmean(seconds) / 60 if seconds else None

    @property
    def busy(self) -> float:
        """Lowest ratio of CPU time to wall time over its training runs."""
        return min(
            run.facts.cpu_seconds["train"] / run.log.updates[-1].seconds_total
            for run in self.runs
            if run.log is not None
        )

    @property
    def busy_alone(self) -> float:
        """Minimum of `busy` on an otherwise idle machine."""
        first = self.logs[0].start.configuration
        return BUSY if first.get("rollout", {}).get("max_staleness") is None else BUSY_ASYNC

    @property
    def episodes(self) -> float | None:
        """Mean training episodes of a run."""
        return statistics.fmean(map(episodes_of, self.logs)) if self.logs else None

    def matrices(self, panels: Sequence[PanelKey]) -> list[Values]:
        """(seeds, episodes) for each panel: 1 for each episode that a run solved, else 0."""
        played = [[plays[panel] for plays in self.plays] for panel in panels]
        return [
            np.array([[each[episode] for episode in sorted(each)] for each in runs], np.float64)
            for runs in played
        ]

    def sides(self, panels: Sequence[PanelKey]) -> Sides | None:
        """Success of its runs on each panel; None without runs."""
        if not self.plays:
            return None
        track = self.runs[0].cell.track
        return tuple(_side([plays[panel] for plays in self.plays], track) for panel in panels)


@dataclass(frozen=True, slots=True)
class EqualProgress:
    """Methods after the same number of training episodes or training seconds.

    Attributes:
        limit: That number.
        sides: Success of each method's runs there on each panel, by recipe, interpolated between
            validations.
    """

    limit: int
    sides: Mapping[str, Sides]


@dataclass(frozen=True, slots=True)
class TrackResults:
    """Everything that is finished on a track.

    Attributes:
        track: Its name.
        panels: Its validation panels, (task, panel).
        methods: Methods by recipe, in the order of the study.
        init: Episodes that the init solves; None if it was not played yet.
        crossed: Compare methods with the noise of single plays counted once
            (`benchmark.stats.crossed`), if both have several seeds.
    """

    track: str
    panels: tuple[PanelKey, ...]
    methods: Mapping[str, RecipeRuns]
    init: Plays | None
    crossed: bool = False

    def without(self, recipe: str, seed: int) -> "TrackResults":
        """A copy without a run, and without its method if no other run of it is planned."""
        if recipe not in self.methods:
            return self
        rest = {**self.methods, recipe: self.methods[recipe].without(seed)}
        return replace(self, methods={name: each for name, each in rest.items() if each.planned})

    @property
    def shows_collapses(self) -> bool:
        """Whether its runs are long enough to show that they have not collapsed.

        The longest run counts, since a run may end early.
        """
        logs = (log for method in self.methods.values() for log in method.logs)
        return any(
            len(judged_success(log)) >= MIN_EVALUATIONS or early_stop(log) is not None
            for log in logs
        )

    def at_equal_episodes(self, panels: Sequence[PanelKey], *recipes: str) -> EqualProgress | None:
        """Methods after as many training episodes as the shortest of their runs has played.

        Args:
            panels: The track's panels to compare on.
            recipes: The methods; empty for all.

        Returns:
            The comparison; None without runs, or if a log does not show how many episodes were
            played.
        """
        methods = {name: self.methods[name] for name in recipes or self.methods}
        return _at_equal("episodes", methods, panels, several=len(self.panels) > 1)

    def init_sides(self, panels: Sequence[PanelKey]) -> Sides | None:
        """Success of the init on each panel; None if it was not played."""
        if self.init is None:
            return None
        return tuple(_side([self.init[panel]]) for panel in panels)

    def gain(self, recipe: str, panels: Sequence[PanelKey]) -> Interval | None:
        """Mean success of a method minus that of the init; None if either is missing."""
        return _difference(self.methods[recipe].sides(panels), self.init_sides(panels))

    def between(self, first: str, second: str, panels: Sequence[PanelKey]) -> Interval | None:
        """Mean success of a method minus another one's; None if either is missing."""
        return _between(self.methods[first], self.methods[second], panels, crossed=self.crossed)

    def between_at_equal_episodes(
        self, first: str, second: str, panels: Sequence[PanelKey]
    ) -> tuple[int, Interval] | None:
        """The episodes, and the difference after them; None if these are the whole runs."""
        one, other = self.methods[first], self.methods[second]
        equal = self.at_equal_episodes(panels, first, second)
        if equal is None or one.episodes == other.episodes or len(equal.sides) < 2:
            return None
        return equal.limit, score_difference(equal.sides[first], equal.sides[second])


def sides_on(
    recipe: str, tracks: Sequence[TrackResults], panels: Sequence[PanelKey]
) -> Sides | None:
    """Success of a method on each panel, on the first of some tracks that has the panel.

    Returns:
        The success; None if no track has one of the panels, or there is no run on that track.
    """
    sides: list[Side] = []
    for panel in panels:
        there = [each for each in tracks if panel in each.panels and recipe in each.methods]
        found = there[0].methods[recipe].sides([panel]) if there else None
        if found is None:
            return None
        sides.extend(found)
    return tuple(sides)


def across_tracks(
    recipe: str,
    results: TrackResults,
    others: Sequence[TrackResults],
    panels: Sequence[PanelKey],
) -> Interval | None:
    """Mean success of a method trained on one track minus that of the same method on others.

    Args:
        recipe: The method.
        results: The track.
        others: Tracks that together have these panels: one with all of them, or one for each.
        panels: The track's panels to compare on.

    Returns:
        The difference; None if the others lack a panel, or there is no run on one of them.
    """
    own, theirs = (sides_on(recipe, tracks, panels) for tracks in ([results], others))
    if own is not None and theirs is not None and len(others) == 1:
        here, there = (each.methods[recipe] for each in (results, others[0]))
        return _between(here, there, panels, crossed=results.crossed)
    return _difference(own, theirs)


def across_tracks_at_equal_seconds(
    recipe: str, results: TrackResults, other: TrackResults
) -> tuple[int, Interval] | None:
    """The seconds of training of the shortest run, and the difference after them.

    Args:
        recipe: The method.
        results: A track.
        other: Another track with the same panels.

    Returns:
        Both; None if there is no run on one of them.
    """
    methods = {each.track: each.methods[recipe] for each in (results, other)}
    equal = _at_equal("seconds", methods, results.panels, several=len(results.panels) > 1)
    if equal is None or len(equal.sides) < 2:
        return None
    own, theirs = equal.sides[results.track], equal.sides[other.track]
    return equal.limit, score_difference(own, theirs)


def _at_equal(
    by: By, methods: Mapping[str, RecipeRuns], panels: Sequence[PanelKey], *, several: bool
) -> EqualProgress | None:
    """Success of runs at the cost of the shortest one.

    Args:
        by: The quantity that is equal.
        methods: The runs of each side.
        panels: The panels to compare on.
        several: Whether the runs were validated on several panels, whose names include the task.
    """
    runs = [log for method in methods.values() for log in method.logs]
    if not runs:
        return None
    names = [".".join(panel) if several else panel[1] for panel in panels]
    curves = [f"{SUCCESS}@{name}" if several else SUCCESS for name in names]
    read = [curves for method in methods.values() for curves in method.curves]
    found = [equal_success([progress_of(run, curve) for run in read], by) for curve in curves]
    known = [each for each in found if each is not None]
    if len(known) < len(found):
        return None
    rates = [iter(each.success) for each in known]
    plays = [runs[0].of_panel(name)[0].episodes for name in names]
    sides = {}
    for side, method in methods.items():
        shares = [[next(at) for _ in method.logs] for at in rates]
        if method.logs:
            sides[side] = tuple(map(Side.of_rates, shares, plays))
    # The shortest run is the same on all panels.
    return EqualProgress(known[0].limit, sides)


def results_of(
    track: str, panels: Sequence[PanelKey], cells: Sequence[Cell], finished: Sequence[Finished]
) -> TrackResults:
    """Group the finished cells of a track by method.

    Args:
        track: Name of the track.
        panels: Its validation panels.
        cells: The study's cells on it.
        finished: Finished cells of any track.

    Raises:
        UserError: A file is damaged.
    """
    there = {each.cell: each for each in finished if each.cell.track == track}
    methods = {}
    for recipe in dict.fromkeys(cell.recipe for cell in cells if cell.track == track):
        if recipe == INIT:
            continue
        wanted = sorted(cell for cell in cells if (cell.track, cell.recipe) == (track, recipe))
        runs = tuple(there[cell] for cell in wanted if cell in there)
        planned = tuple(cell.seed for cell in wanted)
        curves = tuple(run_curves_of(run.log) for run in runs if run.log is not None)
        methods[recipe] = RecipeRuns(recipe, planned, runs, tuple(map(read_plays, runs)), curves)
    init = next((read_plays(e) for e in there.values() if e.cell.recipe == INIT), None)
    return TrackResults(track, tuple(panels), methods, init)


def collapse_of(log: TrainingLog) -> int | None:
    """The update after which a run collapsed, according to its curve or to its early end."""
    update = collapse_update(log)
    return log.updates[-1].update if update is None and early_stop(log) is not None else update


def shows_collapse(log: TrainingLog) -> bool:
    """Whether a log is long enough to show whether its run collapsed.

    With fewer validations than `MIN_EVALUATIONS`, a collapse may not show.
    """
    return collapse_of(log) is not None or len(judged_success(log)) >= MIN_EVALUATIONS


def halved_of(log: TrainingLog) -> tuple[str, ...]:
    """Tasks, or their mean, on which a run has `halved`; empty for a run that collapsed."""
    if collapse_of(log) is not None:
        return ()
    return tuple(panel.partition(".")[0] or MEAN for panel in halved_on(run_curves_of(log)))


def _side(played: Sequence[Mapping[str, bool]], track: str = "") -> Side:
    """Success of runs on a panel, given whether each run solved each episode."""
    seeds = [statistics.fmean(map(float, each.values())) for each in played]
    plays = [[each[episode] for each in played] for episode in sorted(played[0])]
    return Side.of(plays, seeds, track)


def _between(
    first: RecipeRuns, second: RecipeRuns, panels: Sequence[PanelKey], *, crossed: bool
) -> Interval | None:
    if crossed and min(len(first.plays), len(second.plays)) > 1:
        return crossed_difference(first.matrices(panels), second.matrices(panels))
    return _difference(first.sides(panels), second.sides(panels))


def _difference(first: Sides | None, second: Sides | None) -> Interval | None:
    return None if first is None or second is None else score_difference(first, second)
