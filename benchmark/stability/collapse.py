"""Detects collapse of a training run: deterministic rules on its curves.

A curve is a sequence of numbers in the order of time. None and NaN stand for what was not
measured: the rules pass over it, as if the curve did not have that point, and positions count it.
Every rule gives a position in the curve that it was given, or None if the run did not collapse
(survival analysis: it is censored at its last point).
"""

import math
from collections.abc import Sequence
from typing import TypeGuard

from benchmark.logs.curves import RunCurves
from benchmark.logs.equal_progress import SUCCESS
from benchmark.logs.training_log import TrainingLog
from benchmark.stats.formatting import percent_text

WINDOW = 3
"""Evaluations that a smoothed value is the mean of."""
LEARNED = 0.10
"""Success that a run must have gained, or had, before it can lose it."""
KEPT = 0.5
"""Share of the gain, or of the best value, below which a run has collapsed."""
PATIENCE = 3
"""Consecutive evaluations that must agree."""
MIN_EVALUATIONS = WINDOW + 1
"""Evaluations without which a run may have collapsed although nothing shows it: the last smoothed
value still has the init's success in it."""

BASELINE_STEPS = 10
STD_SHARE = 0.1
STD_PATIENCE = 10
LOWEST_SUCCESS = 0.01
LOWEST_PATIENCE = 5

_TIE = 1e-9
"""Two numbers that differ by less are equal: 0.6 - 0.5 is a gain of 0.10, whatever its bits."""

Curve = Sequence[float | None]


def smoothed(curve: Curve, window: int = WINDOW) -> list[float | None]:
    """Trailing means: `m_t = mean(s_{t-w+1}, ..., s_t)`, over fewer values at the beginning.

    Args:
        curve: Values, None or NaN where there is none.
        window: Values of a mean, w; at least 1.

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
    """Where a success curve collapses.

    With the success before training `s_0` (the first value), the smoothed curve `m_t` (w = 3) and
    its running best `b_t`, the run is collapsed at t if either

    - it had learned something, `b_t - s_0 >= 0.10`, and has lost at least half of that:
      `m_t <= s_0 + 0.5 (b_t - s_0)` holds for at least 3 consecutive evaluations, t among them; or
    - it has lost half of all it could: `m_t <= 0.5 b_t`, where `b_t >= 0.10`.

    The collapse step is the first such t: the beginning of the stretch. The second rule needs no
    gain, since a run that falls from a good init to nothing has collapsed; its `b_t >= 0.10` keeps
    out curves that are never far enough above 0 for a half to mean anything.

    On few episodes noise alone looks like collapse. Of runs whose true success stays at 12%, the
    rule calls 51% collapsed after 11 validations on 30 episodes, 5% on 100, 1% on 144 and 0.3% on
    200; after 41 validations, 30% on 100 and 0.2% on 256
    (`tests/benchmarks/scripts/false_collapses.py`).

    Source: this project's definition, after the drawdown of Chan et al. (ICLR 2020,
    arXiv:1912.05663), section 3, on a smoothed curve.

    Args:
        success: Success rates on one validation panel, the init's first, each in [0, 1].
        from_start: Whether the first one is the init's. If it is not, nobody knows what was gained,
            and the second rule alone is looked at.

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
    """Where the loss behind a collapse is first seen: no later than `collapse_step`.

    A smoothed curve lags. The fall is the earliest of the values that `m_t` at the collapse is a
    mean of that is itself at or below the level lost there: half of the best smoothed value, or
    half of the gain where that is at least 0.10.

    Source: this project's definition.

    Args:
        success: As for `collapse_step`, the init's first.

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
    """Whether a success curve ends at half of its best value or below, which was 0.10 or more.

    Not smoothed: the rules of collapse look at a mean over 3 evaluations, which does not see a late
    loss. Of a run that has collapsed this says nothing new.

    Source: this project's definition.

    Args:
        success: As for `collapse_step`.
    """
    known = [value for value in success if _measured(value)]
    return bool(known) and known[-1] <= KEPT * max(known) >= KEPT * LEARNED


def halved_on(run: RunCurves) -> tuple[str, ...]:
    """Panels on which a run is `halved`; the mean over all of a run on several tasks is empty."""
    found = [(*name.partition("@"), points) for name, points in run.curves.items()]
    return tuple(
        panel
        for curve, _, panel, points in found
        if curve == SUCCESS and halved(points.values.tolist())
    )


def format_collapse_step(valid: Curve) -> int | None:
    """Where valid responses vanish: below half of their best share for 3 evaluations in a row.

    `v_t < 0.5 max(v_k for k <= t)`, not smoothed. A policy can fall silent in this way before its
    success curve shows it (ARLArena describes CISPO on ALFWorld so: gradient norms explode, the
    share of valid formats drops).

    Args:
        valid: Share of responses with a valid action (or format), one value for each evaluation.

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
    """RAGEN's first stop rule: groups have no spread of returns left to learn from.

    The in-group standard deviation stays below 0.1 times the mean of its first 10 updates for 10
    consecutive updates after those. Source: RAGEN (Wang et al., arXiv:2504.20073), its trainer's
    early stopping.

    Args:
        group_std: Mean over groups of the standard deviation of returns in the group, one value
            for each update (`rollout/group_std`).

    Returns:
        Position of the last of the 10, at which training stops; None if it goes on.
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

    Source: as for `reward_std_stop`.

    Args:
        success: Success rates on one validation panel, each in [0, 1].

    Returns:
        Position of the fifth, at which training stops; None if it goes on.
    """
    low = [None if (v := _or_none(value)) is None else v < LOWEST_SUCCESS for value in success]
    stretch = _first_stretch(low, LOWEST_PATIENCE)
    return stretch[-1] if stretch else None


def diverged(made: Curve, skipped: Curve, limit: int) -> str | None:
    """Whether a run has ended because optimizer steps were not finite.

    Skipped steps are counted from the end back to the last update in which one was made, that
    update's included: nobody knows which of its steps came first.

    Args:
        made: Optimizer steps of all updates (`policy/optimizer_steps`).
        skipped: Steps of them that were left out (`policy/skipped_steps`).
        limit: Skipped steps in a row that end a run (`optimization.max_skipped`).

    Returns:
        The reason, as the end of a sentence for people; None if there were fewer.
    """
    count = 0.0
    for steps, left_out in zip(reversed(made), reversed(skipped), strict=True):
        count += left_out if _measured(left_out) else 0
        if steps:
            break
    return skipped_text(limit) if count >= limit else None


def skipped_text(limit: int) -> str:
    """Why a run ends after so many steps that were not finite."""
    return f"{limit} optimizer steps in a row had a loss or gradient that is not finite"


def should_stop(success: Curve, action_ok: Curve = (), group_std: Curve = ()) -> str | None:
    """Whether a run should stop now, by any of the rules above.

    Args:
        success: Success rates of all validations of one panel so far, the init's first.
        action_ok: Shares of responses with an admitted action, of the same validations.
        group_std: In-group standard deviations of returns of all updates so far.

    Returns:
        The reason, as the end of a sentence for people; None if the run may go on.
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
    """Positions of the first `length` flags in a row that are set; None is skipped."""
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
        panel: Whose success counts; by default the first one's, or of a run on several tasks the
            mean over theirs.
    """
    curve = judged_success(log, panel)
    step = collapse_step([success for _, success in curve])
    return None if step is None else curve[step][0]


def fall_update(log: TrainingLog) -> int | None:
    """The update after which a collapsed run is first seen to have fallen (`fall_step`).

    Args:
        log: The run; what success counts is that of `collapse_update`.
    """
    curve = judged_success(log)
    step = fall_step([success for _, success in curve])
    return None if step is None else curve[step][0]


def judged_success(log: TrainingLog, panel: str | None = None) -> list[tuple[int, float]]:
    """Updates and success of the validations that a run is judged by.

    Args:
        log: The run.
        panel: Which panel; None for the first, or the mean over tasks of a run on several.
    """
    if not log.validations:
        return []
    if panel is None and log.several_tasks:
        return log.over_tasks("success")
    return [(line.update, line.success) for line in log.of_panel(panel or log.panels[0])]
