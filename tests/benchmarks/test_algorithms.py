"""Advantages and losses beside plain torch, without any choice, mask or check."""

import pytest
import torch
from torch import Tensor

from baselines.algorithms.aggregation import Totals, aggregate
from baselines.algorithms.clipping.base import Clipping
from baselines.algorithms.clipping.cispo import CISPO
from baselines.algorithms.clipping.gspo import GSPO
from baselines.algorithms.clipping.ppo import PPOClip
from baselines.algorithms.clipping.sapo import SAPO
from baselines.config.layers import resolve
from baselines.learning.estimation import estimate
from tests.baselines.algorithms.usual import losses_of
from tests.benchmarks.conftest import Beside
from tests.support.training.synthetic_rows import random_rows

RULES: list[Clipping] = [PPOClip(), GSPO(), CISPO(), SAPO()]
ROWS, TOKENS = 256, 512


@pytest.mark.parametrize("recipe", ["grpo", "rloo", "gigpo", "empg", "ppo", "reinforce_pp"])
def test_advantages(beside: Beside, recipe: str) -> None:
    torch.set_num_threads(1)
    config = resolve(recipe, "tiny", ["sokoban"])
    rows = random_rows(240)
    ones = [torch.ones(len(row.response_ids)) for row in rows]
    groups = torch.tensor([row.group for row in rows])
    scores = torch.tensor([row.reward for row in rows])

    def plain() -> Tensor:
        found = torch.zeros(len(rows))
        for group in groups.unique():
            of_group = scores[groups == group]
            found[groups == group] = (of_group - of_group.mean()) / (of_group.std() + 1e-6)
        return found

    beside(
        lambda: estimate(config, rows, ones, ones, ones),
        lambda: [plain() for _ in range(10)],
        "scores standardized in groups, 10 x",
    )


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_losses(beside: Beside, rule: Clipping) -> None:
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    now = (-torch.rand(ROWS, TOKENS, generator=generator)).requires_grad_()
    old = now.detach() + 0.1 * torch.randn(ROWS, TOKENS, generator=generator)
    advantages = torch.randn(ROWS, 1, generator=generator).expand(ROWS, TOKENS)
    mask = (torch.rand(ROWS, TOKENS, generator=generator) < 0.9).float()
    totals = Totals.of(mask)

    def ours() -> Tensor:
        losses = losses_of(rule, now, old, advantages, mask).losses
        loss = aggregate(losses, mask, "token-mean", totals, TOKENS)
        (gradient,) = torch.autograd.grad(loss, now)
        return gradient

    def plain() -> Tensor:
        ratios = torch.exp(now - old)
        limited = torch.clamp(ratios, 0.8, 1.2)
        losses = torch.maximum(-advantages * ratios, -advantages * limited)
        (gradient,) = torch.autograd.grad((losses * mask).sum() / mask.sum(), now)
        return gradient

    if rule == PPOClip():
        torch.testing.assert_close(ours(), plain())
    beside(ours, plain, "PPO's clip in plain torch", 15)
