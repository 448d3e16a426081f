"""How often intervals of differences contain the truth, and how wide they are.

    python -m tests.benchmarks.scripts.interval_coverage [--rounds 1000]

Two methods that are equally good play the same 256 episodes with some seeds each. Compared are the
interval of `benchmark.stats.paired`, by which claims are judged, and that of
`benchmark.stats.crossed`, with and without seeds that differ (standard deviations of log-odds) and
seeds of the first method that lose everything with some probability. Then the true difference is
what is lost on average.
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from scipy import special

from benchmark.stats.arrays import Values
from benchmark.stats.crossed import crossed_difference
from benchmark.stats.paired import Side, difference

EPISODES = 256
SPREADS = (0.0, 0.1, 0.3, 0.6)
SEEDS = ((3, 3), (5, 3), (5, 5))
COLLAPSES = (0.2, 0.4)


def plays_of(rng: np.random.Generator, levels: Values, spread: float, seeds: int) -> Values:
    """(seeds, episodes) plays, 1 where solved, of episodes with these log-odds."""
    chance = special.expit(levels + rng.normal(0, spread, seeds)[:, None])
    return np.asarray(rng.random(chance.shape) < chance, np.float64)


def coverage(
    rng: np.random.Generator, spread: float, seeds: tuple[int, int], lost: float, rounds: int
) -> tuple[float, float, float]:
    """How often both intervals contain the truth, and the second's width over the first's.

    Args:
        rng: Of all draws.
        spread: Of seeds.
        seeds: Of either method.
        lost: Probability that a seed of the first method solves nothing.
        rounds: Simulated comparisons.
    """
    inside, widths = np.zeros(2), np.zeros(2)
    for _ in range(rounds):
        levels = rng.normal(0, 2, EPISODES)
        first, second = (plays_of(rng, levels, spread, count) for count in seeds)
        first[rng.random(len(first)) < lost] = 0.0
        truth = -lost * float(special.expit(levels + rng.normal(0, spread, (64, 1))).mean())
        usual = difference(*(Side.of(each.T.tolist(), each.mean(1)) for each in (first, second)))
        for place, found in enumerate((usual, crossed_difference([first], [second]))):
            inside[place] += found.low <= truth <= found.high
            widths[place] += found.high - found.low
    return inside[0] / rounds, inside[1] / rounds, widths[1] / widths[0]


def main(words: Sequence[str]) -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(words)
    rng = np.random.default_rng(given.seed)
    cases = [(spread, seeds, 0.0) for spread in SPREADS for seeds in SEEDS]
    cases += [(0.0, seeds, lost) for lost in COLLAPSES for seeds in SEEDS]
    for spread, seeds, lost in cases:
        usual, crossed, width = coverage(rng, spread, seeds, lost, given.rounds)
        print(
            f"spread {spread}, {seeds[0]} and {seeds[1]} seeds, lost {lost:.0%}: {usual:.1%}; "
            f"noise counted once {crossed:.1%}, {width:.2f} times as wide",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
