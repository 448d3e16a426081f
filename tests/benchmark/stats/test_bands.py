"""Runs at the same positions."""

import numpy as np

from benchmark.stats.bands import at_common_places


def test_runs_are_interpolated_where_all_of_them_have_values() -> None:
    first = np.array([0.0, 10.0, 20.0]), np.array([0.0, 1.0, 2.0])
    other = np.array([5.0, 15.0]), np.array([4.0, 6.0])
    found = at_common_places([first, other])
    assert found is not None
    places, values = found
    assert places.tolist() == [5.0, 10.0, 15.0]
    assert values.tolist() == [[0.5, 1.0, 1.5], [4.0, 5.0, 6.0]]


def test_runs_without_a_common_place_have_no_band() -> None:
    none = np.zeros(0)
    assert at_common_places([(np.array([1.0]), np.array([1.0])), (none, none)]) is None
    early, late = np.array([0.0, 1.0]), np.array([2.0, 3.0])
    assert at_common_places([(early, early), (late, late)]) is None
