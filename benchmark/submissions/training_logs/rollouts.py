"""Compares a log's validations with its rollouts: two measurements of one policy."""

from typing import Final

import numpy as np

from benchmark.logs.curves import run_curves_of
from benchmark.logs.training_log import TrainingLog
from benchmark.stability.collapse import KEPT, LEARNED, halved_on
from benchmark.stability.run_end import collapsed_at, early_stop
from benchmark.stats.formatting import percent_text

WINDOW: Final = 5
"""Window in updates for the mean that smooths rollout success."""
_TIE: Final = 1e-9
"""Tolerance for equal values, as for collapses."""


def hidden_fall(log: TrainingLog) -> str | None:
    """Text on a log in which rollouts have lost half of their success, but validations have not.

    Rollouts play other episodes, with sampled tokens, so this is no proof. But none of this
    project's 261 logs is like that (counted on 2026-12-01), while 27 of the 46 that collapsed or
    halved would be if only their validations were changed. So hiding a collapse takes changes here,
    too.

    Args:
        log: The log.

    Returns:
        One line; None if both agree, or if there is too little to compare.
    """
    success = [value for value in log.series("rollout/success") if value is not None]
    if not log.validations or len(success) < 2 * WINDOW:
        return None
    means = np.convolve(success, np.full(WINDOW, 1 / WINDOW), "valid")
    best, last = float(means.max()), float(means[-1])
    if best < LEARNED or last > KEPT * best + _TIE:
        return None
    if (
        collapsed_at(log) is not None
        or early_stop(log) is not None
        or halved_on(run_curves_of(log))
    ):
        return None
    return (
        f"{log.path}: its rollouts fall from {percent_text(best)} to {percent_text(last)} success, "
        "but its validations show no collapse; reviewers may ask about it"
    )
