"""Seeds of an entry that are not the first ones."""

import pytest

from benchmark.submissions.checks.logs import gaps_of


@pytest.mark.parametrize(
    ("seeds", "said"),
    [
        ([0, 1, 2], None),
        ([1, 0], None),
        ([0], None),
        ([7], "the seeds are 7, not 0"),
        ([2, 0], "the seeds are 0, 2, not 0 to 1"),
        # Three of ten, the best ones perhaps.
        ([3, 4, 9], "the seeds are 3, 4, 9, not 0 to 2"),
        ([0, 2**62], f"the seeds are 0, {2**62}, not 0 to 1"),
        (list(range(1, 12)), "the seeds are 1, 2, 3, 4, 5, 6, 7, 8, ..., not 0 to 10"),
    ],
)
def test_seeds_that_are_not_the_first_are_named(seeds: list[int], said: str | None) -> None:
    assert gaps_of(seeds) == (said and f"{said}; reviewers may ask about others")
