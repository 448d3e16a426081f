import math
from difflib import SequenceMatcher

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from baselines.algorithms.advantage.gigpo import (
    discounted_step_returns,
    step_groups,
    step_relative,
)
from tests.baselines.algorithms.usual import gigpo


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def near(actual: Tensor, *expected: float) -> None:
    torch.testing.assert_close(actual, doubles(*expected), rtol=1e-5, atol=1e-6)


def test_discounted_step_returns() -> None:
    # Trajectory 4: rewards 1, 2, 8 in turns 0, 1, 2. Trajectory 9: 4 in turn 1, 16 in turn 3.
    trajectories = torch.tensor([4, 9, 4, 4, 9])
    turns = torch.tensor([2, 1, 0, 1, 3])
    rewards = doubles(8, 4, 1, 2, 16)
    near(discounted_step_returns(rewards, trajectories, turns, 0.5), 8, 8, 4, 6, 16)
    near(discounted_step_returns(rewards, trajectories, turns, 0.0), 8, 4, 1, 2, 16)
    assert discounted_step_returns(rewards.float(), trajectories, turns, 1.0).tolist() == [
        8,
        20,
        11,
        10,
        16,
    ]


def test_a_turn_stands_for_one_row() -> None:
    same = torch.zeros(2, dtype=torch.long)
    with pytest.raises(ValueError, match="trajectory 0 has two rows of turn 0"):
        discounted_step_returns(doubles(1, 2), same, same, 0.9)
    with pytest.raises(ValueError, match=r"must be \(N,\)"):
        discounted_step_returns(doubles(1, 2), same, same[:1], 0.9)


def test_step_groups_are_numbered_by_first_appearance() -> None:
    anchors = ["b", "a", "b", "b", "a", "c"]
    groups = torch.tensor([1, 1, 1, 0, 1, 0])
    assert step_groups(anchors, groups).tolist() == [0, 1, 0, 2, 1, 3]
    with pytest.raises(ValueError, match="2 anchors do not fit"):
        step_groups(["a", "b"], groups)
    assert step_groups([], torch.zeros(0, dtype=torch.long)).tolist() == []


def test_similar_to_the_first_member() -> None:
    # aaab and aaaa have the ratio 2 * 3 / 8; aabb is as close to aaab, but not to the first, aaaa.
    groups = torch.zeros(3, dtype=torch.long)
    anchors = ["aaaa", "aaab", "aabb"]
    assert step_groups(anchors, groups, similarity=0.75).tolist() == [0, 0, 1]
    assert step_groups(anchors, groups, similarity=0.76).tolist() == [0, 1, 2]
    assert step_groups(anchors, groups, similarity=0.5).tolist() == [0, 0, 0]
    across = torch.tensor([0, 1, 1])
    assert step_groups(anchors, across, similarity=0.5).tolist() == [0, 1, 1]


def test_a_row_is_the_first_argument_of_the_comparison() -> None:
    # SequenceMatcher's own example of asymmetry: 0.25 one way, 0.5 the other.
    two = torch.zeros(2, dtype=torch.long)
    assert step_groups(["diet", "tide"], two, similarity=0.5).tolist() == [0, 1]
    assert step_groups(["tide", "diet"], two, similarity=0.5).tolist() == [0, 0]


@given(
    st.lists(st.tuples(st.text("ab ", max_size=6), st.integers(0, 1)), max_size=12),
    st.sampled_from([0.3, 0.5, 0.8, 1.0]),
)
def test_shortcuts_change_nothing(rows: list[tuple[str, int]], similarity: float) -> None:
    firsts: list[tuple[str, int]] = []
    expected = []
    for text, group in rows:
        for number, (first, own) in enumerate(firsts):
            if own == group and SequenceMatcher(None, text, first).ratio() >= similarity:
                expected.append(number)
                break
        else:
            firsts.append((text, group))
            expected.append(len(firsts) - 1)
    groups = torch.tensor([group for _, group in rows], dtype=torch.long)
    found = step_groups([text for text, _ in rows], groups, similarity=similarity)
    assert found.tolist() == expected


# Trajectory 0 won, trajectory 1 lost; rows 0 and 2 started from the same observation.
SCORES = doubles(10, 10, 0, 0)
RETURNS = doubles(9, 10, 0, 0)
IDS = (torch.zeros(4, dtype=torch.long), torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 2]))


def test_gigpo_without_division() -> None:
    both = gigpo(SCORES, RETURNS, *IDS, step_weight=0.5, step_norm="mean")
    near(both, 5 + 2.25, 5, -5 - 2.25, -5)


def test_gigpo_with_division() -> None:
    # Two samples are always half the square root of two from their mean.
    half = math.sqrt(0.5)
    near(gigpo(SCORES, RETURNS, *IDS), 2 * half, half, -2 * half, -half)


def test_gigpo_takes_the_switches_of_the_first_part() -> None:
    scores, groups, trajectories = (
        doubles(10, 9.75, 4),
        torch.tensor([0, 0, 1]),
        torch.tensor([0, 0, 1]),
    )
    alone = torch.arange(3)
    parts = (scores, scores, groups, trajectories, alone)
    near(gigpo(*parts, epsilon=0), 0, 0, 0)
    near(gigpo(*parts, epsilon=0, single="raw"), 10, 9.75, 4)
    half = math.sqrt(0.5)
    near(gigpo(*parts, epsilon=0, over="rows"), half, -half, 0)
    equal = (doubles(10, 9.75, 9.75), *parts[1:2], torch.zeros(3, dtype=torch.long))
    pair = gigpo(
        *equal, torch.tensor([0, 0, 1]), alone, variance="between", epsilon=0, step_weight=0
    )
    # Means 9.875 and 9.75: mean 9.8125, std 0.125 half; rows deviate by 0.1875, -0.0625, -0.0625.
    near(pair, 0.1875 / 0.125 / half, -0.5 / half, -0.5 / half)


def test_a_lone_turn_has_nothing_to_compare() -> None:
    ids = torch.tensor([0, 1, 1, 2])
    near(step_relative(doubles(9, 4, 2, -1), ids, norm="mean"), 0, 1, -1, 0)
    equal = torch.full((8,), 9.9)
    same = torch.zeros(8, dtype=torch.long)
    assert step_relative(equal, same, norm="mean_std").eq(0).all()
