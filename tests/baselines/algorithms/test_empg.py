import math

import pytest
import torch
from torch import Tensor

from tests.baselines.algorithms.usual import empg

E1 = math.exp(-1)

# Mean entropies 0.3 and 0.9, so 0 and 1 after scaling; no token of the third row counts.
ENTROPIES = torch.tensor([[0.2, 0.4], [0.9, torch.nan], [7, 7]], dtype=torch.float64)
MASK = torch.tensor([[1, 1], [1, 0], [0, 0]])
BASE = torch.tensor([1.0, -1, 5], dtype=torch.float64)
ONE_TRAJECTORY = (torch.tensor([3, 3, 3]), torch.tensor([0, 1, 2]))


def near(actual: Tensor, *expected: float) -> None:
    wanted = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual, wanted, rtol=1e-6, atol=1e-7)


def test_by_hand() -> None:
    mean = (1 + E1) / 2
    # The first turn is followed by the second, and the second by one without an entropy.
    first, second = 1 / mean + 0.05 * E1, -E1 / mean
    half = (first - second) / 2
    near(empg(BASE, ENTROPIES, MASK, *ONE_TRAJECTORY), half, -half, 0)


def test_constants() -> None:
    base = torch.tensor([3.0, -1, 5], dtype=torch.float64)
    advantages = empg(base, ENTROPIES, MASK, *ONE_TRAJECTORY, k=2, k_future=3, zeta=0.1)
    mean = (1 + math.exp(-2)) / 2
    half = (3 / mean + 0.1 * math.exp(-3) + math.exp(-2) / mean) / 2
    near(advantages, half, -half, 0)
    near(empg(BASE, ENTROPIES, MASK, *ONE_TRAJECTORY, k=0, zeta=0), 1, -1, 0)


def test_the_bonus_comes_from_the_same_trajectory() -> None:
    apart = empg(BASE, ENTROPIES, MASK, torch.tensor([3, 4, 4]), torch.tensor([0, 1, 2]), zeta=1)
    without = empg(BASE, ENTROPIES, MASK, *ONE_TRAJECTORY, zeta=0)
    near(apart, *without.tolist())
    # Rows may be in any order: here the second row is the earlier turn.
    turned = empg(
        BASE, ENTROPIES, MASK, torch.tensor([3, 3, 3]), torch.tensor([5, 4, 0]), k=0, zeta=1
    )
    near(turned, 0.5, -0.5, 0)


def test_equal_entropies_change_no_weight() -> None:
    entropies = torch.full((3, 2), 0.7)
    mask = torch.ones(3, 2)
    base = torch.tensor([2.0, -1, -1])
    apart = (torch.tensor([0, 1, 2]), torch.zeros(3, dtype=torch.long))
    advantages = empg(base, entropies, mask, *apart)
    torch.testing.assert_close(advantages, base, rtol=1e-6, atol=1e-6)


def test_nothing_counts() -> None:
    nothing = torch.zeros_like(MASK)
    near(empg(BASE, ENTROPIES, nothing, *ONE_TRAJECTORY), 0, 0, 0)


def test_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="do not fit 3 rows"):
        empg(BASE[:2], ENTROPIES, MASK, *ONE_TRAJECTORY)
    with pytest.raises(ValueError, match="does not fit"):
        empg(BASE, ENTROPIES, MASK[:2], *ONE_TRAJECTORY)
