"""Labels of figures that do not overlap."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.page.charts import Box, spread_labels, spread_near_labels, unit_of


@pytest.mark.parametrize(
    ("heights", "expected"),
    [
        ([], []),
        ([5.0], [5.0]),
        ([10.0, 30.0], [10.0, 30.0]),
        # Two labels are centered on their mean, in the order of their heights.
        ([11.0, 10.0], [12.5, 8.5]),
        ([10.0, 10.0, 10.0], [6.0, 10.0, 14.0]),
        # The third one moves both.
        ([10.0, 12.0, 14.0], [8.0, 12.0, 16.0]),
    ],
)
def test_labels_by_hand(heights: list[float], expected: list[float]) -> None:
    assert spread_labels(heights, 4) == pytest.approx(expected)


def test_nothing_stands_above_the_top() -> None:
    assert spread_labels([99.0, 100.0], 4, 100) == pytest.approx([96.0, 100.0])


@given(st.lists(st.floats(0, 100), max_size=8), st.floats(0.1, 20))
def test_no_two_are_nearer_than_the_gap(heights: list[float], gap: float) -> None:
    found = spread_labels(heights, gap)
    ordered = sorted(found)
    assert all(b - a >= gap - 1e-6 for a, b in pairwise(ordered))
    # They keep the order of their heights, and their mean stays the same.
    pairs = sorted(zip(heights, found, strict=True))
    assert [at for _, at in pairs] == pytest.approx(ordered)
    assert sum(found) == pytest.approx(sum(heights), abs=1e-6)


def test_labels_far_from_each_other_sideways_stay_where_they_are() -> None:
    boxes = [(0, 10, 10), (50, 60, 10), (55, 65, 10)]
    assert spread_near_labels(boxes, 4) == pytest.approx([10, 8, 12])


def test_labels_on_both_sides_of_a_gap_between_their_points_are_spread() -> None:
    """The points are far apart, but the texts between them are not."""
    boxes: list[Box] = [(0, 45, 8), (42, 60, 10)]
    assert spread_near_labels(boxes, 6) == pytest.approx([6, 12])
    # A long text extends over a short one to the next.
    assert spread_near_labels([(0, 50, 10), (5, 10, 10), (20, 30, 10)], 4) == [6, 10, 14]


def test_units_that_say_nothing_are_not_shown() -> None:
    assert [unit_of(unit) for unit in ("share", "nats", "norm", "ratio", "tokens")] == [
        " (%)", " (nats)", "", "", " (tokens)",
    ]  # fmt: skip
