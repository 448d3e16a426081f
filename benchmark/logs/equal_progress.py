"""Success of training runs at equal updates, as papers report it, and at equal episodes or seconds.

Methods differ in how many episodes an update plays: dynamic sampling plays more. A comparison only
at equal updates ignores the cost of these episodes.
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
"""The comparisons shown for all runs. Seconds are comparable only between equal machines."""
SUCCESS: Final = "validation/success"
_LABEL: Final = 60
"""Maximum characters of a recipe's label on the terminal."""
_PLAYED: Final = "rollout/episodes"
_SECONDS, _VALIDATION = "seconds/total", "seconds/validation"


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Success of one run as a function of its cost.

    Attributes:
        updates: (T,) updates before each of its validations, ascending; 0 is the init.
        episodes: (T,) episodes played before each, including resampled ones; None unless all of its
            updates state how many they played.
        success: (T,) shares.
        last_update: Updates of the whole run.
        all_episodes: Episodes of the whole run; None likewise.
        seconds: (T,) training time before each validation, without earlier validations; None if the
            log does not state it.
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
        """Cost before each validation, and of the whole run; None if the log does not state it."""
        if by == "updates":
            return self.updates, self.last_update
        if by == "episodes":
            return self.episodes, self.all_episodes
        return self.seconds, self.all_seconds


@dataclass(frozen=True, slots=True)
class EqualSuccess:
    """Success of several runs after the same number of updates, episodes or seconds.

    Attributes:
        by: The quantity that is equal.
        limit: Its amount, that of the shortest run.
        success: Success rate of every run there: interpolated between two validations, constant
            after the last one.
    """

    by: By
    limit: int
    success: tuple[float, ...]


def progress_of(run: RunCurves, success: str = SUCCESS) -> RunProgress | None:
    """A run's progress according to its log.

    Args:
        run: The run.
        success: Name of its success curve.

    Returns:
        The progress; None for a run without validations.
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
    """Success of runs at the largest amount that all of them reach.

    Validations are some updates apart, and a method that plays more episodes per update has fewer
    of them within the limit. Using the last validation before the limit would therefore put it at a
    disadvantage, so success is interpolated.

    Args:
        runs: The runs, at least one.
        by: The quantity that is equal.

    Returns:
        The success; None if a run was not validated within the limit, or within equal episodes only
        its init was, or its log does not state the cost of each update.
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
    # If the first validation after the init is beyond the limit, there is only interpolation.
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
        heads: The equal quantities, such as `15 updates` and `960 episodes`.
        rows: A cell for each of them, by label of the recipe, which is untrusted text.
    """

    heads: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]

    def text(self, head: str) -> str:
        """The table for the terminal.

        Args:
            head: Heading of the labels.
        """
        names = short_names(list(self.rows), _LABEL)
        lines = [[name, *cells] for name, cells in zip(names, self.rows.values(), strict=True)]
        return columns_text([[head, *self.heads]], lines)


def equal_rows(
    recipes: Mapping[str, Sequence[RunCurves]], names: Sequence[str] | None = None
) -> EqualRows | None:
    """Success of recipes at equal updates and at equal episodes.

    Args:
        recipes: Runs of every recipe, by its label.
        names: Name of each run's success curve, in the same order.

    Returns:
        The available comparisons; None if there are none, and for a single recipe.
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
    """The last update in a run's curves."""
    return max(
        (int(points.steps[-1]) for points in run.curves.values() if points.steps.size), default=0
    )


def _played(run: RunCurves) -> Values | None:
    """Cumulative episodes by update, from 0; None if an update does not state how many."""
    points, last = run.curves.get(_PLAYED), _last(run)
    if points is None or points.finite.steps.tolist() != list(range(1, last + 1)):
        return None
    return np.concatenate([[0.0], np.cumsum(points.values)])


def _took(run: RunCurves) -> Values | None:
    """Cumulative seconds of training by update, from 0; None if an update does not state them.

    Validations are excluded: they are not part of training.
    """
    points, last = run.curves.get(_SECONDS), _last(run)
    if points is None or points.finite.steps.tolist() != list(range(1, last + 1)):
        return None
    seconds = points.values.copy()
    if _VALIDATION in run.curves:
        judged = run.curves[_VALIDATION].finite
        seconds[judged.steps - 1] -= judged.values
    return np.concatenate([[0.0], np.cumsum(seconds)])
