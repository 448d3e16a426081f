"""When a signal leaves its initial range."""

import math

import numpy as np
import pytest

from benchmark.logs.curves import Points
from benchmark.stability.precursors import first_judged, first_movers, median_lead, moved_at

BEGIN = [1.0, 1.2, 0.8, 1.0, 1.1]
"""Median 1.0, farthest 0.2: it has left the range beyond 0.6 from 1.0."""


def points(*values: float) -> Points:
    return Points(np.arange(1, len(values) + 1), np.array(values, np.float64))


@pytest.mark.parametrize(
    ("after", "at"),
    [
        ([1.5, 1.6, 1.5], None),
        ([1.5, 1.7, 1.7], 7),
        ([1.7, 1.5, 0.3, 0.3], 8),  # once is a spike; a fall also counts
        ([1.0, math.inf, math.nan], 7),
        ([1.0, 1.7], None),  # the next value is unknown
    ],
)
def test_it_has_moved_three_times_as_far_twice_in_a_row(after: list[float], at: int | None) -> None:
    assert moved_at(points(*BEGIN, *after)) == at


def test_orders_of_magnitude_by_their_logarithm() -> None:
    begin = [0.1, 1.0, 10.0, 1.0, 1.0]
    assert moved_at(points(*begin, 900.0, 900.0), log_scale=True) is None
    assert moved_at(points(*begin, 1100.0, 1100.0), log_scale=True) == 6
    # Values not above 0 have no logarithm.
    assert moved_at(points(0.0, *begin, 1100.0, 1100.0), log_scale=True) == 7


def test_too_short_or_constant_is_no_move() -> None:
    assert moved_at(points(*BEGIN)) is None
    assert moved_at(points(*[0.3] * 20)) is None
    assert moved_at(points(math.nan, *BEGIN, 9.0, 9.0)) is None


def test_the_first_update_that_is_judged_comes_after_five_and_before_another() -> None:
    assert first_judged(points(*BEGIN, 9.0, 9.0)) == 6
    assert first_judged(points(*BEGIN, 9.0)) is None
    # A value without a logarithm delays it.
    assert first_judged(points(0.0, *BEGIN, 9.0, 9.0), log_scale=True) == 7
    assert first_judged(points(math.nan, *BEGIN, 9.0, 9.0)) is None


def test_who_moved_first_and_how_much_earlier() -> None:
    assert first_movers({"a": 7, "b": 5, "c": None, "d": 5}) == ("b", "d")
    assert first_movers({"a": None}) == ()
    assert (median_lead([2, 9, 4]), median_lead([])) == (4, None)
