"""The curves of a training run as the board shows them; long ones are thinned."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmark.logs.curves import Points, RunCurves
from benchmark.logs.equal_progress import progress_of
from benchmark.stability.runs import RunStability
from leaderboard.board.training_rows import SeedCurves, Spark, StoredSeries


@dataclass(frozen=True, slots=True)
class CurveKind:
    """Definition of one curve of a training run.

    Attributes:
        title: Its title on the page.
        unit: Its unit.
        text: Its meaning in one line.
        log_scale: Whether its order of magnitude matters.
    """

    title: str
    unit: str
    text: str
    log_scale: bool = False


CURVES: Final[Mapping[str, CurveKind]] = {
    "success": CurveKind("success", "share", "validation episodes solved"),
    "kl_init": CurveKind("KL to the init", "nats", "k3 estimate, mean over tokens", True),
    "grad_norm": CurveKind("gradient norm", "norm", "before clipping, mean over steps", True),
    "entropy": CurveKind("entropy", "nats", "of the next token, full softmax, mean over tokens"),
    "format": CurveKind("valid format", "share", "validation responses in the required format"),
}
"""The plotted curves of `SeedCurves.series`, by name."""

SIGNALS: Final[Mapping[str, CurveKind]] = {
    "kl_init": CURVES["kl_init"],
    "grad_norm": CURVES["grad_norm"],
    "ratio": CurveKind("token ratio, P99", "ratio", "new to old policy, 99% quantile", True),
    "entropy": CURVES["entropy"],
    "rollout_format": CurveKind(
        "valid format", "share", "training responses in the required format"
    ),
}
"""Numbers of every update that may predict a collapse, by name."""
EPISODES: Final = "episodes"
"""The series of the episodes played before each validation and before the end."""
TOKENS: Final = "tokens"
"""The series of the response tokens sampled since the beginning, by update."""
SECONDS: Final = "seconds"
"""The series of the seconds of compute since the beginning, by update."""
SPARK_POINTS: Final = 24
"""Maximum points of a curve in a table row."""
MAX_POINTS: Final = 400
"""Maximum points of a series on the board, about the width of a page."""

_UPDATES: Final = {
    "kl_init": "kl_init/mean",
    "grad_norm": "policy/grad_norm",
    "entropy": "policy/entropy",
    "ratio": "ratio/p99",
    "rollout_format": "rollout/format_ok",
}
_VALIDATIONS: Final = {"success": "validation/success", "format": "validation/format_ok"}


def seed_curves(
    run: RunCurves, stability: RunStability, panel: str | None, stopped: str | None = None
) -> SeedCurves:
    """The curves of one training run.

    Args:
        run: The curves in its log, with a seed.
        stability: Its stability, computed from them.
        panel: `task/panel` of its validations, if any.
        stopped: Why it was stopped early, if it was.

    Raises:
        ValueError: The run has no seed.
    """
    if run.seed is None:
        raise ValueError(f"{run.name} has no seed")
    series = []
    for name in dict.fromkeys((*CURVES, *SIGNALS)):
        points = run.curves.get(_name(name, stability))
        if points is not None and points.steps.size:
            series.append(_series(name, points))
    if (played := _episodes(run, stability)) is not None:
        series.append(_series(EPISODES, played))
    for name, total in ((TOKENS, run.tokens), (SECONDS, run.seconds)):
        if total is not None and total.steps.size:
            series.append(_series(name, total))
    return SeedCurves(
        seed=run.seed,
        panel=panel,
        collapse_step=stability.collapse.step if stability.collapse else None,
        collapsed=stability.collapse.happened if stability.collapse else None,
        last_step=stability.last_step,
        stopped=stopped,
        series=tuple(series),
    )


def spark_of(curves: SeedCurves) -> Spark:
    """The success curve of a training run, for a table row."""
    found = curves.of("success")
    series = [] if found is None else zip(found.steps, found.values, strict=True)
    known = [(step, value) for step, value in series if math.isfinite(value)]
    steps, values = zip(*known, strict=True) if known else ((), ())
    kept = thinned(Points(np.array(steps, np.int64), np.array(values)), SPARK_POINTS)
    collapse = curves.collapse_step if curves.collapsed else None
    return Spark(curves.seed, tuple(kept.steps.tolist()), tuple(kept.values.tolist()), collapse)


def _name(name: str, stability: RunStability) -> str:
    """A series' name in `RunCurves`; for validations, that of the success curve's panel."""
    if name in _UPDATES:
        return _UPDATES[name]
    _, at, panel = (stability.success_curve or "").partition("@")
    return f"{_VALIDATIONS[name]}{at}{panel}"


def _episodes(run: RunCurves, stability: RunStability) -> Points | None:
    """Episodes played before each validation and before the end; None if not in the log."""
    progress = progress_of(run, _name("success", stability))
    if progress is None or progress.episodes is None or progress.all_episodes is None:
        return None
    played = dict(zip(progress.updates.tolist(), progress.episodes.tolist(), strict=True))
    played[progress.last_update] = progress.all_episodes
    return Points(np.array([*played], np.int64), np.array([*played.values()]))


def _series(name: str, points: Points) -> StoredSeries:
    kept = thinned(points)
    return StoredSeries(
        name=name,
        steps=tuple(kept.steps.tolist()),
        values=tuple(kept.values.tolist()),
        measured=int(points.steps.size),
    )


def thinned(points: Points, most: int = MAX_POINTS) -> Points:
    """Thin a curve for plotting, but keep all peaks and gaps.

    The points between the first and the last one are split into segments of nearly equal length.
    Each keeps its lowest and highest value, the first of several; the first value that is not
    finite replaces one of them, since an overflow matters more than a peak.

    Args:
        points: The curve.
        most: Points to keep, at least 4. A curve with no more points is returned unchanged.
    """
    count = points.steps.size
    if count <= most:
        return points
    keep = {0, count - 1}
    for run in np.array_split(np.arange(1, count - 1), (most - 2) // 2):
        values = points.values[run]
        strange = np.flatnonzero(~np.isfinite(values))
        if strange.size:
            finite = np.where(np.isfinite(values), values, -np.inf)
            keep |= {int(run[strange[0]]), int(run[int(finite.argmax())])}
        else:
            keep |= {int(run[int(values.argmin())]), int(run[int(values.argmax())])}
    places = np.array(sorted(keep))
    return Points(points.steps[places], points.values[places])
