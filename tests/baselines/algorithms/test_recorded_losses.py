"""Compares losses, gradients and flags with recorded results of the released code."""

import pytest
import torch
from torch import Tensor

from baselines.algorithms.aggregation import Aggregation, Totals, aggregate
from baselines.algorithms.clipping.base import Clipping, TokenLosses
from baselines.algorithms.clipping.cispo import CISPO
from baselines.algorithms.clipping.gspo import GSPO
from baselines.algorithms.clipping.ppo import PPOClip
from baselines.algorithms.clipping.sapo import FLAGGED, SAPO
from baselines.algorithms.kl import kl
from tests.baselines.algorithms.usual import kept_rows, losses_of
from tests.baselines.algorithms.vectors import Case, cases, close, matrix, read

EXACT = 1e-9
ROUNDED = 1e-6
"""Tolerance for values that the recording code rounded to single precision."""


def rule(run: Case) -> Clipping:
    constants = run["constants"]
    low, high = constants["eps_low"], constants["eps_high"]
    match run["loss"]:
        case "vanilla" | "drgrpo":
            return PPOClip(clip_low=low, clip_high=high, dual_clip=constants["dual_clip_c"])
        case "gspo":
            return GSPO(clip_low=low, clip_high=high)
        case "cispo":
            return CISPO(clip_low=low, clip_high=high)
        case "sapo":
            assert low == high == FLAGGED
            return SAPO(tau_positive=constants["tau_pos"], tau_negative=constants["tau_neg"])
    raise AssertionError(run["loss"])


def losses(run: Case, parts: tuple[Tensor, Tensor, Tensor, Tensor]) -> TokenLosses:
    return losses_of(rule(run), *parts)


def share(flags: Tensor, mask: Tensor) -> float:
    return float(flags[mask.bool()].double().mean()) if mask.any() else 0.0


def ours(mode: Aggregation) -> Aggregation:
    """Translate the released code's name of an aggregation."""
    return "token-sum-norm" if mode == "seq-mean-token-sum-norm" else mode


@pytest.mark.parametrize("number", ["00", "02", "04", "06", "08"])
def test_policy_losses(number: str) -> None:
    case = read(f"policy_loss_case_{number}.json")
    inputs = {name: matrix(values) for name, values in case["inputs"].items()}
    old, advantages, full = inputs["old_log_prob"], inputs["advantages"], inputs["response_mask"]
    assert len(case["runs"]) == 25
    for run in case["runs"]:
        log_probs = inputs["log_prob"].clone().requires_grad_()
        delta = run["constants"]["sequence_mask_delta"]
        mask = full
        if delta is not None:
            kept = kept_rows(delta, log_probs, old, advantages, full)
            mask = full * kept[:, None]
            assert int((~kept).sum()) == run["expected"]["num_masked_rows"]
        result = losses(run, (log_probs, old, advantages, mask))
        # Dr. GRPO was recorded as seq-mean-token-sum over the longest response: one mode here.
        dr_grpo = run["loss"] == "drgrpo"
        mode: Aggregation = "seq-mean-token-sum-norm" if dr_grpo else ours(run["aggregation"])
        length = run["constants"]["max_response_length"] if dr_grpo else mask.shape[1]
        loss = aggregate(result.losses, mask, mode, Totals.of(mask), length)
        loss.backward()
        assert log_probs.grad is not None
        close(loss.detach(), run["expected"]["loss"], EXACT)
        close(log_probs.grad, run["expected"]["grad_log_prob"], EXACT)
        close(share(result.clipped, mask), run["expected"]["clip_fraction"], ROUNDED)
        dual = torch.zeros_like(mask) if result.clipped_dual is None else result.clipped_dual
        close(share(dual, mask), run["expected"]["clip_fraction_lower"], ROUNDED)
        # ppo_kl is the k1 estimate of KL(old || new); GSPO's has no limits.
        moved = old - inputs["log_prob"]
        moved = moved if run["loss"] == "gspo" else moved.clamp(-20, 20)
        mean = aggregate(moved, mask, "token-mean", Totals.of(mask), 1)
        close(mean, run["expected"]["ppo_kl"], EXACT)


@pytest.mark.parametrize("number", ["00", "02", "04", "08"])
def test_policy_losses_in_single_precision(number: str) -> None:
    case = read(f"policy_loss_case_{number}.json")
    inputs = {name: matrix(values).float() for name, values in case["inputs"].items()}
    old, advantages, mask = inputs["old_log_prob"], inputs["advantages"], inputs["response_mask"]
    runs = [run for run in case["runs"] if run["aggregation"] == "token-mean"]
    runs = [run for run in runs if run["constants"]["sequence_mask_delta"] is None]
    assert {run["loss"] for run in runs} == {"vanilla", "cispo", "sapo"}
    for run in runs + [run for run in case["runs"] if run["loss"] == "gspo"]:
        log_probs = inputs["log_prob"].clone().requires_grad_()
        result = losses(run, (log_probs, old, advantages, mask))
        loss = aggregate(result.losses, mask, run["aggregation"], Totals.of(mask), 1)
        loss.backward()
        assert log_probs.grad is not None
        close(loss.detach(), run["expected"]["loss"], 1e-5)
        close(log_probs.grad, run["expected"]["grad_log_prob"], 1e-5)


@pytest.mark.parametrize("number", ["00", "02", "04", "06", "08"])
def test_sequence_masks(number: str) -> None:
    case = read(f"policy_loss_case_{number}.json")
    inputs = {name: matrix(values) for name, values in case["inputs"].items()}
    log_probs, old, mask = inputs["log_prob"], inputs["old_log_prob"], inputs["response_mask"]
    for expected in case["sequence_mask"]:
        kept = kept_rows(expected["delta"], log_probs, old, inputs["advantages"], mask)
        assert int((~kept).sum()) == expected["num_masked_rows"]
        assert torch.equal(mask * kept[:, None], matrix(expected["effective_mask"]))


def test_aggregation() -> None:
    for case in cases("aggregation.json"):
        values, mask = matrix(case["loss_matrix"]), matrix(case["mask"])
        for mode, expected in case["expected"].items():
            totals = Totals.of(mask)
            scalar = aggregate(values, mask, ours(mode), totals, values.shape[1])
            close(scalar, expected, EXACT)


def test_k3() -> None:
    for case in cases("k3_kl.json"):
        inputs = {name: matrix(values) for name, values in case["inputs"].items()}
        log_probs = inputs["log_prob"].requires_grad_()
        reference, mask = inputs["ref_log_prob"], inputs["response_mask"]
        expected = case["expected"]
        estimates = kl(log_probs, reference, "k3")
        close(estimates.detach(), expected["kl"], EXACT)
        (gradient,) = torch.autograd.grad(estimates.sum(), log_probs)
        close(gradient, expected["grad_of_sum_log_prob"], EXACT)
        assert len(expected["aggregated"]) == 2
        for mode, aggregated in expected["aggregated"].items():
            for counted in (None, mask):
                estimates = kl(log_probs, reference, "k3", response_mask=counted)
                value = aggregate(estimates, mask, mode, Totals.of(mask), mask.shape[1])
                (gradient,) = torch.autograd.grad(value, log_probs)
                close(value.detach(), aggregated["value"], EXACT)
                close(gradient, aggregated["grad_log_prob"], EXACT)
