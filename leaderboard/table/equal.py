"""Two entries' training runs at equal updates and at equal episodes, from the board's curves."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmark.logs.equal_progress import BY, By, RunProgress, equal_success
from benchmark.stats.intervals import Interval
from benchmark.stats.paired import Side, difference
from leaderboard.board.curves import EPISODES
from leaderboard.board.training_rows import SeedCurves


@dataclass(frozen=True, slots=True)
class EqualMeans:
    """Mean success over the seeds of two entries.

    Attributes:
        by: The quantity that is equal.
        limit: Its amount, that of the shortest training run.
        panel: `task/panel` of the validations.
        first: Success rate of the first entry.
        second: Success rate of the second entry.
        difference: First minus second, with its interval; None if the panel's number of episodes is
            unknown.
    """

    by: By
    limit: int
    panel: str
    first: float
    second: float
    difference: Interval | None


def equal_means(
    first: Sequence[SeedCurves], second: Sequence[SeedCurves], episodes: Mapping[str, int]
) -> tuple[EqualMeans, ...]:
    """Compare two entries; empty if they were not validated on the same panel.

    Args:
        first: Training runs of the first entry.
        second: Training runs of the second entry.
        episodes: Number of episodes by `task/panel`.
    """
    seeds = [*first, *second]
    panels = {seed.panel for seed in seeds}
    panel = panels.pop() if len(panels) == 1 else None
    if panel is None or not first or not second:
        return ()
    runs = [_progress(seed) for seed in seeds]
    means = []
    for by in BY:
        found = equal_success(runs, by)
        if found is not None:
            one, other = found.success[: len(first)], found.success[len(first) :]
            apart = None
            if panel in episodes:
                apart = difference(*(Side.of_rates(each, episodes[panel]) for each in (one, other)))
            means.append(EqualMeans(by, found.limit, panel, _mean(one), _mean(other), apart))
    return tuple(means)


def episodes_of(seeds: Sequence[SeedCurves]) -> float | None:
    """Mean training episodes over an entry's seeds; None if some logs do not show them."""
    found = [seed.of(EPISODES) for seed in seeds]
    known = [played.values[-1] for played in found if played is not None]
    return _mean(known) if known and len(known) == len(found) else None


def _mean(shares: Sequence[float]) -> float:
    return sum(shares) / len(shares)


def _progress(seed: SeedCurves) -> RunProgress | None:
    """A seed's progress; None without validations, or with so many that the board thins them."""
    success, played = seed.of("success"), seed.of(EPISODES)
    if success is None or len(success.steps) < success.measured or seed.last_step is None:
        return None
    before = total = None
    if played is not None and len(played.steps) == played.measured:
        counts = dict(zip(played.steps, played.values, strict=True))
        before = np.array([counts[step] for step in success.steps])
        total = played.values[-1]
    return RunProgress(
        updates=np.array(success.steps, np.float64),
        episodes=before,
        success=np.array(success.values),
        last_update=seed.last_step,
        all_episodes=total,
    )
