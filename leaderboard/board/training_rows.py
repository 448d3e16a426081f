"""What is known of the training runs behind an entry, by the rules of `leaderboard.board.rows`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NamedValue:
    """One number by its name in `benchmark.stability.definitions.DEFINITIONS`; None is unknown."""

    name: str
    value: float | None


@dataclass(frozen=True, slots=True)
class SeedNumbers:
    """One number over all seeds (`benchmark.stability.seeds.SeedSummary`).

    Attributes:
        name: In `DEFINITIONS`.
        values: Of every seed, in the order of `Stability.seeds`.
        median: Of those that are known; None if none is.
        median_low: Lower end of its bootstrap interval; None with a single seed.
        median_high: Upper end.
        iqm: Interquartile mean.
        worst: The worst; None also where neither direction is better.
    """

    name: str
    values: tuple[float | None, ...]
    median: float | None
    median_low: float | None
    median_high: float | None
    iqm: float | None
    worst: float | None


@dataclass(frozen=True, slots=True)
class EventCount:
    """One event over all seeds (`benchmark.stability.seeds.EventSummary`).

    Attributes:
        name: In `DEFINITIONS`.
        happened: Seeds to which it happened.
        known: Seeds whose logs can say.
        rate: Their ratio; None if none can.
        low: Lower end of its exact interval.
        high: Upper end.
    """

    name: str
    happened: int
    known: int
    rate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ReachedLevel:
    """What it took to reach a success rate, median over the seeds; None: most never did.

    Attributes:
        level: The success rate.
        reached: Seeds that reached it.
        known: Seeds with a success curve.
        updates: Median.
        tokens: Median of sampled response tokens; None also if a log cannot say.
        seconds: Median of compute, likewise.
    """

    level: float
    reached: int
    known: int
    updates: float | None
    tokens: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Survival:
    """Share of seeds that have not collapsed (`benchmark.stats.survival.SurvivalCurve`).

    A staircase: 1 before the first step, and `share[i]` from `steps[i]` on.

    Attributes:
        steps: Updates, ascending.
        share: After each of them.
        low: Lower end of its interval; None where the data do not bound it.
        high: Upper end, likewise.
        at_risk: Seeds that were still seen just before.
        happened: Seeds that collapsed there.
    """

    steps: tuple[int, ...]
    share: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    at_risk: tuple[int, ...]
    happened: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stability:
    """The stability of the training runs behind an entry; explained in `DEFINITIONS`.

    Attributes:
        seeds: Seeds of the logs, ascending.
        columns: What the board shows: `RecipeStability.columns`.
        numbers: Every number of the runs.
        events: Every event of the runs.
        reached: Compute to reach each level, ascending.
        dispersion_across_runs: None with a single seed.
        survival: None if no log can say whether it collapsed.
        halved: Seeds that did not collapse and ended at half of their best validation or below
            (`benchmark.stability.collapse.halved`); None where the board does not say.
    """

    seeds: tuple[int, ...]
    columns: tuple[NamedValue, ...]
    numbers: tuple[SeedNumbers, ...]
    events: tuple[EventCount, ...]
    reached: tuple[ReachedLevel, ...]
    dispersion_across_runs: float | None
    survival: Survival | None
    halved: tuple[int, ...] | None = None

    @property
    def unjudged(self) -> str:
        """Why no log can say whether its run collapsed, where none can (`MIN_EVALUATIONS`)."""
        finals = [each.values for each in self.numbers if each.name == "final_success"]
        none = bool(finals) and not any(value is not None for value in finals[0])
        return "no validations" if none else "too few validations"


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """One number along the updates of one training, thinned out where it is long.

    Attributes:
        name: In `leaderboard.board.curves.CURVES` or its `SIGNALS`, or its `EPISODES`.
        steps: Updates, ascending; 0 is the init.
        values: As measured, none of them smoothed; may be NaN or infinite.
        measured: Points before the curve was thinned out.
    """

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    measured: int


@dataclass(frozen=True, slots=True)
class Spark:
    """The success curve of one training, short enough for the row of a table.

    Attributes:
        seed: Its seed.
        steps: Updates, ascending.
        values: Success of the validations there, shares.
        collapse: The update at which it collapsed; None if it did not.
    """

    seed: int
    steps: tuple[int, ...]
    values: tuple[float, ...]
    collapse: int | None


@dataclass(frozen=True, slots=True)
class SeedCurves:
    """The curves of one training.

    Attributes:
        seed: Its seed.
        panel: `task/panel` that it was validated on; None if it was not, or the log does not say.
        collapse_step: The update at which it collapsed; without a collapse the last validation:
            it is censored there. None where the log cannot say.
        collapsed: Whether it did; None likewise.
        last_step: The last update; None for a log without any.
        stopped: Why it was ended before the last update that its configuration names, which counts
            as a collapse; None if it was not.
        series: What was measured; what was not is not there.
    """

    seed: int
    panel: str | None
    collapse_step: int | None
    collapsed: bool | None
    last_step: int | None
    stopped: str | None
    series: tuple[StoredSeries, ...]

    def of(self, name: str) -> StoredSeries | None:
        """One series; None if it was not measured."""
        return next((series for series in self.series if series.name == name), None)
