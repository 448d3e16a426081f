"""Results of the finished cells of a track: a method's success, gain and collapses.

Differences between methods, and between a method and the init, are those of
`benchmark.stats.paired`: episode by episode over the panel, with the spread of the seeds.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from baselines.study.cells import INIT, Finished, Plays, read_plays
from baselines.study.estimate import episodes_of
from baselines.study.schema import Cell
from benchmark.logs.curves import run_curves_of
from benchmark.logs.equal_progress import SUCCESS, equal_success, progress_of
from benchmark.logs.training_log import TrainingLog
from benchmark.stability.collapse import collapse_update
from benchmark.stats.intervals import Interval, wilson
from benchmark.stats.paired import Side, difference
from benchmark.submissions.checks.log_schedule import early_stop

PanelKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RecipeRuns:
    """A recipe on a track.

    Attributes:
        recipe: Its name.
        planned: Seeds that the study wants.
        runs: Finished cells of these, in the order of the seeds.
        plays: What each run's last weights have solved.
    """

    recipe: str
    planned: tuple[int, ...]
    runs: tuple[Finished, ...]
    plays: tuple[Plays, ...]

    @property
    def logs(self) -> tuple[TrainingLog, ...]:
        """Training logs of the runs."""
        return tuple(run.log for run in self.runs if run.log is not None)

    @property
    def missing(self) -> tuple[int, ...]:
        """Planned seeds that are not finished."""
        there = {run.cell.seed for run in self.runs}
        return tuple(seed for seed in self.planned if seed not in there)

    @property
    def collapsed(self) -> tuple[int, ...]:
        """Updates after which runs have collapsed, of those that have.

        A run that ended before its time has collapsed: nobody knows what would have come.
        """
        updates = map(collapse_of, self.logs)
        return tuple(update for update in updates if update is not None)

    @property
    def learning_rate(self) -> float | None:
        """Of its runs: a track gives a recipe one."""
        return self.runs[0].facts.learning_rate if self.runs else None

    @property
    def cpu_minutes(self) -> float | None:
        """Processor time of a run, tuning left out, mean."""
        seconds = [run.facts.own_seconds for run in self.runs]
        return statistics.fmean(seconds) / 60 if seconds else None

    @property
    def episodes(self) -> float | None:
        """Training episodes of a run, mean."""
        return statistics.fmean(map(episodes_of, self.logs)) if self.logs else None

    def side(self, panel: PanelKey) -> Side | None:
        """What its runs have solved of a panel, for comparisons; None without runs."""
        played = [plays[panel] for plays in self.plays]
        if not played:
            return None
        episodes = sorted(played[0])
        seeds = [statistics.fmean(map(float, each.values())) for each in played]
        return Side.of([[each[e] for each in played] for e in episodes], seeds)


@dataclass(frozen=True, slots=True)
class EqualEpisodes:
    """Methods after the same number of training episodes.

    Attributes:
        limit: How many.
        sides: Success of each method's runs there, by recipe; between two validations interpolated.
    """

    limit: int
    sides: Mapping[str, Side]


@dataclass(frozen=True, slots=True)
class TrackResults:
    """Everything that is finished on a track.

    Attributes:
        track: Its name.
        panels: Its validation panels, (task, panel).
        methods: By recipe, in the order of the study.
        init: What the init solves; None if it was not played yet.
    """

    track: str
    panels: tuple[PanelKey, ...]
    methods: Mapping[str, RecipeRuns]
    init: Plays | None

    def at_equal_episodes(self, panel: str, *recipes: str) -> EqualEpisodes | None:
        """Methods after as many training episodes as the shortest of their runs has played.

        Args:
            panel: Name of the panel in the logs.
            recipes: Which methods; none for all.

        Returns:
            None without runs, or if a log does not say how many episodes it has played.
        """
        methods = {name: self.methods[name] for name in recipes or self.methods}
        logs = [log for method in methods.values() for log in method.logs]
        if not logs:
            return None
        name = SUCCESS if len(self.panels) == 1 else f"{SUCCESS}@{panel}"
        found = equal_success([progress_of(run_curves_of(log), name) for log in logs], "episodes")
        if found is None:
            return None
        at = iter(found.success)
        plays = logs[0].of_panel(panel)[0].episodes
        rates = {name: [next(at) for _ in method.logs] for name, method in methods.items()}
        sides = {name: Side.of_rates(each, plays) for name, each in rates.items() if each}
        return EqualEpisodes(found.limit, sides)

    def init_side(self, panel: PanelKey) -> Side | None:
        """What the init has solved of a panel, for comparisons."""
        if self.init is None:
            return None
        played = self.init[panel]
        return Side.of([[played[episode]] for episode in sorted(played)])

    def gain(self, recipe: str, panel: PanelKey) -> Interval | None:
        """Success of a method minus that of the init; None where either is missing."""
        return _difference(self.methods[recipe].side(panel), self.init_side(panel))

    def name_in_logs(self, panel: PanelKey) -> str:
        """What logs call a panel."""
        return panel[1] if len(self.panels) == 1 else ".".join(panel)

    def between_at_equal_episodes(
        self, first: str, second: str, panel: PanelKey
    ) -> tuple[int, Interval] | None:
        """The episodes, and the difference after them; None if they are those of whole runs."""
        one, other = self.methods[first], self.methods[second]
        equal = self.at_equal_episodes(self.name_in_logs(panel), first, second)
        if equal is None or one.episodes == other.episodes or len(equal.sides) < 2:
            return None
        return equal.limit, difference(equal.sides[first], equal.sides[second])

    def between(self, first: str, second: str, panel: PanelKey) -> Interval | None:
        """Success of a method minus that of another; None where either is missing."""
        return _difference(self.methods[first].side(panel), self.methods[second].side(panel))


def results_of(
    track: str, panels: Sequence[PanelKey], cells: Sequence[Cell], finished: Sequence[Finished]
) -> TrackResults:
    """Sort what is finished on a track by method.

    Args:
        track: Name of the track.
        panels: Its validation panels.
        cells: What the study wants of it.
        finished: What there is, of any track.

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
        methods[recipe] = RecipeRuns(recipe, planned, runs, tuple(map(read_plays, runs)))
    init = next((read_plays(e) for e in there.values() if e.cell.recipe == INIT), None)
    return TrackResults(track, tuple(panels), methods, init)


def with_seeds(side: Side) -> Interval:
    """A success rate with an interval over episodes and seeds, in [0, 1].

    It is the difference from a side that never succeeds.
    """
    nothing = replace(side, shares=None, success=Interval(0.0, 0.0, 0.0), seeds=())
    found = difference(side, nothing)
    return Interval(found.value, max(found.low, 0.0), found.high)


def collapse_share(method: RecipeRuns) -> Interval:
    """Share of a method's runs that have collapsed, with Wilson's interval.

    Raises:
        ValueError: There are no runs.
    """
    return wilson(len(method.collapsed), len(method.runs))


def collapse_of(log: TrainingLog) -> int | None:
    """The update after which a run has collapsed, by its curve or by its end before its time."""
    update = collapse_update(log)
    return log.updates[-1].update if update is None and early_stop(log) is not None else update


def _difference(first: Side | None, second: Side | None) -> Interval | None:
    return None if first is None or second is None else difference(first, second)
