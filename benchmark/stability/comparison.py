"""Compares recipes over tasks and seeds: IQM, probability of improvement, profiles.

Scores are one number per run, by task, all in one unit (success rates): different units are never
combined. Tasks are the strata of every bootstrap. With few seeds its intervals are too narrow, so
those of a comparison need `LEAST_SEEDS`; checkpoints that were evaluated on the same episodes are
better compared on those (`benchmark.evaluation.compare`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmark.stats.arrays import Values
from benchmark.stats.bootstrap import (
    BootstrapInterval,
    checked,
    drawn,
    estimate,
    percentile_ends,
    percentile_interval,
    sorted_iqm,
)
from benchmark.stats.intervals import RESAMPLES

PROFILE_RESAMPLES = 2_000
LEAST_SEEDS = 5
"""For normal scores, the 95% interval of the IQM contains the true value in 74% of cases with 3
seeds, 89% with 4 and 91% with 5; if three seeds are all better than three others, the interval of
the probability of improvement is [1, 1]."""
_BATCH = 2_000_000  # comparisons made at once: limits memory without affecting results

Scores = Mapping[str, Sequence[float]]
"""Final scores of the runs of one recipe, by task."""


def iqm_over_tasks(scores: Scores, resamples: int = RESAMPLES) -> BootstrapInterval:
    """The interquartile mean of all runs of all tasks, pooled (`bootstrap.sorted_iqm`).

    Every run counts once, so a task with more runs has more weight: give all tasks equally many.

    Source: Agarwal et al. (NeurIPS 2021, arXiv:2108.13264), sections 4.1 and 4.3.

    Args:
        scores: Scores by task.
        resamples: Number of bootstrap draws.

    Returns:
        The mean with its stratified bootstrap interval; None if a task has a single run.

    Raises:
        ValueError: There are no tasks, a task has no runs, or a score is not finite.
    """
    by_task = [runs.tolist() for runs in _checked(scores).values()]
    return estimate(by_task, sorted_iqm, resamples=resamples)


def probability_of_improvement(
    first: Scores, second: Scores, resamples: int = RESAMPLES
) -> BootstrapInterval:
    """Probability that a run of the first recipe is better than one of the second.

    `(1/M) sum_m P(X_m > Y_m)`, where P is the share of pairs of runs on task m that the first
    wins, with ties counting half: the Mann-Whitney statistic divided by the number of pairs. It
    does not show how much better.

    Source: Agarwal et al. (arXiv:2108.13264), section 4.3.

    Swapping the recipes gives one minus the result, including the ends of the interval.

    Args:
        first: Scores of the first recipe, by task.
        second: Scores of the second recipe on the same tasks.
        resamples: Number of bootstrap draws, even; both recipes' runs are resampled.

    Returns:
        A share, 0.5 for equals; no interval if a recipe has a single run on a task.

    Raises:
        ValueError: The tasks differ, there are none, a task has no runs, or a score is not finite.
    """
    if first.keys() != second.keys():
        raise ValueError(f"scores of different tasks: {sorted(first)} and {sorted(second)}")
    ones, others = _checked(first), _checked(second)
    # An order that does not depend on which recipe is the first.
    tasks = sorted(ones, key=lambda m: (*sorted((ones[m].tolist(), others[m].tolist())), m))
    pairs = [(ones[task], others[task]) for task in tasks]
    value = float(np.mean([_wins(x[None], y[None])[0] for x, y in pairs]))
    if min(min(x.size, y.size) for x, y in pairs) < 2:
        return BootstrapInterval(value)
    half = resamples // 2
    draws = np.zeros(2 * half)
    for place, (x, y) in enumerate(pairs):
        rows = max(1, _BATCH // (x.size * y.size))
        # The recipes swap draws in the second half, which makes the result symmetric.
        for begin, one, other in ((0, 2 * place, 2 * place + 1), (half, 2 * place + 1, 2 * place)):
            xs, ys = x[drawn(x.size, half, one)], y[drawn(y.size, half, other)]
            for start in range(0, half, rows):
                part = slice(start, min(start + rows, half))
                draws[begin:][part] += _wins(xs[part], ys[part])
    return percentile_interval(value, draws / len(pairs))


def _wins(xs: Values, ys: Values) -> Values:
    """Share of pairs that the first wins, with ties counting half: (R, n) and (R, k) to (R,)."""
    gaps = xs[:, :, None] - ys[:, None, :]
    shares: Values = ((np.sign(gaps) + 1) / 2).mean(axis=(1, 2))
    return shares


@dataclass(frozen=True, slots=True)
class PerformanceProfile:
    """Share of runs above a score, as a function of the score.

    Attributes:
        thresholds: (P,) scores tau.
        share: (P,) share of runs above each.
        low: (P,) lower ends of the pointwise intervals; None if a task has a single run.
        high: (P,) upper ends, likewise.
    """

    thresholds: Values
    share: Values
    low: Values | None
    high: Values | None


def performance_profile(
    scores: Scores,
    thresholds: Sequence[float],
    resamples: int = PROFILE_RESAMPLES,
) -> PerformanceProfile:
    """The run-score distribution: `F(tau) = mean(1[s > tau])` over all runs of all tasks.

    One recipe is better than another wherever its profile lies above.

    Source: Agarwal et al. (arXiv:2108.13264), section 4.2.

    Args:
        scores: Scores by task.
        thresholds: Scores tau, in any order.
        resamples: Number of bootstrap draws.

    Raises:
        ValueError: There are no tasks, a task has no runs, or a score is not finite.
    """
    runs = sorted(_checked(scores).values(), key=lambda scores: scores.tolist())
    places = np.array(thresholds, np.float64)
    total = sum(task.size for task in runs)
    # Scores of a task are sorted: those above tau are the ones from `above` on.
    above = [np.searchsorted(task, places, side="right") for task in runs]
    counts = [task.size - at for task, at in zip(runs, above, strict=True)]
    share: Values = np.sum(counts, axis=0) / total
    if min(task.size for task in runs) < 2:
        return PerformanceProfile(places, share, None, None)
    draws = np.zeros((resamples, places.size))
    for number, (task, at) in enumerate(zip(runs, above, strict=True)):
        positions = drawn(task.size, resamples, number)
        for place, first in enumerate(at):
            draws[:, place] += (positions >= first).sum(axis=1)
    low, high = percentile_ends(draws / total)
    return PerformanceProfile(places, share, np.minimum(low, share), np.maximum(high, share))


@dataclass(frozen=True, slots=True)
class RecipeComparison:
    """Comparison of recipes on the same tasks.

    Attributes:
        tasks: The tasks of the scores.
        labels: The recipes, at least two.
        seeds: Number of runs of each recipe, over all tasks.
        iqm: Interquartile mean of each recipe.
        improvement: Probability that a run of the first recipe is better than one of each; None for
            the first recipe itself, and if either has a single run on a task.
        profiles: Performance profile of each, all at the same thresholds.
    """

    tasks: tuple[str, ...]
    labels: tuple[str, ...]
    seeds: tuple[int, ...]
    iqm: tuple[BootstrapInterval, ...]
    improvement: tuple[BootstrapInterval | None, ...]
    profiles: tuple[PerformanceProfile, ...]


def comparison_of(recipes: Mapping[str, Scores]) -> RecipeComparison:
    """Compare the first recipe with all others, without intervals below `LEAST_SEEDS` seeds.

    Args:
        recipes: Success rates of each recipe, all on the same tasks.

    Raises:
        ValueError: There are fewer than two recipes, or see `probability_of_improvement`.
    """
    if len(recipes) < 2:
        raise ValueError("a comparison takes two recipes")
    first, *others = recipes.values()
    scores = [score for of in recipes.values() for runs in of.values() for score in runs]
    # Profiles change only at these values, so nothing is lost.
    thresholds = sorted({0.0, 1.0, *scores})
    enough = [min(map(len, of.values())) >= LEAST_SEEDS for of in recipes.values()]
    iqms = map(iqm_over_tasks, recipes.values())
    wins = (_improvement(first, of) for of in others)
    profiles = (performance_profile(of, thresholds) for of in recipes.values())
    return RecipeComparison(
        tasks=tuple(first),
        labels=tuple(recipes),
        seeds=tuple(sum(map(len, of.values())) for of in recipes.values()),
        iqm=tuple(
            found if many else BootstrapInterval(found.value)
            for found, many in zip(iqms, enough, strict=True)
        ),
        improvement=(
            None,
            *(
                found if found is None or (enough[0] and many) else BootstrapInterval(found.value)
                for found, many in zip(wins, enough[1:], strict=True)
            ),
        ),
        profiles=tuple(
            found if many else replace(found, low=None, high=None)
            for found, many in zip(profiles, enough, strict=True)
        ),
    )


def _improvement(first: Scores, second: Scores) -> BootstrapInterval | None:
    if min(map(len, [*first.values(), *second.values()])) < 2:
        return None
    return probability_of_improvement(first, second)


def _checked(scores: Scores) -> dict[str, Values]:
    if not scores:
        raise ValueError("no tasks to compare on")
    runs = {task: checked(values) for task, values in scores.items()}
    for task, values in runs.items():
        if not np.isfinite(values).all():
            raise ValueError(f"a score of {task} is not finite")
    return runs
