"""Curves and runs written by hand."""

from collections.abc import Mapping, Sequence

import numpy as np

from benchmark.logs.curves import Points, RunCurves


def points(values: Sequence[float], steps: Sequence[int] | None = None, every: int = 1) -> Points:
    """A curve with one value per interval from update 0 on, unless the updates are given."""
    at = range(0, every * len(values), every) if steps is None else steps
    return Points(np.array(at, np.int64), np.array(values, np.float64))


def run(
    curves: Mapping[str, Points],
    seed: int | None = 0,
    tokens: Points | None = None,
    seconds: Points | None = None,
) -> RunCurves:
    return RunCurves(f"run {seed}", "arlarena-bench", "grpo", seed, curves, tokens, seconds)
