"""The optimizer and its learning rate, also if torchao stores the rate in a tensor."""

import pytest
import torch

from baselines.config.schema import Optimization
from baselines.learning.adamw import make_optimizer, set_learning_rate


@pytest.mark.parametrize("rate", [0.5, torch.tensor(0.5)], ids=["number", "tensor"])
def test_a_rate_is_that_of_the_next_step(rate: float | torch.Tensor) -> None:
    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = torch.optim.AdamW([weight], lr=rate, weight_decay=0.0)
    set_learning_rate(optimizer, 0.25)
    weight.grad = torch.ones(3)
    optimizer.step()
    # Adam's first step equals the rate, whatever the gradient.
    torch.testing.assert_close(weight.detach(), torch.full((3,), -0.25))
    assert isinstance(optimizer.param_groups[0]["lr"], type(rate))


@pytest.mark.slow  # torch compiles the optimizer's steps.
def test_moments_of_8_bits_learn_at_every_rate_and_after_a_resume() -> None:
    pytest.importorskip("torchao", reason="needs torchao: pip install torchao")
    assert Optimization().model_dump().get("optimizer") is None

    def learn(kind: str) -> torch.Tensor:
        torch.manual_seed(0)
        layer = torch.nn.Linear(256, 64)
        before = layer.weight.detach().clone()
        optimizer = make_optimizer(layer.parameters(), torch.device("cpu"), kind, lr=1e-3)
        for rate in (1e-3, 5e-4):
            set_learning_rate(optimizer, rate)
            layer(torch.ones(1, 256)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            saved = optimizer.state_dict()
            optimizer = make_optimizer(layer.parameters(), torch.device("cpu"), kind, lr=1.0)
            optimizer.load_state_dict(saved)
        return layer.weight.detach() - before

    torch.testing.assert_close(learn("adamw"), learn("adamw_8bit"), rtol=0.05, atol=1e-5)
