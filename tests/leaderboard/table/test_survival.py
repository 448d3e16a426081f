"""Intervals for the survival of seeds."""

import pytest

from leaderboard.board.training_rows import Survival
from leaderboard.table.survival import ends_of


def test_a_share_of_all_seeds_has_the_interval_of_the_collapses() -> None:
    # 3 of 3 left: the exact interval is 0.025^(1/3) to 1, which is 29.2% to 100%.
    alive = Survival((40,), (1.0,), (None,), (None,), (3,), (0,))
    ((low, high),) = [pair for pair in ends_of(alive) if pair]
    assert low == pytest.approx(0.025 ** (1 / 3), abs=1e-9)
    assert high == 1
    # 0 of 1 left: up to 97.5%.
    (gone,) = ends_of(Survival((9,), (0.0,), (None,), (None,), (1,), (1,)))
    assert gone is not None and gone[0] == 0
    assert gone[1] == pytest.approx(0.975, abs=1e-9)


def test_after_a_seed_that_was_not_seen_to_the_end_it_is_that_of_kaplan_and_meier() -> None:
    # Of three seeds, one collapses at 10, one is last observed at 20, one collapses at 30.
    found = Survival((10, 20, 30), (2 / 3, 2 / 3, 0.0), (0.05, 0.05, None), (0.9, 0.9, None),
                     (3, 2, 1), (1, 0, 1))  # fmt: skip
    early, later, last = ends_of(found)
    assert early is not None and early[0] > 0.05
    assert later == early
    assert last is None
