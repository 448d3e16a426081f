from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from baselines.algorithms.aggregation import Aggregation, Totals, aggregate

MODES: tuple[Aggregation, ...] = (
    "token-mean",
    "seq-mean-token-mean",
    "seq-mean-token-sum",
    "seq-mean-token-sum-norm",
    "token-sum-norm",
)
# Row sums 6, 5 and 0; row means 3, 5 and none; 3 tokens.
VALUES = torch.tensor([[4, 2, torch.nan], [torch.inf, 5, 1], [7, 7, 7]], dtype=torch.float64)
MASK = torch.tensor([[1, 1, 0], [0, 1, 0], [0, 0, 0]])


def test_totals() -> None:
    assert Totals.of(MASK) == Totals(tokens=3, rows=3, nonempty_rows=2)
    assert Totals.of(MASK) + Totals(1, 2, 3) == Totals(4, 5, 5)
    assert Totals.of(torch.zeros(0, 4)) == Totals()


@pytest.mark.parametrize(
    ("mode", "expected", "gradient"),
    [
        ("token-mean", 11 / 3, [1 / 3, 1 / 3, 1 / 3]),
        ("seq-mean-token-mean", 8 / 2, [1 / 4, 1 / 4, 1 / 2]),
        ("seq-mean-token-sum", 11 / 3, [1 / 3, 1 / 3, 1 / 3]),
        ("seq-mean-token-sum-norm", 11 / 30, [1 / 30, 1 / 30, 1 / 30]),
        ("token-sum-norm", 11 / 10, [1 / 10, 1 / 10, 1 / 10]),
    ],
)
def test_by_hand(mode: Aggregation, expected: float, gradient: list[float]) -> None:
    values = VALUES.clone().requires_grad_()
    scalar = aggregate(values, MASK, mode, Totals.of(MASK), 10)
    assert scalar.item() == pytest.approx(expected)
    (found,) = torch.autograd.grad(scalar, values)
    assert found[MASK.bool()].tolist() == pytest.approx(gradient)
    assert found[MASK == 0].eq(0).all()


def test_a_mean_of_micro_batches_means_is_something_else() -> None:
    # A long and a short row in separate batches: token mean 2, mean of both token means 2.5.
    values = torch.tensor([[1.0, 1, 1], [4, 0, 0], [5, 0, 0]])
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [0, 0, 0]])
    totals = Totals.of(mask)
    shares = [
        aggregate(values[row : row + 1], mask[row : row + 1], "token-mean", totals, 3).item()
        for row in range(3)
    ]
    assert shares == [0.75, 1.0, 0.0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("rows", [0, 2])
def test_nothing_counts(mode: Aggregation, rows: int) -> None:
    values = torch.full((rows, 3), torch.nan, requires_grad=True)
    mask = torch.zeros(rows, 3)
    scalar = aggregate(values, mask, mode, Totals.of(mask), 3)
    assert scalar.item() == 0
    (gradient,) = torch.autograd.grad(scalar, values)
    assert gradient.eq(0).all()


@given(
    st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=8),
    st.sampled_from(MODES),
    st.sets(st.integers(1, 7)),
    st.integers(0, 99),
)
def test_shares_of_micro_batches_add_up(
    rows: list[list[bool]], mode: Aggregation, cuts: set[int], seed: int
) -> None:
    mask = torch.tensor(rows)
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(mask.shape, generator=generator, dtype=torch.float64).requires_grad_()

    def over(parts: list[tuple[Tensor, Tensor]], totals: Totals) -> tuple[Tensor, Tensor]:
        shares = [aggregate(*part, mode, totals, 9) for part in parts]
        total = torch.stack(shares).sum()
        return total, torch.autograd.grad(total, values)[0]

    edges = [0, *sorted(cut for cut in cuts if cut < len(rows)), len(rows)]
    spans = [slice(a, b) for a, b in pairwise(edges)]
    split = sum((Totals.of(mask[span]) for span in spans), Totals())
    whole, gradient = over([(values, mask)], Totals.of(mask))
    added, added_gradient = over([(values[span], mask[span]) for span in spans], split)
    torch.testing.assert_close(added, whole, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(added_gradient, gradient, rtol=1e-12, atol=1e-12)


def test_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        aggregate(VALUES, MASK[:2], "token-mean", Totals(1, 1, 1), 3)
