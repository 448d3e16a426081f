import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from baselines.algorithms.aggregation import Totals, aggregate
from baselines.algorithms.clipping.base import Clipping, TokenBatch, TokenLosses
from baselines.algorithms.clipping.cispo import CISPO
from baselines.algorithms.clipping.gspo import GSPO
from baselines.algorithms.clipping.ppo import PPOClip
from baselines.algorithms.clipping.sapo import SAPO
from tasks.errors import UserError
from tests.baselines.algorithms.usual import kept_rows, losses_of

RULES: dict[str, Clipping] = {
    "ppo": PPOClip(),
    "ppo without dual clip": PPOClip(dual_clip=None),
    "gspo": GSPO(),
    "cispo": CISPO(),
    "sapo": SAPO(),
}
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())


def doubles(*rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (torch.zeros(1, 2), "gives Tensor instead of TokenLosses: the losses, and where"),
        (
            TokenLosses(torch.zeros(2), *[torch.zeros(1, 2, dtype=torch.bool)] * 2),
            r"gives losses of \(2,\) instead of a tensor of shape \(1, 2\): one number for each",
        ),
        (
            TokenLosses(torch.zeros(1, 2), torch.zeros(1, 2), torch.zeros(1, 2)),
            "gives clipped_low of torch.float32 instead of bools",
        ),
        (
            TokenLosses(torch.zeros(1, 2).long(), *[torch.zeros(1, 2) > 0] * 2),
            "gives losses of torch.int64 instead of floating-point numbers",
        ),
    ],
)
def test_losses_that_are_none_are_named(
    given: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plug-in may return such losses."""
    ones = torch.ones(1, 2)
    batch = TokenBatch.of(-ones, -ones, ones, ones)
    assert torch.equal(PPOClip().checked_losses(batch).losses, PPOClip().losses(batch).losses)
    monkeypatch.setattr(PPOClip, "losses", lambda self, batch: given)
    with pytest.raises(UserError, match=f"the clipping ppo {said}"):
        PPOClip().checked_losses(batch)


def test_losses_without_a_gradient_are_named_where_something_is_to_be_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For example, with a detached weight but without the log-probabilities to which it applies."""

    def losses(self: Clipping, batch: TokenBatch) -> TokenLosses:
        ratios = batch.ratios().detach()
        return TokenLosses(-batch.advantages * ratios, *batch.beyond(ratios, 0.2, 0.2))

    monkeypatch.setattr(PPOClip, "losses", losses)
    ones, signs = torch.ones(1, 2), torch.tensor([[1.0, -1.0]])
    log_probs = -torch.ones(1, 2, requires_grad=True)
    with pytest.raises(UserError, match=r"\(PPOClip\) gives losses without a gradient, although"):
        PPOClip().checked_losses(TokenBatch.of(log_probs, -ones, signs, ones))
    # A rule may learn from one sign only, and masked tokens have no gradient.
    for unlearned in (TokenBatch.of(log_probs, -ones, ones, ones),
                      TokenBatch.of(log_probs, -ones, signs, signs.clamp(min=0)),
                      TokenBatch.of(log_probs.detach(), -ones, signs, ones)):  # fmt: skip
        assert not PPOClip().checked_losses(unlearned).losses.requires_grad


def test_losses_that_are_not_finite_are_named_unless_the_policy_has_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rule divides by the distance from 1, which is 0 over 0 before the first step."""

    def losses(self: Clipping, batch: TokenBatch) -> TokenLosses:
        ratios = batch.ratios()
        return TokenLosses((ratios - 1) / (ratios - 1), *batch.beyond(ratios, 0.2, 0.2))

    monkeypatch.setattr(PPOClip, "losses", losses)
    ones = torch.ones(2, 2)
    counted = torch.tensor([[1, 1], [1, 0]])
    said = r"the clipping ppo \(PPOClip\) gives losses that are not finite for 3 of 3 tokens, whose"
    with pytest.raises(UserError, match=said):
        PPOClip().checked_losses(TokenBatch.of(-ones, -ones, ones, counted))
    # If the policy or an input is not finite, steps are skipped until the run counts as diverged.
    moved = torch.tensor([[1.0, 2.0], [2.0, 0.0]])
    for now, advantages in ((-moved, ones), (-ones * math.nan, ones), (-ones, ones * math.inf)):
        batch = TokenBatch.of(now, -ones, advantages, counted)
        assert not PPOClip().checked_losses(batch).losses.isfinite().all()


def near(actual: Tensor, *rows: list[float]) -> None:
    torch.testing.assert_close(actual.double(), doubles(*rows), rtol=1e-6, atol=1e-9)


def tokens(rule: Clipping, pairs: list[tuple[float, float]]) -> tuple[TokenLosses, Tensor]:
    """Losses of single-token rows of (advantage, ratio), (N, 1), and each token's gradient."""
    log_probs = doubles(*[[math.log(ratio) - 1] for _, ratio in pairs]).requires_grad_()
    old = torch.full_like(log_probs, -1.0)
    advantages = doubles(*[[advantage] for advantage, _ in pairs])
    result = losses_of(rule, log_probs, old, advantages, torch.ones_like(advantages))
    (gradient,) = torch.autograd.grad(result.losses.sum(), log_probs)
    return result, gradient


def flags(result: TokenLosses) -> list[str]:
    """Which limit clipped each token."""
    names = {"low": result.clipped_low, "high": result.clipped_high}
    if result.clipped_dual is not None:
        names["dual"] = result.clipped_dual
    return [
        " ".join(name for name, flag in names.items() if flag.flatten()[token])
        for token in range(result.losses.numel())
    ]


@pytest.mark.parametrize(
    ("advantage", "ratio", "loss", "gradient", "flag"),
    [
        (2, 1, -2, -2, ""),
        (2, 1.19, -2.38, -2.38, ""),
        (2, 1.5, -2.4, 0, "high"),
        (2, 0.5, -1, -1, ""),
        (-2, 0.5, 1.6, 0, "low"),
        (-2, 0.81, 1.62, 1.62, ""),
        (-2, 1.5, 3, 3, ""),
        (-2, 4, 6, 0, "dual"),
        (0, 4, 0, 0, ""),
        (0, 0.1, 0, 0, ""),
    ],
)
def test_ppo_clip(advantage: float, ratio: float, loss: float, gradient: float, flag: str) -> None:
    result, found = tokens(PPOClip(), [(advantage, ratio)])
    near(result.losses.detach(), [loss])
    near(found, [gradient])
    assert flags(result) == [flag]
    assert result.clipped.item() is (flag in ("low", "high"))


def test_ppo_clip_with_other_limits() -> None:
    pairs = [(1.0, 1.27), (1.0, 1.29), (-1.0, 0.91), (-1.0, 0.89), (-1.0, 4.0), (-1.0, 6.0)]
    wide = PPOClip(clip_low=0.1, clip_high=0.28, dual_clip=5.0)
    result, gradient = tokens(wide, pairs)
    near(result.losses.detach().T, [-1.27, -1.28, 0.91, 0.9, 4, 5])
    near(gradient.T, [-1.27, 0, 0.91, 0, 4, 0])
    assert flags(result) == ["", "high", "", "low", "", "dual"]
    result, gradient = tokens(PPOClip(dual_clip=None), [(-1, 6)])
    near(result.losses.detach(), [6])
    near(gradient, [6])
    assert flags(result) == [""]


def test_a_dual_clip_at_one_would_stop_every_update() -> None:
    with pytest.raises(ValueError, match="greater than 1"):
        PPOClip(dual_clip=1.0)


@pytest.mark.parametrize("rule", [RULES["ppo without dual clip"], SAPO()])
def test_no_gradient_beyond_the_limit_of_log_ratios(rule: Clipping) -> None:
    log_probs = doubles([25.0, -25]).requires_grad_()
    result = losses_of(rule, log_probs, doubles([0, 0]), doubles([-1, 1]), torch.ones(1, 2))
    result.losses.sum().backward()
    assert log_probs.grad is not None
    near(log_probs.grad, [0, 0])
    assert result.losses.isfinite().all()


def row_of(log_ratios: list[float], advantage: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    old = torch.linspace(-3, -1, len(log_ratios), dtype=torch.float64)[None]
    log_probs = (old + doubles(log_ratios)).requires_grad_()
    return log_probs, old, torch.full_like(old, advantage), torch.ones_like(old)


def test_gspo_takes_one_ratio_for_a_row() -> None:
    # Ratios 2 and 1: the row's ratio is the square root of 2.
    root = math.sqrt(2)
    parts = row_of([math.log(2), 0], 1.0)
    free = losses_of(GSPO(clip_low=0.5, clip_high=0.5), *parts)
    near(free.losses.detach(), [-root, -root])
    near(torch.autograd.grad(free.losses.sum(), parts[0])[0], [-root, -root])
    assert flags(free) == ["", ""]
    limited = losses_of(GSPO(clip_low=0.5, clip_high=0.4), *parts)
    near(limited.losses.detach(), [-1.4, -1.4])
    near(torch.autograd.grad(limited.losses.sum(), parts[0])[0], [0, 0])
    assert flags(limited) == ["high", "high"]
    bad = row_of([-math.log(2), 0], -1.0)
    low = losses_of(GSPO(clip_low=0.2, clip_high=0.2), *bad)
    near(low.losses.detach(), [0.8, 0.8])
    assert flags(low) == ["low", "low"]


def test_gspo_limits_from_above_only() -> None:
    # A mean of 12 is capped at 10; a token of 24 next to one of -8 is not capped on its own.
    for log_ratios, ratio, factor in ([12.0, 12.0], math.exp(10), 0), ([24.0, -8.0], math.e**8, 1):
        parts = row_of(list(log_ratios), -1.0)
        losses = losses_of(GSPO(clip_low=0.1, clip_high=0.1), *parts).losses
        near(losses.detach(), [ratio, ratio])
        near(torch.autograd.grad(losses.sum(), parts[0])[0], [factor * ratio, factor * ratio])


@given(st.lists(st.floats(-2, 2), min_size=1, max_size=6), st.floats(-3, 3), st.floats(0.001, 0.5))
def test_gspo_is_the_gradient_of_the_rows_loss(
    log_ratios: list[float], advantage: float, limit: float
) -> None:
    parts = row_of(log_ratios, advantage)
    loss = losses_of(GSPO(clip_low=limit, clip_high=limit), *parts).losses.mean()
    (gradient,) = torch.autograd.grad(loss, parts[0])
    ratio = (parts[0] - parts[1]).mean().exp()
    row = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(1 - limit, 1 + limit))
    torch.testing.assert_close(loss, row)
    expected = torch.autograd.grad(row, parts[0])[0]
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-9)


def test_gspo_keeps_small_ratios_in_single_precision() -> None:
    # Near -20, float32 has a resolution of 2e-6, which must not round away the row's ratio.
    old = torch.full((1, 3), -20.0)
    log_probs = old + torch.tensor([[2**-12, 0, 0]])
    ones = torch.ones(1, 3)
    losses = losses_of(GSPO(clip_low=1, clip_high=1), log_probs, old, ones, ones).losses
    expected = torch.full((1, 3), -math.exp(2**-12 / 3))
    torch.testing.assert_close(losses, expected, rtol=1.2e-7, atol=0)


def test_cispo_weighs_and_keeps_every_gradient() -> None:
    pairs = [(2.0, 1.5), (-2.0, 1.5), (2.0, 0.5), (-2.0, 1.1)]
    result, gradient = tokens(CISPO(), pairs)
    log_probs = [math.log(ratio) - 1 for _, ratio in pairs]
    weights = [-2.4, 2.4, -1.0, 2.2]
    near(gradient.T, weights)
    near(result.losses.detach().T, [w * lp for w, lp in zip(weights, log_probs, strict=True)])
    assert flags(result) == ["high", "high", "", ""]
    result, gradient = tokens(CISPO(clip_low=0.2, clip_high=0.28), pairs)
    near(gradient.T, [-2.56, 2.56, -1.6, 2.2])
    assert flags(result) == ["high", "high", "low", ""]


def test_sapo() -> None:
    def gate(tau: float, ratio: float) -> tuple[float, float]:
        p = 1 / (1 + math.exp(-tau * (ratio - 1)))
        return 4 / tau * p, 4 * p * (1 - p) * ratio

    pairs = [(1.0, 1.0), (1.0, 2.0), (-1.0, 2.0), (-1.0, 0.5), (-1.0, 1.0)]
    result, gradient = tokens(SAPO(tau_negative=3.0), pairs)
    values = [gate(1.0 if advantage > 0 else 3.0, ratio) for advantage, ratio in pairs]
    near(result.losses.detach().T, [-a * v for (a, _), (v, _) in zip(pairs, values, strict=True)])
    near(gradient.T, [-a * g for (a, _), (_, g) in zip(pairs, values, strict=True)])
    assert result.losses[0].item() == -2
    assert flags(result) == ["", "high", "", "low", ""]
    near(tokens(SAPO(), [(-1, 2)])[1], [gate(1.05, 2)[1]])


def test_sapo_takes_tau_from_the_rows_mean_advantage() -> None:
    ones = torch.ones(1, 2)
    advantages = doubles([3, -1])
    for row, tau in (advantages, 1.0), (-advantages, 4.0):
        losses = losses_of(SAPO(tau_negative=4.0), ones, ones, row, ones).losses
        near(losses, (-row * 2 / tau)[0].tolist())
    # Tokens that are not counted have no effect.
    only_first = torch.tensor([[1, 0]])
    masked = losses_of(SAPO(tau_negative=4.0), ones, ones, doubles([-1, 3]), only_first).losses
    near(masked, [0.5, 0])


@pytest.mark.parametrize(
    ("advantage", "moved", "kept"),
    [(-1, 0.1, False), (-1, 0.01, True), (-1, -0.1, True), (1, 0.1, True), (0, 0.1, True)],
)
def test_sequence_mask(advantage: float, moved: float, kept: bool) -> None:
    log_probs, old, advantages, mask = row_of([-moved + 0.03, -moved - 0.03], advantage)
    assert kept_rows(0.05, log_probs, old, advantages, mask).tolist() == [kept]


def test_sequence_mask_counts_only_what_counts() -> None:
    old = torch.zeros(3, 3)
    log_probs = torch.tensor([[-1.0, torch.nan, 5], [-1, -1, -1], [-50, 31, 18]])
    advantages = torch.tensor([[-1.0, 9, torch.nan], [-1, -1, -1], [-1, -1, -1]])
    mask = torch.tensor([[1, 0, 0], [0, 0, 0], [1, 1, 1]])
    # The last row has moved by 1 / 3 on average: single tokens have no limit here.
    assert kept_rows(0.3, log_probs, old, advantages, mask).tolist() == [False, True, False]
    assert kept_rows(0.4, log_probs, old, advantages, mask).tolist() == [False, True, True]


def test_denominators_of_dropped_rows() -> None:
    log_probs = doubles([0.0, 0], [-1, -1]).requires_grad_()
    old, advantages = doubles([0, 0], [0, 0]), doubles([1, 1], [-1, -1])
    full = torch.ones(2, 2)
    mask = full * kept_rows(3e-3, log_probs, old, advantages, full)[:, None]
    losses = losses_of(PPOClip(), log_probs, old, advantages, mask).losses
    kept = aggregate(losses, mask, "token-mean", Totals.of(mask), 2)
    paper = aggregate(losses, mask, "token-mean", Totals.of(full), 2)
    assert (kept.item(), paper.item()) == (-1.0, -0.5)


@every_rule
def test_on_policy_all_are_the_plain_policy_gradient(rule: Clipping) -> None:
    log_probs = doubles([-1.0, -2, -0.5], [-3, -0.1, -4]).requires_grad_()
    advantages = doubles([1, 1, 1], [-2, -2, -2])
    result = losses_of(rule, log_probs, log_probs.detach(), advantages, torch.ones(2, 3))
    (gradient,) = torch.autograd.grad(result.losses.sum(), log_probs)
    near(gradient, *(-advantages).tolist())
    assert flags(result) == [""] * 6


@every_rule
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("junk", [math.nan, math.inf, -math.inf, -7.0])
def test_nothing_under_the_mask_matters(rule: Clipping, dtype: torch.dtype, junk: float) -> None:
    mask = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 0]])
    clean = torch.tensor([[-1.0, 0, -2], [0, 0, 0], [-0.1, -4, 0]], dtype=dtype)
    moved = torch.tensor([[0.3, 0, -0.4], [0, 0, 0], [2, -1, 0]], dtype=dtype)
    advantages = torch.tensor([[1.0], [2], [-1]], dtype=dtype).expand(3, 3) * mask

    def run(fill: float) -> tuple[TokenLosses, Tensor]:
        parts = [part.where(mask.bool(), fill) for part in (clean + moved, clean, advantages)]
        parts[0].requires_grad_()
        result = losses_of(rule, parts[0], parts[1], parts[2], mask)
        (gradient,) = torch.autograd.grad(result.losses.sum(), parts[0])
        return result, gradient

    result, gradient = run(junk)
    expected, expected_gradient = run(0.0)
    assert result.losses.dtype == dtype
    assert torch.equal(result.losses, expected.losses)
    assert torch.equal(gradient, expected_gradient)
    assert gradient[mask == 0].eq(0).all()
    assert result.losses[mask == 0].eq(0).all()
    assert flags(result) == flags(expected)
    dual = result.clipped_dual
    for flag in (result.clipped_low, result.clipped_high, *([] if dual is None else [dual])):
        assert flag.dtype == torch.bool
        assert not flag[mask == 0].any()


@every_rule
def test_gradients_flow_through_log_probs_alone(rule: Clipping) -> None:
    parts = [torch.full((1, 2), value, requires_grad=True) for value in (-1.0, -1.1, 2.0)]
    losses_of(rule, parts[0], parts[1], parts[2], torch.ones(1, 2)).losses.sum().backward()
    assert parts[0].grad is not None
    assert parts[1].grad is None
    assert parts[2].grad is None


@every_rule
def test_wrong_shapes(rule: Clipping) -> None:
    right, wrong = torch.zeros(2, 3), torch.zeros(2)
    for place in range(4):
        parts = [wrong[:, None] if place == index else right for index in range(4)]
        with pytest.raises(ValueError, match="does not fit"):
            losses_of(rule, parts[0], parts[1], parts[2], parts[3])
