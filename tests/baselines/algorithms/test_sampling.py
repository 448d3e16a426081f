import pytest
from hypothesis import given
from hypothesis import strategies as st

from baselines.algorithms.sampling import (
    Collected,
    CrossPolicy,
    Dynamic,
    Fill,
    informative,
    keep_informative,
    stale_turn,
)

SAME, MIXED = (10.0, 10.0), (10.0, 0.0)


def test_informative() -> None:
    assert informative((10, 10, 0))
    assert informative((0.1 + 0.2, 0.3))
    assert not informative((9.9, 9.9, 9.9))
    assert not informative((5,))
    assert not informative(())
    assert keep_informative([SAME, MIXED, (0, 0), (1, 2)]) == [1, 3]


def test_outcomes() -> None:
    # Both episodes succeed, but one takes more steps.
    returns, successes = [10.4, 10.1], [True, True]
    assert informative(Dynamic(criterion="returns").outcomes(returns, successes))
    assert not informative(Dynamic(criterion="success").outcomes(returns, successes))
    assert Dynamic(criterion="success").outcomes([0.3, 0.3], [True, False]) == (1.0, 0.0)


def test_cold_start() -> None:
    sampling = Dynamic(cold_start=15)
    assert [sampling.enabled(update) for update in (1, 15, 16)] == [False, False, True]
    assert Dynamic().enabled(1)


def test_collects_until_there_are_enough() -> None:
    sampling = Dynamic(tries=3)
    assert sampling.collect(3, [SAME, MIXED, SAME, MIXED], 1) == Collected((1, 3), again=True)
    # One group is missing: the second suitable one is not taken.
    assert sampling.collect(1, [SAME, MIXED, MIXED], 2) == Collected((1,), again=False)
    assert sampling.collect(0, [MIXED], 2) == Collected((), again=False)


@pytest.mark.parametrize(("fill", "kept"), [("uniform", (3, 0, 1)), ("smaller", (3,))])
def test_the_last_try(fill: Fill, kept: tuple[int, ...]) -> None:
    sampling = Dynamic(tries=2, fill=fill)
    batch = [SAME, SAME, SAME, MIXED]
    assert sampling.collect(3, batch, 1) == Collected((3,), again=True)
    assert sampling.collect(3, batch, 2) == Collected(kept, again=False)


@given(
    st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=4),
    st.integers(1, 6),
    st.sampled_from(["uniform", "smaller"]),
)
def test_every_loop_ends(batches: list[list[bool]], wanted: int, fill: Fill) -> None:
    sampling = Dynamic(tries=len(batches), fill=fill)
    kept: list[bool] = []
    for attempt, batch in enumerate(batches, 1):
        judged = [MIXED if informative else SAME for informative in batch]
        collected = sampling.collect(wanted - len(kept), judged, attempt)
        assert len(set(collected.kept)) == len(collected.kept)
        kept += [batch[index] for index in collected.kept]
        if not collected.again:
            break
    assert not collected.again
    assert len(kept) <= wanted
    there = sum(map(sum, batches[:attempt]))
    assert sum(kept) == min(wanted, there)
    if fill == "smaller":
        assert all(kept)
    elif len(batches[-1]) >= wanted:
        assert len(kept) == wanted


def test_stale_turns_are_a_share_of_all() -> None:
    drawn = [stale_turn(seed, 0.25) for seed in range(4000)]
    # Three standard deviations for 4000 draws are 0.0205.
    assert abs(sum(drawn) / len(drawn) - 0.25) < 0.0205
    assert drawn == [stale_turn(seed, 0.25) for seed in range(4000)]
    assert not any(stale_turn(seed, 0.0) for seed in range(4000))
    assert all(stale_turn(seed, 1.0) for seed in range(4000))
    # A group drawn at a small share is also drawn at any larger one.
    assert all(stale_turn(seed, 0.5) for seed, stale in enumerate(drawn) if stale)


def test_refresh() -> None:
    due = CrossPolicy(refresh_every=3).refresh_due
    assert [update for update in range(1, 11) if due(update)] == [3, 6, 9]
    assert all(map(CrossPolicy(refresh_every=1).refresh_due, range(1, 4)))
