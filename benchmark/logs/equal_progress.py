"""Success of training runs at equal updates, as papers report it, at equal episodes, and seconds.

Methods differ in how many episodes an update plays: dynamic sampling plays more. Who is compared at
equal updates alone gives them away for nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

import numpy as np

from benchmark.logs.curves import RunCurves
from benchmark.stats.arrays import Values
from benchmark.stats.formatting import columns_text, percent_text
from tasks.texts import counted, short_names

By = Literal["updates", "episodes", "seconds"]
BY: Final[tuple[By, ...]] = ("updates", "episodes")
"""What is shown of all runs. Seconds say something only of runs on equal machines."""
SUCCESS: Final = "validation/success"
_LABEL: Final = 60
"""Characters of a recipe's label on the terminal."""
_PLAYED: Final = "rollout/episodes"
_SECONDS, _VALIDATION = "seconds/total", "seconds/validation"


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Success of one run along what it has spent.

    Attributes:
        updates: (T,) updates before each of its validations, ascending; 0 is the init.
        episodes: (T,) episodes played before each, resampled ones included; None if not all of its
            updates say how many they have played.
        success: (T,) shares.
        last_update: Updates of the whole run.
        all_episodes: Episodes of the whole run; None likewise.
        seconds: (T,) of training before each validation, without earlier ones; None if the log does
            not say.
        all_seconds: Seconds of the whole run; None likewise.
    """

    updates: Values
    episodes: Values | None
    success: Values
    last_update: float
    all_episodes: float | None
    seconds: Values | None = None
    all_seconds: float | None = None

    def places(self, by: By) -> tuple[Values | None, float | None]:
        """What its validations and the whole run have spent; None if the log does not say."""
        if by == "updates":
            return self.updates, self.last_update
        if by == "episodes":
            return self.episodes, self.all_episodes
        return self.seconds, self.all_seconds


@dataclass(frozen=True, slots=True)
class EqualSuccess:
    """Several runs after the same updates, episodes or seconds.

    Attributes:
        by: What is equal.
        limit: How many: as many as the shortest of the runs has.
        success: Of every run there, a share: between two validations interpolated, after the last
            one as it was then.
    """

    by: By
    limit: int
    success: tuple[float, ...]


def progress_of(run: RunCurves, success: str = SUCCESS) -> RunProgress | None:
    """What a log says of it.

    Args:
        run: The log.
        success: Name of its curve of success.

    Returns:
        None for a run without validations.
    """
    if success not in run.curves:
        return None
    points, last = run.curves[success].finite, _last(run)
    played, took = _played(run), _took(run)
    return RunProgress(
        updates=points.steps.astype(np.float64),
        episodes=None if played is None else played[points.steps],
        success=points.values,
        last_update=last,
        all_episodes=None if played is None else float(played[last]),
        seconds=None if took is None else took[points.steps],
        all_seconds=None if took is None else float(took[last]),
    )


def equal_success(runs: Sequence[RunProgress | None], by: By) -> EqualSuccess | None:
    """Success of runs at the smallest number that all of them have.

    Validations are some updates apart, and a method that plays more in an update has fewer within
    the limit: taken at the last one before it, it would be judged by less than the others.

    Args:
        runs: At least one.
        by: What is equal.

    Returns:
        None if a run was not validated within the limit, or after equal episodes only its init was,
        or its log does not say how much each of its updates has spent.
    """
    totals: list[float] = []
    places: list[tuple[RunProgress, Values]] = []
    for run in runs:
        place, total = (None, None) if run is None else run.places(by)
        if run is None or place is None or total is None:
            return None
        totals.append(total)
        places.append((run, place))
    limit = min(totals)
    if any(not place.size or place[0] > limit for _, place in places):
        return None
    # Between the init and a first validation beyond the limit lies a line and no measurement.
    if by == "episodes" and any(_only_init(place, limit) for _, place in places):
        return None
    success = (float(np.interp(limit, place, run.success)) for run, place in places)
    return EqualSuccess(by, int(limit), tuple(success))


def _only_init(place: Values, limit: float) -> bool:
    return bool(place[0] == 0 and limit > 0 and not (place[1:] <= limit).any())


@dataclass(frozen=True, slots=True)
class EqualRows:
    """Mean success of recipes over their seeds, at equal updates and at equal episodes.

    Attributes:
        heads: What is equal, such as `15 updates` and `960 episodes`.
        rows: A cell for each of them, by label of the recipe, which is foreign text.
    """

    heads: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]

    def text(self, head: str) -> str:
        """The table for the terminal.

        Args:
            head: Of the labels.
        """
        names = short_names(list(self.rows), _LABEL)
        lines = [[name, *cells] for name, cells in zip(names, self.rows.values(), strict=True)]
        return columns_text([[head, *self.heads]], lines)


def equal_rows(
    recipes: Mapping[str, Sequence[RunCurves]], names: Sequence[str] | None = None
) -> EqualRows | None:
    """What recipes come to at equal updates and at equal episodes.

    Args:
        recipes: Runs of every recipe, by its label.
        names: Name of each run's curve of success, in the same order.

    Returns:
        What can be said of them; None if nothing can be, and for a single recipe.
    """
    together = [run for runs in recipes.values() for run in runs]
    curves = names or [SUCCESS] * len(together)
    progress = [progress_of(run, name) for run, name in zip(together, curves, strict=True)]
    columns = [found for by in BY if (found := equal_success(progress, by))]
    if len(recipes) < 2 or not columns:
        return None
    rows, at = {}, 0
    for label, runs in recipes.items():
        own = slice(at, at + len(runs))
        rows[label] = tuple(percent_text(fmean(each.success[own])) for each in columns)
        at += len(runs)
    heads = (counted(f"{each.limit:,}", each.by.removesuffix("s")) for each in columns)
    return EqualRows(tuple(heads), rows)


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


def _took(run: RunCurves) -> Values | None:
    """Seconds of training up to every update, from 0; None if an update does not say how many.

    Validations are left out: they are not part of a training run.
    """
    points, last = run.curves.get(_SECONDS), _last(run)
    if points is None or points.finite.steps.tolist() != list(range(1, last + 1)):
        return None
    seconds = points.values.copy()
    if _VALIDATION in run.curves:
        judged = run.curves[_VALIDATION].finite
        seconds[judged.steps - 1] -= judged.values
    return np.concatenate([[0.0], np.cumsum(seconds)])
