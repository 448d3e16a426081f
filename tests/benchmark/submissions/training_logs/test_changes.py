"""Logs whose numbers rise and fall together are copies, whatever their digits."""

import numpy as np
import pytest

from benchmark.submissions.training_logs.changes import (
    FEWEST_UPDATES,
    MAX_NUMBERS,
    MAX_UPDATES,
    Changes,
    alike_changes,
    changes_text,
    copied_changes,
)

Row = dict[str, float]
NAMES = [f"n{number}" for number in range(8)]


def drawn(seed: int, updates: int = 20) -> list[Row]:
    """Numbers on a common trend."""
    noise = np.random.default_rng(seed).standard_normal((updates, len(NAMES)))
    return [
        {name: 5.0 * at + 10.0 * each for name, each in zip(NAMES, row, strict=True)}
        for at, row in enumerate(noise.tolist())
    ]


def other(rows: list[Row], seed: int, noise: float) -> list[Row]:
    draw = np.random.default_rng(seed)
    return [{n: v * (1 + noise * draw.standard_normal()) for n, v in row.items()} for row in rows]


@pytest.mark.parametrize("noise", [1e-5, 1e-3, 1e-2])
def test_noise_on_all_digits_hides_no_copy(noise: float) -> None:
    rows = drawn(0)
    copy = [{n: 3.0 + 2.0 * v for n, v in row.items()} for row in other(rows, 1, noise)]
    assert copied_changes(Changes.of(copy), Changes.of(rows)) == (8, 8)


def test_runs_on_one_trend_are_no_copies() -> None:
    for seed in range(50):
        one, another = (Changes.of(drawn(each)) for each in (2 * seed, 2 * seed + 1))
        found = alike_changes(one, another)
        assert found is not None
        assert found[0] <= 1
        assert copied_changes(one, another) is None


def test_most_numbers_make_a_copy_and_half_of_them_none() -> None:
    rows, own = drawn(0), drawn(1)
    for taken, expected in ((5, (5, 8)), (4, None)):
        mixed = [
            {**mine, **{name: row[name] for name in NAMES[:taken]}}
            for mine, row in zip(own, rows, strict=True)
        ]
        assert copied_changes(Changes.of(mixed), Changes.of(rows)) == expected


def test_a_part_of_a_run_and_one_with_gaps_are_copies() -> None:
    rows = drawn(0, 40)
    assert copied_changes(Changes.of(rows[:15]), Changes.of(rows)) == (8, 8)
    gaps = [dict(row) for row in rows]
    for at, row in enumerate(gaps[1:]):
        del row[NAMES[at % len(NAMES)]]  # each number is missing in every eighth update
    found = copied_changes(Changes.of(gaps), Changes.of(rows))
    assert found is not None


def test_little_says_nothing() -> None:
    few = Changes.of(drawn(0, FEWEST_UPDATES - 1))
    assert alike_changes(few, few) is None
    none = Changes.of([])
    assert alike_changes(none, none) is None
    # Four numbers that vary, and one that never does.
    still = [{**{name: row[name] for name in NAMES[:4]}, "still": 1.0} for row in drawn(0)]
    assert alike_changes(Changes.of(still), Changes.of(still)) is None


def test_what_is_kept_of_a_log_is_bounded() -> None:
    wide = {f"a@{number:05}": float(number) for number in range(2 * MAX_NUMBERS)} | {"z": 1.0}
    kept = Changes.of([wide] * (MAX_UPDATES + 5))
    assert kept.values.shape == (MAX_UPDATES, MAX_NUMBERS)
    assert kept.names[-1] == "z"


def test_numbers_beyond_all_bounds_are_no_crash() -> None:
    huge = [dict.fromkeys(NAMES, (-1.0) ** at * 1.7e308) for at in range(20)]
    rows = Changes.of(huge)
    assert alike_changes(rows, rows) is not None
    assert (
        changes_text((5, 8), "a/b")
        == "5 of 8 numbers rise and fall from update to update as in a/b"
    )
