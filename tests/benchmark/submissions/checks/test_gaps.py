"""Seeds that an entry skips."""

import pytest

from benchmark.submissions.checks.logs import gaps_of


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ([0, 1, 2], None),
        ([7], None),
        ([2, 0], "the entry skips seeds 1; reviewers may ask why"),
        ([0, 1, 4], "the entry skips seeds 2, 3; reviewers may ask why"),
        # Chosen at random, they say nothing.
        ([0, 2**62], None),
        ([42, 20260101], None),
    ],
)
def test_a_few_seeds_between_others_are_named(seeds: list[int], said: str | None) -> None:
    assert gaps_of(seeds) == said
