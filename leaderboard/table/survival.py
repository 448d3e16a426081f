"""Intervals of the survival of an entry's seeds."""

from benchmark.stats.intervals import exact
from leaderboard.board.training_rows import Survival


def ends_of(found: Survival) -> list[tuple[float, float] | None]:
    """The 95% interval of survival after each step; None where the data do not bound it.

    As long as every seed was observed until the step, survival is a share of the seeds and has the
    exact interval, as for all counts of collapses; later it has the Kaplan-Meier interval.
    """
    seeds, gone, ends = found.at_risk[0], 0, list[tuple[float, float] | None]()
    for place, happened in enumerate(found.happened):
        low, high = found.low[place], found.high[place]
        if found.at_risk[place] == seeds - gone:
            share = exact(seeds - gone - happened, seeds)
            low, high = share.low, share.high
        ends.append(None if low is None or high is None else (low, high))
        gone += happened
    return ends
