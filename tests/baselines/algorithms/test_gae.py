import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from baselines.algorithms.advantage.gae import GAE, gae, value_loss
from baselines.config.layers import resolve

NAN = torch.nan
REWARDS = torch.tensor([[0.0, 0, 4]], dtype=torch.float64)
VALUES = torch.tensor([[1.0, 2, 3]], dtype=torch.float64)


def near(actual: Tensor, *expected: float) -> None:
    wanted = torch.tensor(expected, dtype=actual.dtype)
    torch.testing.assert_close(actual.flatten(), wanted, rtol=1e-9, atol=1e-9)


def test_by_hand() -> None:
    # Errors 0, -0.5 and 1.
    advantages, returns = gae(REWARDS, VALUES, torch.ones(1, 3), gamma=0.5, lam=0.5, whiten=False)
    near(advantages, -0.0625, -0.25, 1)
    near(returns, 0.9375, 1.75, 4)


def test_tokens_that_do_not_count_are_stepped_over() -> None:
    rewards = torch.tensor([[0, NAN, 0, 4, NAN]], dtype=torch.float64)
    values = torch.tensor([[1, NAN, 2, 3, 8]], dtype=torch.float64)
    mask = torch.tensor([[1, 0, 1, 1, 0]])
    advantages, returns = gae(rewards, values, mask, gamma=0.5, lam=0.5, whiten=False)
    near(advantages, -0.0625, 0, -0.25, 1, 0)
    near(returns, 0.9375, 0, 1.75, 4, 0)


def test_a_discount_between_turns_leaves_the_tokens_of_a_turn_alone() -> None:
    rewards = torch.tensor([[0, 0, NAN, 0, 8, NAN]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 0, 1, 1, 0]])
    zeros = torch.zeros(1, 6, dtype=torch.float64)
    _, by_turns = gae(rewards, zeros, mask, gamma=0.5, lam=1, by_turns=True)
    near(by_turns, 4, 4, 0, 8, 8, 0)
    _, by_tokens = gae(rewards, zeros, mask, gamma=0.5, lam=1)
    near(by_tokens, 1, 2, 0, 4, 8, 0)


def test_the_paper_scale_keeps_credit_in_long_responses() -> None:
    for task in ("alfworld", "webshop", "sokoban", "tir_math"):
        advantage = resolve("ppo", "paper", [task]).advantage
        assert isinstance(advantage, GAE) and advantage.discount == "turns"
    released = resolve("ppo", "paper_released", ["alfworld"]).advantage
    assert released.model_dump() == {**GAE(gamma=0.95, lam=1.0).model_dump()}
    assert "discount" not in released.model_dump()


def test_the_critic_alone_and_the_returns_alone() -> None:
    mask = torch.ones(1, 3)
    errors, _ = gae(REWARDS, VALUES, mask, gamma=0.5, lam=0, whiten=False)
    near(errors, 0, -0.5, 1)
    _, returns = gae(REWARDS, VALUES, mask, gamma=0.5, lam=1, whiten=False)
    near(returns, 1, 2, 4)


def test_whitening_leaves_the_targets_alone() -> None:
    rewards = torch.tensor([[0.0, 2], [0, 4]], dtype=torch.float64)
    mask = torch.tensor([[1, 1], [1, 0]])
    zeros = torch.zeros_like(rewards)
    advantages, returns = gae(rewards, zeros, mask, gamma=1, lam=1, epsilon=0)
    # Advantages 2, 2 and 0 before whitening: mean 4 / 3, variance 4 / 3.
    root = (4 / 3) ** 0.5
    near(advantages, 2 / 3 / root, 2 / 3 / root, -4 / 3 / root, 0)
    near(returns, 2, 2, 0, 0)


@given(st.lists(st.integers(-30, 30), min_size=1, max_size=8), st.integers(0, 10))
def test_returns_with_lambda_one_need_no_critic(tenths: list[int], tenth: int) -> None:
    rewards = torch.tensor([tenths], dtype=torch.float64) / 10
    values = torch.sin(torch.arange(len(tenths), dtype=torch.float64))[None]
    gamma = tenth / 10
    _, returns = gae(rewards, values, torch.ones_like(rewards), gamma=gamma, lam=1)
    expected = [
        sum(gamma**later * reward / 10 for later, reward in enumerate(tenths[start:]))
        for start in range(len(tenths))
    ]
    near(returns, *expected)


def test_value_loss() -> None:
    # Unclipped and clipped: 1 and 0.25; 0.01 and 0.25; inside the range.
    values = torch.tensor([[3, 1.9, 1.25, NAN]], dtype=torch.float64, requires_grad=True)
    old = torch.tensor([[1, 1, 1, NAN]], dtype=torch.float64)
    returns = torch.tensor([[2, 2, 2, NAN]], dtype=torch.float64)
    mask = torch.tensor([[1, 1, 1, 0]])
    losses = value_loss(values, old, returns, mask, 0.5)
    near(losses.detach(), 0.5, 0.125, 0.28125, 0)
    (gradient,) = torch.autograd.grad(losses.sum(), values)
    near(gradient, 1, 0, -0.75, 0)
    free = value_loss(values, old, returns, mask, None)
    near(free.detach(), 0.5, 0.005, 0.28125, 0)
    (gradient,) = torch.autograd.grad(free.sum(), values)
    near(gradient, 1, -0.1, -0.75, 0)


def test_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        gae(REWARDS, VALUES, torch.ones(1, 2), gamma=1, lam=1)
    with pytest.raises(ValueError, match="does not fit"):
        gae(REWARDS[:, :2], VALUES, torch.ones(1, 3), gamma=1, lam=1)
    with pytest.raises(ValueError, match="does not fit"):
        value_loss(VALUES, VALUES[:, :2], VALUES, torch.ones(1, 3), None)
