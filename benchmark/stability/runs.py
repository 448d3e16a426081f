"""All stability metrics of one training run, from its curves."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from benchmark.logs.curves import Points, RunCurves
from benchmark.stability import curves, signals
from benchmark.stability.collapse import (
    MIN_EVALUATIONS,
    PATIENCE,
    collapse_step,
    format_collapse_step,
    halved,
    halved_on,
)
from benchmark.stability.definitions import of_scope
from benchmark.stats.survival import EventOutcome

LEVELS = (0.25, 0.5, 0.75, 0.9)
"""Success rates of `reached`."""
LAST = 10
"""Number of last updates whose median is the last value of a noisy number."""

_T = TypeVar("_T")
_SUCCESS = "validation/success"
_VALID = ("validation/action_ok", "validation/format_ok", "rollout/action_ok", "rollout/format_ok")


@dataclass(frozen=True, slots=True)
class Reached:
    """Cost of reaching a success rate.

    Attributes:
        level: The success rate.
        updates: The first update with at least this smoothed success; None if there is none.
        tokens: Response tokens sampled until then; None as above, or if the log lacks them.
        seconds: Compute until then; likewise.
    """

    level: float
    updates: int | None
    tokens: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class RunStability:
    """The stability of one run; a number that its log does not provide is None, never 0.

    `DEFINITIONS` has the meaning and unit of each number and event under its name.

    Attributes:
        name: Name of the run.
        source: Format of its log.
        recipe: Name of its recipe; None if unknown.
        seed: Its seed; None if unknown.
        success_curve: Name of the curve that counts as success; None without one.
        valid_curve: Name of the curve that counts as valid responses; None without one.
        evaluations: Number of finite points of the success curve.
        last_step: The last update in the log; None for an empty log.
        reached: Cost of reaching each level, ascending; empty without a success curve.
        halved: It has not collapsed, but has lost half in the end (`collapse.halved`): on the
            success curve if that was named, else on any panel.
    """

    name: str
    source: str
    recipe: str | None
    seed: int | None
    success_curve: str | None
    valid_curve: str | None
    evaluations: int
    last_step: int | None
    reached: tuple[Reached, ...]
    halved: bool
    collapse: EventOutcome | None
    format_collapse: EventOutcome | None
    degenerate_text: EventOutcome | None
    entropy_collapse: EventOutcome | None
    entropy_explosion: EventOutcome | None
    initial_success: float | None
    final_success: float | None
    best_success: float | None
    mean_success: float | None
    max_drawdown: float | None
    retention: float | None
    area_lost: float | None
    short_term_risk: float | None
    long_term_risk: float | None
    dispersion_across_time: float | None
    late_std: float | None
    kl_init_final: float | None
    kl_init_slope: float | None
    kl_old_p95: float | None
    grad_spikes: float | None
    grad_peak: float | None
    grad_nonfinite: int | None
    entropy_kept: float | None
    repeated_max: float | None
    mismatch_k3: float | None
    mismatch_p95: float | None

    @property
    def numbers(self) -> Mapping[str, float | None]:
        """All plain numbers, by their names in `DEFINITIONS`."""
        return {name: getattr(self, name) for name in of_scope("run")}

    @property
    def events(self) -> Mapping[str, EventOutcome | None]:
        """All events, by their names in `DEFINITIONS`."""
        return {name: getattr(self, name) for name in of_scope("event")}


def run_stability(
    run: RunCurves,
    success: str | None = None,
    levels: Sequence[float] = LEVELS,
    resolution: float = 0.0,
) -> RunStability:
    """Compute all numbers of one run.

    Args:
        run: Its curves.
        success: Name of the curve that counts as success, for example
            `validation/success@builtin`. By default that of the first validation panel, or for a
            run on several tasks the mean over their panels; training success is used only if named
            here.
        levels: Success rates to reach.
        resolution: Unit of the last decimal to which its log was rounded; 0 for none.

    Raises:
        KeyError: The run has no curve named `success`.
    """
    named, success = success, _success_name(run, success)
    rate = run.curves[success].finite if success is not None else None
    smooth = _of(rate, curves.smoothed_curve)
    valid_name, valid = _valid(run, success)
    entropy = run.curves.get("policy/entropy")
    kl_init = run.curves.get("kl_init/mean")
    grad = run.curves.get("policy/grad_norm")
    repeated, mismatch = run.curves.get("rollout/repeated"), run.curves.get("engine/k3")
    collapse = _collapse(rate)
    return RunStability(
        name=run.name,
        source=run.source,
        recipe=run.recipe,
        seed=run.seed,
        success_curve=success,
        valid_curve=valid_name,
        evaluations=0 if rate is None else rate.steps.size,
        last_step=_last_step(run),
        reached=_reached(run, smooth, levels),
        halved=not (collapse and collapse.happened) and _halved(run, named),
        collapse=collapse,
        format_collapse=_evaluated(valid, format_collapse_step, PATIENCE + 1),
        degenerate_text=_updated(repeated, signals.degenerate_step, signals.PATIENCE),
        entropy_collapse=_entropy_event(entropy, signals.entropy_collapse_step),
        entropy_explosion=_entropy_event(entropy, signals.entropy_explosion_step),
        initial_success=_of(rate, _initial),
        final_success=_of(rate, _final),
        best_success=_of(smooth, _largest),
        mean_success=_of(rate, curves.mean_over_time),
        max_drawdown=_of(rate, curves.max_drawdown),
        retention=_of(rate, curves.retention),
        area_lost=_of(rate, curves.area_lost),
        short_term_risk=_of(rate, curves.short_term_risk),
        long_term_risk=_of(rate, curves.long_term_risk),
        dispersion_across_time=_of(rate, curves.dispersion_across_time),
        late_std=_of(rate, curves.late_std),
        kl_init_final=_of(kl_init, _last_median),
        kl_init_slope=_of(kl_init, curves.slope),
        kl_old_p95=_of(run.curves.get("kl_old/mean"), _p95),
        grad_spikes=_of(grad, lambda curve: signals.spikes_of(curve, resolution).per_100),
        grad_peak=_of(grad, signals.peak),
        grad_nonfinite=_of(grad, lambda curve: int((~np.isfinite(curve.values)).sum())),
        entropy_kept=_of(entropy, _entropy_kept),
        repeated_max=_of(repeated, _largest),
        mismatch_k3=_of(mismatch, lambda curve: curves.upper_quantile(curve, 0.5)),
        mismatch_p95=_of(mismatch, _p95),
    )


def _last_step(run: RunCurves) -> int | None:
    ends = (int(curve.steps[-1]) for curve in run.curves.values() if curve.steps.size)
    return max(ends, default=None)


def _collapse(rate: Points | None) -> EventOutcome | None:
    from_start = _of(rate, _initial) is not None
    found = _evaluated(rate, partial(collapse_step, from_start=from_start), 2)
    if found is None or found.happened or rate is None or rate.finite.steps.size >= MIN_EVALUATIONS:
        return found
    return None


def _halved(run: RunCurves, named: str | None) -> bool:
    return bool(halved_on(run)) if named is None else halved(run.curves[named].values.tolist())


def _success_name(run: RunCurves, name: str | None) -> str | None:
    if name is not None:
        if name not in run.curves:
            raise KeyError(name)
        return name
    return next((key for key in run.curves if key.partition("@")[0] == _SUCCESS), None)


def _valid(run: RunCurves, success: str | None) -> tuple[str | None, Points | None]:
    """The first curve of valid responses on the success curve's panel."""
    panel = (success or "").partition("@")[2]
    for name in _VALID:
        key = f"{name}@{panel}" if panel and name.startswith("validation/") else name
        if key in run.curves:
            return key, run.curves[key]
    return None, None


def _reached(run: RunCurves, smooth: Points | None, levels: Sequence[float]) -> tuple[Reached, ...]:
    if smooth is None or not smooth.steps.size:
        return ()
    reached = []
    for level in sorted(levels):
        step = curves.step_to_reach(smooth, level)
        reached.append(Reached(level, step, _total(run.tokens, step), _total(run.seconds, step)))
    return tuple(reached)


def _total(total: Points | None, step: int | None) -> float | None:
    """A running total after an update; None if either is unknown."""
    if total is None or step is None:
        return None
    value = float(curves.running_totals(total, np.array([step]))[0])
    return None if math.isnan(value) else value


def _of(curve: Points | None, number: Callable[[Points], _T | None]) -> _T | None:
    return None if curve is None else number(curve)


def _evaluated(
    curve: Points | None, rule: Callable[[list[float]], int | None], least: int
) -> EventOutcome | None:
    """Apply a rule that returns positions; None with fewer points than it needs."""
    if curve is None or curve.finite.steps.size < least:
        return None
    finite = curve.finite
    place = rule(finite.values.tolist())
    return EventOutcome(int(finite.steps[-1 if place is None else place]), place is not None)


def _updated(
    curve: Points | None, rule: Callable[[Points], int | None], least: int
) -> EventOutcome | None:
    """Apply a rule that returns updates; None with fewer points than it needs."""
    if curve is None or curve.finite.steps.size < least:
        return None
    step = rule(curve)
    return EventOutcome(int(curve.finite.steps[-1]) if step is None else step, step is not None)


def _entropy_event(
    entropy: Points | None, rule: Callable[[Points], int | None]
) -> EventOutcome | None:
    if entropy is None or signals.entropy_baseline(entropy) is None:
        return None
    return _updated(entropy, rule, signals.BASELINE + 1)


def _entropy_kept(entropy: Points) -> float | None:
    baseline = signals.entropy_baseline(entropy)
    return None if baseline is None else float(entropy.finite.values[-LAST:].mean()) / baseline


def _initial(curve: Points) -> float | None:
    """The value at update 0; None if the log begins later."""
    finite = curve.finite
    return float(finite.values[0]) if finite.steps.size and finite.steps[0] == 0 else None


def _final(curve: Points) -> float | None:
    values = curve.finite.values
    return float(values[-1]) if values.size else None


def _last_median(curve: Points) -> float | None:
    return curves.upper_quantile(Points(curve.steps[-LAST:], curve.values[-LAST:]), 0.5)


def _p95(curve: Points) -> float | None:
    return curves.upper_quantile(curve, 0.95)


def _largest(curve: Points) -> float | None:
    values = curve.finite.values
    return float(values.max()) if values.size else None
