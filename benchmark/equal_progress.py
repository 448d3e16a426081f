"""Success of several trainings at equal updates, as papers report it, and at equal episodes.

Methods differ in how many episodes an update plays: dynamic sampling plays more. Who is compared at
equal updates alone gives them away for nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from benchmark.run_curves import RunCurves, Values

By = Literal["updates", "episodes"]
BY: Final[tuple[By, ...]] = ("updates", "episodes")
SUCCESS: Final = "validation/success"
_PLAYED: Final = "rollout/episodes"


@dataclass(frozen=True, slots=True)
class EqualSuccess:
    """Several runs after the same updates or episodes.

    Attributes:
        by: What is equal.
        limit: How many: as many as the shortest of the runs has.
        updates: Of every run the update of its last validation within the limit; 0 is the init.
        success: What that validation says, a share.
    """

    by: By
    limit: int
    updates: tuple[int, ...]
    success: tuple[float, ...]


def equal_success(
    runs: Sequence[RunCurves], by: By, names: Sequence[str] | None = None
) -> EqualSuccess | None:
    """Success of runs at their last validation within the smallest number that all of them have.

    Args:
        runs: At least one.
        by: `updates`, or `episodes` that were played, resampled ones included.
        names: Name of each run's curve of success; `validation/success` by default.

    Returns:
        None if a run was not validated within the limit, or does not say how many episodes each of
        its updates has played.
    """
    named = names or [SUCCESS] * len(runs)
    totals: list[float] = []
    places: list[Values] = []
    for run, name in zip(runs, named, strict=True):
        played = _played(run) if by == "episodes" else np.arange(_last(run) + 1, dtype=np.float64)
        if played is None or name not in run.curves:
            return None
        totals.append(float(played[-1]))
        places.append(played[run.curves[name].finite.steps])
    limit, updates, success = min(totals), [], []
    for run, name, place in zip(runs, named, places, strict=True):
        within = np.flatnonzero(place <= limit)
        if not within.size:
            return None
        points = run.curves[name].finite
        updates.append(int(points.steps[within[-1]]))
        success.append(float(points.values[within[-1]]))
    return EqualSuccess(by, int(limit), tuple(updates), tuple(success))


def equal_text(
    recipes: Mapping[str, Sequence[RunCurves]], names: Sequence[str] | None = None
) -> str:
    """What recipes come to at equal updates and at equal episodes: mean success over their seeds.

    Args:
        recipes: Runs of every recipe, by its label, which is foreign text.
        names: Name of each run's curve of success, in the same order.

    Returns:
        A line for each; what cannot be said is left out. Empty for a single recipe.
    """
    if len(recipes) < 2:
        return ""
    lines = []
    for by in BY:
        found = equal_success([run for runs in recipes.values() for run in runs], by, names)
        if found is not None:
            left = list(found.success)
            parts = []
            for label, runs in recipes.items():
                own, left = left[: len(runs)], left[len(runs) :]
                parts.append(f"{label} {sum(own) / len(own):.1%}")
            lines.append(f"success after {found.limit:,} {by} each: {', '.join(parts)}")
    return "\n".join(lines)


def _last(run: RunCurves) -> int:
    """The last update that a run knows of."""
    return max(
        (int(points.steps[-1]) for points in run.curves.values() if points.steps.size), default=0
    )


def _played(run: RunCurves) -> Values | None:
    """Episodes played up to every update, from 0; None if an update does not say how many."""
    points, last = run.curves.get(_PLAYED), _last(run)
    if points is None or points.finite.steps.tolist() != list(range(1, last + 1)):
        return None
    return np.concatenate([[0.0], np.cumsum(points.values)])
