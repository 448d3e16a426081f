import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from baselines.algorithms.advantage.groups import Over
from baselines.algorithms.advantage.reinforce_pp import reinforce_plus_plus
from baselines.algorithms.advantage.rloo import leave_one_out
from baselines.algorithms.masked import masked_whiten, task_normalized
from tests.baselines.algorithms.usual import group_relative

OVERS: tuple[Over, ...] = ("trajectories", "rows")


def doubles(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def ids(*values: int) -> Tensor:
    return torch.tensor(values)


def near(actual: Tensor, *expected: float) -> None:
    torch.testing.assert_close(actual, doubles(*expected), rtol=1e-5, atol=1e-6)


# One group: a trajectory of three rows with return 10 and one of a single row with return 0.
UNEVEN = (doubles(10, 10, 10, 0), ids(7, 7, 7, 7), ids(3, 3, 3, 5))


def test_grpo_counts_trajectories_once() -> None:
    # Samples 10 and 0: mean 5, std sqrt(50).
    near(group_relative(*UNEVEN), *[math.sqrt(0.5)] * 3, -math.sqrt(0.5))
    near(group_relative(*UNEVEN, divide_by_std=False), 5, 5, 5, -5)


def test_grpo_over_rows() -> None:
    # Samples 10, 10, 10, 0: mean 7.5, std 5.
    near(group_relative(*UNEVEN, over="rows"), 0.5, 0.5, 0.5, -1.5)
    near(group_relative(*UNEVEN, over="rows", divide_by_std=False), 2.5, 2.5, 2.5, -7.5)


def test_epsilon_is_added_to_the_standard_deviation() -> None:
    near(group_relative(*UNEVEN, over="rows", epsilon=5.0), 0.25, 0.25, 0.25, -0.75)


def test_penalties_within_trajectories_belong_to_the_spread() -> None:
    # Means 9.95 and 10: variance between 0.00125, mean variance within 0.0025 / 2.
    scores = doubles(10, 9.9, 10, 10)
    groups, trajectories = ids(0, 0, 0, 0), ids(0, 0, 1, 1)
    near(group_relative(scores, groups, trajectories, epsilon=0), 0.5, -1.5, 0.5, 0.5)
    root = math.sqrt(0.00125)
    between = group_relative(scores, groups, trajectories, variance="between", epsilon=0)
    near(between, 0.025 / root, -0.075 / root, 0.025 / root, 0.025 / root)


def test_equal_trajectories_of_unlike_rows() -> None:
    scores = doubles(10, 9.75, 10, 9.75)
    rows = (scores, ids(0, 0, 0, 0), ids(0, 0, 1, 1))
    near(group_relative(*rows, epsilon=0), 1, -1, 1, -1)
    # The released code divides by epsilon alone.
    near(group_relative(*rows, variance="between"), 125e3, -125e3, 125e3, -125e3)


def test_single_samples() -> None:
    # Group 0: one trajectory of two rows. Group 1: one of one row.
    rows = (doubles(10, 9.9, 4), ids(0, 0, 1), ids(0, 0, 1))
    near(group_relative(*rows), 0, 0, 0)
    near(group_relative(*rows, single="raw", epsilon=0), 10, 9.9, 4)
    near(group_relative(*rows, single="raw", epsilon=1), 5, 4.95, 2)
    near(group_relative(*rows, single="raw", divide_by_std=False), 10, 9.9, 4)
    # Over rows the first group has two samples: mean 9.95, std 0.0707.
    half = math.sqrt(0.5)
    near(group_relative(*rows, over="rows", epsilon=0), half, -half, 0)
    near(group_relative(*rows, over="rows", single="raw", epsilon=0), half, -half, 4)


@pytest.mark.parametrize("over", OVERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equal_scores_give_exactly_zero(over: Over, dtype: torch.dtype) -> None:
    scores = torch.full((8,), 9.9, dtype=dtype)
    groups, trajectories = torch.zeros(8, dtype=torch.long), ids(0, 0, 0, 1, 1, 2, 2, 2)
    advantages = group_relative(scores, groups, trajectories, over=over)
    assert advantages.dtype == dtype
    assert advantages.eq(0).all()
    assert leave_one_out(scores, groups, trajectories).eq(0).all()
    # The same rewards summed in another order.
    scores[3] = torch.nextafter(scores[3], torch.tensor(torch.inf, dtype=dtype))
    assert group_relative(scores, groups, trajectories, over=over).eq(0).all()


def test_small_differences_that_are_real_are_kept() -> None:
    scores = torch.tensor([9.9, 9.9, 9.8999])
    advantages = group_relative(scores, ids(0, 0, 0), ids(0, 1, 2), epsilon=0)
    torch.testing.assert_close(
        advantages, torch.tensor([1, 1, -2]) / math.sqrt(3), rtol=1e-2, atol=0
    )


def test_not_a_number_stays_visible() -> None:
    scores = doubles(math.nan, 1, 2, 4)
    advantages = group_relative(scores, ids(0, 0, 1, 1), ids(0, 1, 2, 3))
    assert advantages.isnan().tolist() == [True, True, False, False]


Rows = list[tuple[int, int, int]]
rollouts: st.SearchStrategy[Rows] = st.lists(
    # Group, trajectory within it, score in tenths.
    st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-20, 100)),
    min_size=1,
    max_size=24,
)


def tensors(rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    groups = ids(*(row[0] for row in rows))
    trajectories = ids(*(10 * row[0] + row[1] for row in rows))
    return doubles(*(row[2] / 10 for row in rows)), groups, trajectories


@given(rollouts, st.sampled_from(OVERS), st.integers(0, 9))
def test_order_and_company_do_not_matter(rows: Rows, over: Over, seed: int) -> None:
    scores, groups, trajectories = tensors(rows)
    together = group_relative(scores, groups, trajectories, over=over)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    shuffled = group_relative(scores[order], groups[order], trajectories[order], over=over)
    torch.testing.assert_close(shuffled, together[order], rtol=1e-6, atol=1e-6)
    for group in groups.unique():
        own = groups == group
        alone = group_relative(scores[own], groups[own], trajectories[own], over=over)
        torch.testing.assert_close(alone, together[own], rtol=1e-6, atol=1e-6)


@given(rollouts)
def test_samples_are_centered_and_scaled(rows: Rows) -> None:
    scores, groups, trajectories = tensors(rows)
    advantages = group_relative(scores, groups, trajectories, over="rows", epsilon=0)
    for group in groups.unique():
        own = advantages[groups == group]
        assert abs(float(own.mean())) < 1e-9
        if own.any():
            assert math.isclose(float(own.std()), 1, rel_tol=1e-9)


@given(rollouts)
def test_no_row_is_blown_up(rows: Rows) -> None:
    scores, groups, trajectories = tensors(rows)
    advantages = group_relative(scores, groups, trajectories, epsilon=0)
    for row, advantage in enumerate(advantages.tolist()):
        count = len(trajectories[groups == groups[row]].unique())
        length = int((trajectories == trajectories[row]).sum())
        assert abs(advantage) <= math.sqrt(count * length) + 1e-9


def test_leave_one_out() -> None:
    # Trajectories 10 (two rows), 4 and 1; a second group of one; a third of two.
    scores = doubles(10, 4, 10, 1, 7, 3, 5)
    groups, trajectories = ids(0, 0, 0, 0, 1, 2, 2), ids(0, 1, 0, 2, 3, 4, 5)
    near(leave_one_out(scores, groups, trajectories), 7.5, -1.5, 7.5, -6, 0, -2, 2)


def test_leave_one_out_of_a_lone_trajectory() -> None:
    near(leave_one_out(doubles(10, 9, 4), ids(0, 0, 1), ids(0, 0, 1)), 0, 0, 0)


def test_leave_one_out_counts_a_trajectory_by_its_mean() -> None:
    # The baseline of the second trajectory is (10 + 9) / 2.
    advantages = leave_one_out(doubles(10, 9, 2), ids(0, 0, 0), ids(0, 0, 1))
    near(advantages, 8, 7, -7.5)


@given(st.lists(st.integers(-20, 100), min_size=2, max_size=10))
def test_leave_one_out_is_the_mean_baseline_rescaled(tenths: list[int]) -> None:
    scores = doubles(*(value / 10 for value in tenths))
    n = len(tenths)
    rows = (scores, torch.zeros(n, dtype=torch.long), torch.arange(n))
    expected = group_relative(*rows, divide_by_std=False) * n / (n - 1)
    torch.testing.assert_close(leave_one_out(*rows), expected, rtol=1e-9, atol=1e-9)


def test_reinforce_plus_plus() -> None:
    # Returns 1 2 4 and 1 - 2: the tool's output in the middle is not discounted.
    rewards = torch.tensor([[0, 0, 4], [0, torch.nan, 2]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1], [1, 0, 1]])
    advantages = reinforce_plus_plus(rewards, mask, gamma=0.5, epsilon=0)
    # Mean 2, squared deviations 1 0 4 1 0.
    step = 1 / math.sqrt(6 / 4)
    near(advantages[0], -step, 0, 2 * step)
    near(advantages[1], -step, 0, 0)


def test_task_normalized() -> None:
    advantages = torch.tensor([[1, 3.0], [10, 9], [30, 9], [5, 5]], dtype=torch.float64)
    mask = torch.tensor([[1, 1], [1, 0], [1, 0], [1, 1]])
    normalized = task_normalized(advantages, mask, ids(4, 2, 2, 9), epsilon=0)
    half = math.sqrt(0.5)
    near(normalized.flatten(), -half, half, -half, 0, half, 0, 0, 0)


def test_task_normalized_weighs_tokens() -> None:
    # One token with 4, three tokens with 0: mean 1, variance 12 / 3.
    advantages = torch.tensor([[4.0, 0, 0], [0, 0, 0]], dtype=torch.float64)
    mask = torch.tensor([[1, 0, 0], [1, 1, 1]])
    normalized = task_normalized(advantages, mask, ids(0, 0), epsilon=0)
    near(normalized.flatten(), 1.5, 0, 0, -0.5, -0.5, -0.5)


def test_whitening_by_hand() -> None:
    values = torch.tensor([[1.0, 2, 6], [torch.inf, 3, 8]])
    mask = torch.tensor([[1, 1, 1], [0, 1, 0]], dtype=torch.float32)
    # Mean 3, variance 14 / 3, plus epsilon.
    root = math.sqrt(14 / 3 + 2)
    expected = torch.tensor([[-2, -1, 3], [0, 0, 0]]) / root
    torch.testing.assert_close(masked_whiten(values, mask, epsilon=2), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_whitening_of_nothing_to_tell_apart(dtype: torch.dtype) -> None:
    values = torch.full((3, 5), 9.9, dtype=dtype)
    assert masked_whiten(values, torch.ones(3, 5)).eq(0).all()
    assert masked_whiten(values, torch.zeros(3, 5)).eq(0).all()
    one = torch.zeros(3, 5)
    one[1, 2] = 1
    assert masked_whiten(torch.randn(3, 5, dtype=dtype), one).eq(0).all()
    values[1, 2] = math.nan
    assert masked_whiten(values, one)[1, 2].isnan()


@pytest.mark.parametrize("over", OVERS)
def test_no_rows(over: Over) -> None:
    assert group_relative(doubles(), ids(), ids(), over=over).tolist() == []
    assert leave_one_out(doubles(), ids(), ids()).tolist() == []


def test_wrong_shapes_and_types() -> None:
    with pytest.raises(ValueError, match=r"must be \(N,\)"):
        group_relative(doubles(1, 2), ids(0, 0), ids(0))
    with pytest.raises(ValueError, match="must be floats"):
        group_relative(ids(1, 2), ids(0, 0), ids(0, 1))
    with pytest.raises(ValueError, match="two groups"):
        group_relative(doubles(1, 2), ids(0, 1), ids(5, 5))
    with pytest.raises(ValueError, match="does not fit"):
        masked_whiten(doubles(1, 2), ids(1))
    with pytest.raises(ValueError, match="do not fit 1 rows"):
        task_normalized(torch.ones(1, 2), torch.ones(1, 2), ids(0, 1))
