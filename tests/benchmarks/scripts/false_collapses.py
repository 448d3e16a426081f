"""How often noise alone looks like collapse.

    python -m tests.benchmarks.scripts.false_collapses [--success 0.12] [--runs 40000]

Curves of runs that never change are drawn: in every validation, each episode succeeds
independently with the same probability. Printed is the share that the rule of
`benchmark.stability.collapse` calls collapsed, by episodes of a validation and validations of a
run. Real validations repeat one panel, so that their noise is smaller.
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np

from benchmark.stability.collapse import collapse_step

SIZES = ((30, 11), (100, 11), (144, 11), (200, 11), (100, 41), (256, 41))
"""Episodes of a validation, and validations of a run."""


def false_share(success: float, episodes: int, validations: int, runs: int, seed: int) -> float:
    """The share of simulated runs that are called collapsed.

    Args:
        success: True success rate at all times.
        episodes: Of a validation.
        validations: Of a run, the init's among them.
        runs: Simulated ones.
        seed: Of the draws.
    """
    drawn = np.random.default_rng(seed).binomial(episodes, success, (runs, validations))
    curves = (drawn / episodes).tolist()
    return sum(collapse_step(curve) is not None for curve in curves) / runs


def main(words: Sequence[str]) -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--success", type=float, default=0.12)
    parser.add_argument("--runs", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    for episodes, validations in SIZES:
        share = false_share(given.success, episodes, validations, given.runs, given.seed)
        print(f"{validations} validations on {episodes} episodes: {share:.1%}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
