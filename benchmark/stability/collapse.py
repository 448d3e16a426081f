"""Detects the collapse of a training run with deterministic rules on its curves.

A curve is a sequence of numbers in time order. None and NaN mean that a value was not measured: the
rules skip such points, but positions count them. Every rule returns a position in its curve, or
None if the run did not collapse (in survival analysis, it is censored at its last point).
"""

import math
from collections.abc import Sequence
from typing import TypeGuard

from benchmark.logs.curves import RunCurves
from benchmark.logs.equal_progress import SUCCESS
from benchmark.logs.training_log import TrainingLog
from benchmark.stats.formatting import percent_text

WINDOW = 3
"""Number of evaluations averaged in a smoothed value."""
LEARNED = 0.10
"""Success that a run must have gained, or had, before it can lose it."""
KEPT = 0.5
"""Share of the gain, or of the best value, below which a run has collapsed."""
PATIENCE = 3
"""Consecutive evaluations that must agree."""
MIN_EVALUATIONS = WINDOW + 1
"""With fewer evaluations, a collapse may not show: the last smoothed value still includes the
init's success."""

BASELINE_STEPS = 10
STD_SHARE = 0.1
STD_PATIENCE = 10
LOWEST_SUCCESS = 0.01
LOWEST_PATIENCE = 5

_TIE = 1e-9
"""Numbers that differ by less count as equal: 0.6 - 0.5 is a gain of 0.10 despite rounding."""

Curve = Sequence[float | None]


def smoothed(curve: Curve, window: int = WINDOW) -> list[float | None]:
    """Trailing means: `m_t = mean(s_{t-w+1}, ..., s_t)`, over fewer values at the beginning.

    Args:
        curve: Values; None or NaN if missing.
        window: Number of values in a mean, w; at least 1.

    Returns:
        As many values, None where the curve has none.
    """
    if window < 1:
        raise ValueError(f"a window has at least one value, not {window}")
    means: list[float | None] = []
    seen: list[float] = []
    for value in curve:
        if not _measured(value):
            means.append(None)
            continue
        seen = [*seen[-(window - 1) :], value] if window > 1 else [value]
        means.append(math.fsum(seen) / len(seen))
    return means


def running_best(curve: Curve) -> list[float | None]:
    """The highest value so far: `b_t = max(m_k for k <= t)`; None before the first one."""
    best: list[float | None] = []
    highest: float | None = None
    for value in curve:
        if _measured(value):
            highest = value if highest is None else max(highest, value)
        best.append(highest)
    return best


def collapse_step(success: Curve, *, from_start: bool = True) -> int | None:
    """Find where a success curve collapses.

    With the success before training `s_0` (the first value), the smoothed curve `m_t` (w = 3) and
    its running best `b_t`, the run is collapsed at t if either

    - it had learned something, `b_t - s_0 >= 0.10`, and has lost at least half of that:
      `m_t <= s_0 + 0.5 (b_t - s_0)` holds for at least 3 consecutive evaluations, t among them; or
    - it has lost half of all it could: `m_t <= 0.5 b_t`, where `b_t >= 0.10`.

    The collapse step is the first such t. The second rule needs no gain, since a run that falls
    from a good init to nothing has collapsed; its `b_t >= 0.10` excludes curves that are never far
    enough above 0 for a half to be meaningful.

    With few episodes, noise alone looks like collapse. Of runs whose true success stays at 12%, the
    rule calls 51% collapsed after 11 validations on 30 episodes, 5% on 100, 1% on 144 and 0.3% on
    200; after 41 validations, 30% on 100 and 0.2% on 256
    (`tests/benchmarks/scripts/false_collapses.py`).

    Source: this project's definition, after the drawdown of Chan et al. (ICLR 2020,
    arXiv:1912.05663), section 3, on a smoothed curve.

    Args:
        success: Success rates on one validation panel, the init's first, each in [0, 1].
        from_start: Whether the first one is the init's. Otherwise the gain is unknown, and only the
            second rule applies.

    Returns:
        Position in `success`; None without a collapse.
    """
    start = next((value for value in success if _measured(value)), 0.0)
    means = smoothed(success)
    lost: list[bool | None] = []
    fallen: list[bool | None] = []
    for mean, best in zip(means, running_best(means), strict=True):
        if mean is None or best is None:
            lost.append(None)
            fallen.append(None)
            continue
        gain = best - start
        learned = from_start and gain >= LEARNED - _TIE
        lost.append(learned and mean <= start + KEPT * gain + _TIE)
        fallen.append(best >= LEARNED - _TIE and mean <= KEPT * best + _TIE)
    stretches = _first_stretch(lost, PATIENCE), _first_stretch(fallen, 1)
    return min((stretch[0] for stretch in stretches if stretch), default=None)


def fall_step(success: Curve) -> int | None:
    """Find where the loss behind a collapse first shows, no later than `collapse_step`.

    A smoothed curve lags. The fall is the earliest value in the window of `m_t` at the collapse
    that is itself at or below the collapse threshold: half of the best smoothed value, or half of
    the gain if that is at least 0.10.

    Source: this project's definition.

    Args:
        success: See `collapse_step`; the init's first.

    Returns:
        Position in `success`; None without a collapse.
    """
    if (step := collapse_step(success)) is None:
        return None
    known = [place for place, value in enumerate(success[: step + 1]) if _measured(value)]
    start, best = success[known[0]], running_best(smoothed(success))[step]
    assert start is not None
    assert best is not None
    learned = best - start >= LEARNED - _TIE
    level = start + KEPT * (best - start) if learned else KEPT * best
    return next(at for at in known[-WINDOW:] if (success[at] or 0.0) <= level + _TIE)


def halved(success: Curve) -> bool:
    """Whether a success curve ends at or below half of its best value of at least 0.10.

    Not smoothed: the collapse rules use a mean over 3 evaluations, which misses a late loss. For a
    collapsed run this adds no information.

    Source: this project's definition.

    Args:
        success: See `collapse_step`.
    """
    known = [value for value in success if _measured(value)]
    return bool(known) and known[-1] <= KEPT * max(known) >= KEPT * LEARNED


def halved_on(run: RunCurves) -> tuple[str, ...]:
    """Panels on which a run is `halved`.

    An empty name is the only panel or, for a run on several tasks, the mean over them.
    """
    found = [(*name.partition("@"), points) for name, points in run.curves.items()]
    return tuple(
        panel
        for curve, _, panel, points in found
        if curve == SUCCESS and halved(points.values.tolist())
    )


def format_collapse_step(valid: Curve) -> int | None:
    """Find where valid responses stay below half of their best share for 3 evaluations in a row.

    `v_t < 0.5 max(v_k for k <= t)`, not smoothed. This can happen before the success curve shows a
    collapse (as ARLArena describes for CISPO on ALFWorld: gradient norms explode, the share of
    valid formats drops).

    Args:
        valid: Share of responses with a valid action (or format), one value per evaluation.

    Returns:
        Position of the first of the three; None without a collapse.
    """
    low = [
        None if value is None or highest is None else value < KEPT * highest - _TIE
        for value, highest in zip(map(_or_none, valid), running_best(valid), strict=True)
    ]
    stretch = _first_stretch(low, PATIENCE)
    return stretch[0] if stretch else None


def reward_std_stop(group_std: Curve) -> int | None:
    """RAGEN's first stop rule: returns within groups no longer vary enough to learn from.

    The in-group standard deviation stays below 0.1 times the mean of its first 10 updates for 10
    consecutive updates after those. Source: RAGEN (Wang et al., arXiv:2504.20073), its trainer's
    early stopping.

    Args:
        group_std: Mean over groups of the standard deviation of returns in the group, one value
            per update (`rollout/group_std`).

    Returns:
        Position of the last of the 10, at which training stops; None if it continues.
    """
    values = [_or_none(value) for value in group_std]
    first = [position for position, value in enumerate(values) if value is not None]
    if len(first) <= BASELINE_STEPS:
        return None
    after = first[BASELINE_STEPS]
    baseline = math.fsum(v for v in values[:after] if v is not None) / BASELINE_STEPS
    low = [
        None if value is None else position >= after and value < STD_SHARE * baseline
        for position, value in enumerate(values)
    ]
    stretch = _first_stretch(low, STD_PATIENCE)
    return stretch[-1] if stretch else None


def success_stop(success: Curve) -> int | None:
    """RAGEN's second stop rule: success below 1% in 5 validations in a row.

    Source: see `reward_std_stop`.

    Args:
        success: Success rates on one validation panel, each in [0, 1].

    Returns:
        Position of the fifth, at which training stops; None if it continues.
    """
    low = [None if (v := _or_none(value)) is None else v < LOWEST_SUCCESS for value in success]
    stretch = _first_stretch(low, LOWEST_PATIENCE)
    return stretch[-1] if stretch else None


def diverged(made: Curve, skipped: Curve, limit: int) -> str | None:
    """Whether a run has ended because optimizer steps were not finite.

    Skipped steps are counted backward from the end to the last update with a completed step,
    including that update's: the order of its steps is unknown.

    Args:
        made: Completed optimizer steps of all updates (`policy/optimizer_steps`).
        skipped: Skipped steps of all updates (`policy/skipped_steps`).
        limit: Consecutive skipped steps that end a run (`optimization.max_skipped`).

    Returns:
        The reason, as the end of a sentence; None if there were fewer.
    """
    count = 0.0
    for steps, left_out in zip(reversed(made), reversed(skipped), strict=True):
        count += left_out if _measured(left_out) else 0
        if steps:
            break
    return skipped_text(limit) if count >= limit else None


def skipped_text(limit: int) -> str:
    """Why a run ends after `limit` steps that were not finite."""
    return f"{limit} optimizer steps in a row had a loss or gradient that is not finite"


def should_stop(success: Curve, action_ok: Curve = (), group_std: Curve = ()) -> str | None:
    """Whether a run should stop now, by any of the rules above.

    Args:
        success: Success rates of all validations of one panel so far, the init's first.
        action_ok: Shares of responses with an accepted action, of the same validations.
        group_std: In-group standard deviations of returns of all updates so far.

    Returns:
        The reason, as the end of a sentence; None if the run may continue.
    """
    if (step := collapse_step(success)) is not None:
        best = max(value for value in smoothed(success) if value is not None)
        now = next(value for value in reversed(smoothed(success)) if value is not None)
        return (
            f"success collapsed at validation {step}: {percent_text(now)} over the last {WINDOW}, "
            f"{percent_text(best)} at best"
        )
    if (step := format_collapse_step(action_ok)) is not None:
        best = max(value for value in action_ok if _measured(value))
        now = next(value for value in reversed(action_ok) if _measured(value))
        shares = f"{percent_text(now)}, {percent_text(best)} at best"
        return f"valid actions collapsed at validation {step}: {shares}"
    if success_stop(success) is not None:
        least = percent_text(LOWEST_SUCCESS, 0)
        return f"success was below {least} in {LOWEST_PATIENCE} validations in a row"
    if reward_std_stop(group_std) is not None:
        return (
            "returns within groups hardly differ: their standard deviation was below "
            f"{percent_text(STD_SHARE, 0)} of that of the first {BASELINE_STEPS} updates for "
            f"{STD_PATIENCE} updates in a row"
        )
    return None


def _first_stretch(flags: Sequence[bool | None], length: int) -> list[int]:
    """Positions of the first `length` consecutive flags that are set; None is skipped."""
    stretch: list[int] = []
    for position, flag in enumerate(flags):
        if flag is not None:
            stretch = [*stretch, position] if flag else []
        if len(stretch) == length:
            return stretch
    return []


def _or_none(value: float | None) -> float | None:
    return value if _measured(value) else None


def _measured(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def collapse_update(log: TrainingLog, panel: str | None = None) -> int | None:
    """The update after which a run collapsed (`collapse_step`); None if it did not.

    Args:
        log: The run.
        panel: The panel whose success counts; by default the first one, or for a run on several
            tasks the mean over their panels.
    """
    curve = judged_success(log, panel)
    step = collapse_step([success for _, success in curve])
    return None if step is None else curve[step][0]


def fall_update(log: TrainingLog) -> int | None:
    """The update after which a collapsed run's fall first shows (`fall_step`).

    Args:
        log: The run; the same success counts as in `collapse_update`.
    """
    curve = judged_success(log)
    step = fall_step([success for _, success in curve])
    return None if step is None else curve[step][0]


def judged_success(log: TrainingLog, panel: str | None = None) -> list[tuple[int, float]]:
    """Updates and success of the validations that a run is judged by.

    Args:
        log: The run.
        panel: The panel; None for the first, or for the mean over tasks of a run on several.
    """
    if not log.validations:
        return []
    if panel is None and log.several_tasks:
        return log.over_tasks("success")
    return [(line.update, line.success) for line in log.of_panel(panel or log.panels[0])]
