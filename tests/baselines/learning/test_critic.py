"""The critic: steps that are not finite leave it unchanged."""

import pytest
import torch
from accelerate import Accelerator

from baselines.algorithms.advantage.gae import GAE
from baselines.config.layers import resolve
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


@pytest.mark.parametrize(
    ("policy_rate", "advantage", "learns"),
    [
        # The recipe at the lower rate of the tracks' grids, and at ARLArena's rate, which is meant
        # for models with billions of weights.
        (2e-4, resolve("ppo", "tiny", ["sokoban"]).advantage, True),
        (2e-4, GAE(learning_rate=1e-5), False),
    ],
)
def test_a_critic_learns_what_returns_will_be_in_the_updates_of_a_track(
    policy_rate: float, advantage: GAE, learns: bool
) -> None:
    folder = find_model("tiny-sokoban").path
    assert folder is not None
    rate = advantage.critic_rate(policy_rate)
    optimization = Optimization(max_grad_norm=0.5, weight_decay=0.0)
    critic = Critic(Accelerator(cpu=True), folder, rate, advantage.clip_range, optimization)
    rows = random_rows(ROWS)
    batches = split(rows, list(range(ROWS)), 10_000, share_prefix=False)
    tokens = sum(int(row.response_mask.sum()) for row in rows)
    # Every second row succeeds.
    targets = [torch.full((len(row.response_ids),), 10.0 * (n % 2)) for n, row in enumerate(rows)]
    (batch,) = batches
    wanted, mask = batch.stack(targets), batch.response_mask.bool()
    for _ in range(20):
        with torch.no_grad():
            found = dict(zip(batch.rows, critic.values(batch), strict=True))
        old = [found[row] for row in range(ROWS)]
        for _ in range(4):
            assert critic.step(batches, targets, old, tokens) is not None
    with torch.no_grad():
        left = (wanted - critic.values(batch))[mask]
    explained = 1 - float(left.var() / wanted[mask].var())
    assert explained > 0.5 if learns else explained < 0.05


def test_a_critic_learns_ten_times_as_fast_as_the_policy_unless_it_is_told() -> None:
    assert GAE().critic_rate(1e-6) == pytest.approx(1e-5)
    assert GAE(learning_rate=3e-4).critic_rate(1e-6) == 3e-4


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
