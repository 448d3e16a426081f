"""Aligns several runs of one curve at common positions, for drawing bands over seeds."""

from collections.abc import Sequence

import numpy as np

from benchmark.stats.arrays import Values


def at_common_places(runs: Sequence[tuple[Values, Values]]) -> tuple[Values, Values] | None:
    """All runs at every position that lies within each of them.

    If runs were measured at different positions, values in between are interpolated linearly. The
    shortest run ends all, since the remaining ones would be a selection of survivors.

    Args:
        runs: (k,) positions, ascending, and (k,) values of each run; at least one run.

    Returns:
        (n,) positions and (runs, n) values; None if the runs share no position.
    """
    if not all(x.size for x, _ in runs):
        return None
    first, last = max(x[0] for x, _ in runs), min(x[-1] for x, _ in runs)
    places = np.unique(np.concatenate([x for x, _ in runs]))
    places = places[(places >= first) & (places <= last)]
    if not places.size:
        return None
    return places, np.stack([np.interp(places, x, y) for x, y in runs])
