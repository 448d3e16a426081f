"""Stability metrics over the seeds of a recipe: collapses, worst seed, average and spread."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from benchmark.logs.curves import RunCurves
from benchmark.stability.anytime import dispersion_across_runs
from benchmark.stability.definitions import DEFINITIONS, of_scope
from benchmark.stability.runs import LEVELS, Reached, RunStability, run_stability
from benchmark.stats.bootstrap import BootstrapInterval, estimate, median, sorted_iqm, sorted_median
from benchmark.stats.intervals import RESAMPLES, Interval, exact
from benchmark.stats.survival import EventOutcome, SurvivalCurve, kaplan_meier
from tasks.errors import UserError


@dataclass(frozen=True, slots=True)
class SeedSummary:
    """One number over all seeds.

    Attributes:
        values: (k,) value of every seed, in the order of the runs; None if its log lacks it.
        median: Median of the known values, with its bootstrap interval; None if there are none.
        iqm: Interquartile mean of the known values.
        worst: The worst known value; None also if neither direction is better.
    """

    values: tuple[float | None, ...]
    median: BootstrapInterval | None
    iqm: BootstrapInterval | None
    worst: float | None

    @property
    def known(self) -> int:
        """Number of seeds whose logs have the number."""
        return sum(value is not None for value in self.values)


@dataclass(frozen=True, slots=True)
class EventSummary:
    """One event over all seeds.

    Attributes:
        happened: Number of seeds in which it happened.
        known: Number of seeds whose logs show whether it happened.
        rate: Their ratio with its exact interval; None if no log shows it.
        survival: Share of seeds in which it has not happened, along the updates; None likewise.
    """

    happened: int
    known: int
    rate: Interval | None
    survival: SurvivalCurve | None


@dataclass(frozen=True, slots=True)
class ReachedSummary:
    """Cost for the seeds of reaching a success rate.

    A seed that never reached it counts as slower than all that did.

    Attributes:
        level: The success rate.
        reached: Number of seeds that reached it.
        known: Number of seeds with a success curve.
        updates: Median over these seeds; None if half of them or more never reached it.
        tokens: Likewise; None also if a log lacks them.
        seconds: Likewise.
    """

    level: float
    reached: int
    known: int
    updates: float | None
    tokens: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class RecipeStability:
    """The stability of one recipe; a number that the logs do not provide is None, never 0.

    `DEFINITIONS` has the meaning of each number under its name.

    Attributes:
        runs: Stability of each run, in the order of the seeds.
        collapse_rate: Share of the seeds that collapse, with its exact interval.
        worst_seed: Lowest final success; None if that of any seed is unknown.
        dispersion_across_runs: Spread of the seeds; None with a single one.
        numbers: Every number of the runs, by name.
        events: Every event of the runs, by name; `collapse` has the survival curve.
        reached: Cost of reaching each level, ascending.
    """

    runs: tuple[RunStability, ...]
    collapse_rate: Interval | None
    worst_seed: float | None
    dispersion_across_runs: float | None
    numbers: Mapping[str, SeedSummary]
    events: Mapping[str, EventSummary]
    reached: tuple[ReachedSummary, ...]

    @property
    def halved(self) -> int:
        """Number of seeds that have not collapsed, but end at half of their best or below."""
        return sum(run.halved for run in self.runs)

    @property
    def survival(self) -> SurvivalCurve | None:
        """Share of the seeds that have not collapsed, along the updates."""
        return self.events["collapse"].survival

    @property
    def columns(self) -> Mapping[str, float | None]:
        """The numbers shown on the leaderboard, as medians over seeds."""
        medians = {name: self.numbers[name].median for name in ("max_drawdown", "retention")}
        medians["mismatch_p95"] = self.numbers["mismatch_p95"].median
        return {
            "collapse_rate": None if self.collapse_rate is None else self.collapse_rate.value,
            "worst_seed": self.worst_seed,
            **{name: None if m is None else m.value for name, m in medians.items()},
        }


def recipe_stability(
    runs: Sequence[RunCurves],
    success: str | None = None,
    levels: Sequence[float] = LEVELS,
    resamples: int = RESAMPLES,
    resolutions: Sequence[float] = (),
) -> RecipeStability:
    """Compute the stability of a recipe from its seeds.

    Args:
        runs: Runs that differ only in the seed, at least one.
        success: Name of the curve that counts as success; see `run_stability`.
        levels: Success rates to reach.
        resamples: Number of bootstrap draws.
        resolutions: Resolution of each run's log, see `run_stability`; empty for no rounding.

    Raises:
        ValueError: There are no runs, or the number of resolutions differs.
        KeyError: A run has no curve named `success`.
        UserError: Two runs have the same seed, or their success is on different panels.
    """
    if not runs:
        raise ValueError("no runs, no stability")
    pairs = sorted(
        zip(runs, resolutions or [0.0] * len(runs), strict=True),
        key=lambda pair: (pair[0].seed is None, pair[0].seed or 0, pair[0].name),
    )
    ordered = [run for run, _ in pairs]
    singles = tuple(run_stability(run, success, levels, rounded) for run, rounded in pairs)
    _check_seeds(singles)
    rates = [
        run.curves[one.success_curve]
        for run, one in zip(ordered, singles, strict=True)
        if one.success_curve is not None
    ]
    numbers = {
        name: _seed_summary(name, [one.numbers[name] for one in singles], resamples)
        for name in of_scope("run")
    }
    events = {name: _event_summary(name, singles) for name in of_scope("event")}
    finals = numbers["final_success"]
    return RecipeStability(
        runs=singles,
        collapse_rate=events["collapse"].rate,
        worst_seed=finals.worst if finals.known == len(singles) else None,
        dispersion_across_runs=dispersion_across_runs(rates) if len(rates) == len(runs) else None,
        numbers=numbers,
        events=events,
        reached=tuple(
            _reached_summary([one.reached[place] for one in singles if one.reached], level)
            for place, level in enumerate(sorted(levels))
        ),
    )


def with_early_stops(stability: RecipeStability, ends: Sequence[int | None]) -> RecipeStability:
    """Count runs that were stopped early as collapsed, whichever rule stopped them.

    Their further course is unknown.

    Args:
        stability: Stability of a recipe.
        ends: The update after which each of its runs was stopped, in their order; None for one
            that was not. A run may have collapsed before.
    """
    if not any(end is not None for end in ends):
        return stability
    runs = tuple(
        run
        if end is None or (run.collapse is not None and run.collapse.happened)
        else replace(run, collapse=EventOutcome(end, True), halved=False)
        for run, end in zip(stability.runs, ends, strict=True)
    )
    collapse = _event_summary("collapse", runs)
    events = {**stability.events, "collapse": collapse}
    return replace(stability, runs=runs, collapse_rate=collapse.rate, events=events)


def _check_seeds(runs: Sequence[RunStability]) -> None:
    for one, other in pairwise(runs):
        if one.seed is not None and one.seed == other.seed:
            raise UserError(
                f"{one.name} and {other.name} both have seed {one.seed}; give each "
                "run of a recipe once"
            )
    names = sorted({run.success_curve for run in runs if run.success_curve is not None})
    if len(names) > 1:
        raise UserError(
            "runs of one recipe were validated on different panels "
            f"({', '.join(names)}); give the panel that they share"
        )


def _seed_summary(name: str, values: Sequence[float | None], resamples: int) -> SeedSummary:
    known = [value for value in values if value is not None]
    if not known:
        return SeedSummary(tuple(values), None, None, None)
    better = DEFINITIONS[name].better
    return SeedSummary(
        values=tuple(values),
        median=estimate([known], sorted_median, resamples=resamples),
        iqm=estimate([known], sorted_iqm, resamples=resamples),
        worst=None if better is None else min(known) if better == "higher" else max(known),
    )


def _event_summary(name: str, runs: Sequence[RunStability]) -> EventSummary:
    outcomes = [outcome for run in runs if (outcome := run.events[name]) is not None]
    happened = sum(outcome.happened for outcome in outcomes)
    if not outcomes:
        return EventSummary(0, 0, None, None)
    rate = exact(happened, len(outcomes))
    return EventSummary(happened, len(outcomes), rate, kaplan_meier(outcomes))


def _reached_summary(seeds: Sequence[Reached], level: float) -> ReachedSummary:
    def middle(of: Callable[[Reached], float | None]) -> float | None:
        took = [math.inf if seed.updates is None else of(seed) for seed in seeds]
        known = [value for value in took if value is not None]
        if not known or len(known) < len(took):
            return None
        value = median(known)
        return value if math.isfinite(value) else None

    return ReachedSummary(
        level=level,
        reached=sum(seed.updates is not None for seed in seeds),
        known=len(seeds),
        updates=middle(lambda seed: seed.updates),
        tokens=middle(lambda seed: seed.tokens),
        seconds=middle(lambda seed: seed.seconds),
    )
