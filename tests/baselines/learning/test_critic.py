"""The critic: steps that are not finite leave it as it was."""

import pytest
import torch
from accelerate import Accelerator

from baselines.config.schema import Optimization
from baselines.inits.registry import find_model
from baselines.learning.critic import Critic
from baselines.learning.microbatches import split
from tests.support.training.synthetic_rows import random_rows

ROWS = 5


def weights(critic: Critic) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in critic.network.parameters()]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_target_that_is_not_finite_is_not_learned(bad: float) -> None:
    folder = find_model("tiny-sokoban").path
    assert folder is not None
    critic = Critic(Accelerator(cpu=True), folder, 1e-3, 0.5, Optimization(max_grad_norm=1.0))
    rows = random_rows(ROWS)
    batches = split(rows, list(range(ROWS)), 10_000, share_prefix=False)
    zeros = [torch.zeros(len(row.response_ids)) for row in rows]
    targets = [torch.ones(len(row.response_ids)) for row in rows]
    tokens = sum(int(row.response_mask.sum()) for row in rows)
    before = weights(critic)
    spoilt = [torch.full_like(targets[0], bad), *targets[1:]]
    assert critic.step(batches, spoilt, zeros, tokens) is None
    assert all(torch.equal(a, b) for a, b in zip(weights(critic), before, strict=True))
    assert critic.step(batches, targets, zeros, tokens) == pytest.approx(0.5)
    assert any(not torch.equal(a, b) for a, b in zip(weights(critic), before, strict=True))


def test_recomputed_activations_change_no_step() -> None:
    folder = find_model("tiny-sokoban").path
    assert folder is not None
    rows = random_rows(ROWS)
    batches = split(rows, list(range(ROWS)), 10_000, share_prefix=False)
    zeros = [torch.zeros(len(row.response_ids)) for row in rows]
    targets = [torch.ones(len(row.response_ids)) for row in rows]
    made = []
    for recomputed in (False, True):
        optimization = Optimization(gradient_checkpointing=recomputed)
        critic = Critic(Accelerator(cpu=True), folder, 1e-3, 0.5, optimization)
        assert critic.network.body.is_gradient_checkpointing == recomputed
        losses = [critic.step(batches, targets, zeros, 10) for _ in range(3)]
        made.append((losses, weights(critic)))
    (plain, kept), (again, recomputed_weights) = made
    assert plain == again
    assert all(torch.equal(a, b) for a, b in zip(kept, recomputed_weights, strict=True))
