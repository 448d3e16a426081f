"""The bound that the floor benchmarks print, against cases scheduled by hand."""

import pytest

from tests.benchmarks.floors.places import place_share


@pytest.mark.parametrize(
    ("turns", "places", "share"),
    [
        ([2, 2], 2, 1.0),
        ([3, 1, 1, 1], 2, 1.0),
        # Two places: 1 and 1 end together, then 3 runs alone: 5 of 8.
        ([1, 1, 3], 2, 0.625),
        ([4], 4, 0.25),
    ],
)
def test_places_are_filled_in_order(turns: list[int], places: int, share: float) -> None:
    assert place_share(turns, places) == share
