import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from baselines.algorithms.kl import Estimator, MaskedStatistics, kl, masked_statistics

ESTIMATORS: tuple[Estimator, ...] = ("k1", "k2", "k3")


@pytest.mark.parametrize(
    ("estimator", "value", "gradient"),
    [
        ("k1", math.log(2), 1),
        ("k2", math.log(2) ** 2 / 2, math.log(2)),
        ("k3", 0.5 - 1 + math.log(2), 0.5),
    ],
)
def test_by_hand(estimator: Estimator, value: float, gradient: float) -> None:
    # The policy gives a token twice the reference's probability.
    log_probs = torch.tensor([[math.log(0.5)]], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([[math.log(0.25)]], dtype=torch.float64, requires_grad=True)
    estimate = kl(log_probs, reference, estimator)
    assert estimate.item() == pytest.approx(value)
    estimate.sum().backward()
    assert log_probs.grad is not None
    assert log_probs.grad.item() == pytest.approx(gradient)
    assert reference.grad is None


@pytest.mark.parametrize(
    ("estimator", "distance", "limit", "expected"),
    [
        ("k3", 5, 10, 10),
        ("k3", 5, 1000, math.exp(5) - 6),
        ("k3", 40, 1e9, math.exp(20) - 21),
        ("k3", -15, 10, 10),
        ("k1", -15, 10, 10),
        ("k1", 15, 10, -10),
        ("k2", 5, 10, 10),
        ("k2", 30, 1e9, 200),
    ],
)
def test_limits(estimator: Estimator, distance: float, limit: float, expected: float) -> None:
    log_probs = torch.tensor([[-50.0]], dtype=torch.float64, requires_grad=True)
    estimate = kl(log_probs, log_probs.detach() + distance, estimator, limit)
    assert estimate.item() == pytest.approx(expected, rel=1e-9)
    estimate.sum().backward()
    assert log_probs.grad is not None
    limited = abs(estimate.item()) == limit or abs(distance) > 20
    assert (log_probs.grad.item() == 0) is limited


logits = st.lists(st.floats(-2, 2), min_size=4, max_size=4)


@given(logits, logits)
def test_what_the_estimators_expect(policy: list[float], reference: list[float]) -> None:
    weights = torch.tensor(policy, dtype=torch.float64, requires_grad=True)
    log_p = weights.log_softmax(0)
    log_q = torch.tensor(reference, dtype=torch.float64).log_softmax(0)
    exact = (log_p.exp() * (log_p - log_q)).sum()
    (exact_gradient,) = torch.autograd.grad(exact, weights, retain_graph=True)

    def expected(estimator: Estimator) -> tuple[Tensor, Tensor]:
        """Mean over tokens sampled from the policy, and the mean of their gradients."""
        mean = (log_p.detach().exp() * kl(log_p, log_q, estimator, 1e9)).sum()
        return mean.detach(), torch.autograd.grad(mean, weights, retain_graph=True)[0]

    for estimator in ("k1", "k3"):
        torch.testing.assert_close(expected(estimator)[0], exact.detach(), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        expected("k1")[1], torch.zeros_like(exact_gradient), rtol=0, atol=1e-9
    )
    torch.testing.assert_close(expected("k2")[1], exact_gradient, rtol=1e-9, atol=1e-9)
    assert kl(log_p, log_q, "k3").ge(0).all()


def test_k3_keeps_its_digits_in_single_precision() -> None:
    distance = 2**-13
    log_probs = torch.tensor([[-1.0]])
    estimate = kl(log_probs, log_probs + distance, "k3").item()
    assert estimate == pytest.approx(math.expm1(distance) - distance, rel=1e-3)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf])
def test_nothing_under_the_mask_matters(estimator: Estimator, junk: float) -> None:
    mask = torch.tensor([[1, 0, 0]])
    log_probs = torch.tensor([[-1.0, junk, -1]], requires_grad=True)
    reference = torch.tensor([[-1.5, -1, junk]])
    estimate = kl(log_probs, reference, estimator, response_mask=mask)
    assert estimate[0, 1:].tolist() == [0, 0]
    (gradient,) = torch.autograd.grad(estimate.sum(), log_probs)
    assert gradient[0, 1:].tolist() == [0, 0]
    assert gradient[0, 0] != 0
    with pytest.raises(ValueError, match="does not fit"):
        kl(log_probs, reference, estimator, response_mask=mask[:, :1])


def test_masked_statistics() -> None:
    values = torch.tensor([[0.0, 1, 1000], [-3, math.nan, 0.5]])
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    assert masked_statistics(values, mask) == MaskedStatistics(
        mean=249.5, median=0.5, clipped_mean=0.25
    )
    assert masked_statistics(values, mask, clip=2).clipped_mean == 0.25
    assert masked_statistics(values, mask, clip=5).clipped_mean == 0.75
    odd = torch.tensor([[1, 1, 0], [1, 0, 0]])
    assert masked_statistics(values, odd).median == 0
    none = masked_statistics(values, torch.zeros(2, 3))
    assert none == MaskedStatistics(None, None, None)
