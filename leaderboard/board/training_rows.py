"""Facts about the training runs behind an entry, by the rules of `leaderboard.board.rows`."""

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
        name: Its name in `DEFINITIONS`.
        values: Value of every seed, in the order of `Stability.seeds`.
        median: Median of the known values; None if there are none.
        median_low: Lower end of its bootstrap interval; None with a single seed.
        median_high: Upper end.
        iqm: Interquartile mean.
        worst: The worst value; None also if neither direction is better.
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
        name: Its name in `DEFINITIONS`.
        happened: Number of seeds in which it happened.
        known: Number of seeds whose logs show whether it happened.
        rate: Their ratio; None if no log shows it.
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
    """Median cost over the seeds of reaching a success rate; None if most never reached it.

    Attributes:
        level: The success rate.
        reached: Number of seeds that reached it.
        known: Number of seeds with a success curve.
        updates: Median updates.
        tokens: Median sampled response tokens; None also if a log lacks them.
        seconds: Median seconds of compute, likewise.
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

    A step function: 1 before the first step, and `share[i]` from `steps[i]` on.

    Attributes:
        steps: Updates, ascending.
        share: Share after each of them.
        low: Lower end of its interval; None where the data do not bound it.
        high: Upper end, likewise.
        at_risk: Seeds still observed just before.
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
        columns: The numbers shown on the board: `RecipeStability.columns`.
        numbers: Every number of the runs.
        events: Every event of the runs.
        reached: Compute to reach each level, ascending.
        dispersion_across_runs: Spread of the seeds; None with a single seed.
        survival: Survival curve; None if no log shows whether its run collapsed.
        halved: Number of seeds that did not collapse but ended at half of their best validation or
            below (`benchmark.stability.collapse.halved`); None if the board does not state it.
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
        """Why no log shows whether its run collapsed, if that is so (`MIN_EVALUATIONS`)."""
        finals = [each.values for each in self.numbers if each.name == "final_success"]
        none = bool(finals) and not any(value is not None for value in finals[0])
        return "no validations" if none else "too few validations"


@dataclass(frozen=True, slots=True)
class StoredSeries:
    """One number along the updates of one training run, thinned if it is long.

    Attributes:
        name: Its name in `leaderboard.board.curves.CURVES` or its `SIGNALS`, or its `EPISODES`.
        steps: Updates, ascending; 0 is the init.
        values: Measured values, not smoothed; may be NaN or infinite.
        measured: Number of points before thinning.
    """

    name: str
    steps: tuple[int, ...]
    values: tuple[float, ...]
    measured: int


@dataclass(frozen=True, slots=True)
class Spark:
    """The success curve of one training run, short enough for a table row.

    Attributes:
        seed: Its seed.
        steps: Updates, ascending.
        values: Success rates of the validations there.
        collapse: The update at which it collapsed; None if it did not.
    """

    seed: int
    steps: tuple[int, ...]
    values: tuple[float, ...]
    collapse: int | None


@dataclass(frozen=True, slots=True)
class SeedCurves:
    """The curves of one training run.

    Attributes:
        seed: Its seed.
        panel: `task/panel` of its validations; None if there were none, or it is not in the log.
        collapse_step: The update at which it collapsed; otherwise the last validation, where it is
            censored. None if the log does not show it.
        collapsed: Whether it collapsed; None likewise.
        last_step: The last update; None for a log without any.
        stopped: Why it was stopped before the last update in its configuration, which counts as a
            collapse; None if it was not.
        series: The measured series only.
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
