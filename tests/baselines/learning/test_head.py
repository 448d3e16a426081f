"""The last layer in chunks gives the same values and gradients as in one piece."""

import pytest
import torch
from accelerate import Accelerator

from baselines.learning.head import Wanted, chunked_head, token_values, use_chunked_head
from baselines.learning.microbatches import MicroBatch, PaddedBatch, pack_rows, split
from baselines.learning.policy import evaluate_tokens
from baselines.learning.sharding import frozen
from benchmark.engines.transformers.tree_attention import use_tree_attention
from tests.support.training.synthetic_rows import random_model, random_rows

ROWS = random_rows(19)


def batch_of(way: str) -> MicroBatch:
    everything = range(len(ROWS))
    if way == "packed":
        (packed,) = pack_rows(ROWS, everything, 100_000)
        return packed
    (padded,) = split(ROWS, everything, 100_000, share_prefix=way == "shared")
    return padded


def found(
    chunk: int | None, batch: MicroBatch, temperature: float, entropy_gradient: bool
) -> list[torch.Tensor]:
    """Values of the tokens, and gradients of a loss on them for all weights."""
    model = random_model()
    if not isinstance(batch, PaddedBatch):
        use_tree_attention(model)
    if chunk is not None:
        assert use_chunked_head(model, chunk)
        assert chunked_head(model) is not None
    values = evaluate_tokens(model, batch, temperature, True, entropy_gradient)
    assert values.entropy is not None
    assert values.entropy.requires_grad == entropy_gradient
    assert not values.untempered.requires_grad
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(values.log_probs.shape, generator=generator, dtype=torch.float64)
    loss = (weights * values.log_probs).sum()
    if entropy_gradient:
        loss = loss + (weights.flip(0) * values.entropy).sum()
    loss.backward()
    gradients = [weight.grad for weight in model.parameters()]
    said = [values.log_probs, values.untempered, values.entropy]
    return [value.detach() for value in said] + [grad for grad in gradients if grad is not None]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["padded", "shared", "packed"])
@pytest.mark.parametrize(("chunk", "temperature"), [(1, 1.0), (7, 0.6), (10_000, 1.0)])
@pytest.mark.parametrize("entropy_gradient", [False, True])
def test_chunks_change_nothing(
    way: str, chunk: int, temperature: float, entropy_gradient: bool
) -> None:
    batch = batch_of(way)
    whole = found(None, batch, temperature, entropy_gradient)
    parts = found(chunk, batch, temperature, entropy_gradient)
    # Values, embeddings (tied to the last layer's weights) and two layers with eleven weights.
    assert len(whole) == len(parts) == 3 + 1 + 2 * 11 + 1
    for expected, value in zip(whole, parts, strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-7, atol=1e-12)


def test_the_slopes_are_those_that_finite_differences_give() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(5, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    wanted = Wanted((), torch.tensor([0, 6, 2, 2, 5]), 0.7, entropy=True, entropy_gradient=True)

    def values(states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return token_values(states, weight, wanted, 2, torch.float64)[:, [0, 2]]

    assert torch.autograd.gradcheck(values, (states, weight))


def test_weights_of_16_bits_get_gradients_that_are_summed_in_32() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(512, 8, generator=generator)
    weight = torch.randn(11, 8, generator=generator)
    wanted = Wanted((), torch.randint(11, (512,), generator=generator), 1.0, entropy=False)
    made = []
    for chunk in (512, 1):
        narrow = weight.bfloat16().requires_grad_()
        log_probs = token_values(states.bfloat16(), narrow, wanted, chunk, torch.bfloat16)
        assert log_probs.dtype == torch.float32
        log_probs[:, 0].sum().backward()
        assert narrow.grad is not None
        made.append(narrow.grad.float())
    # 512 additions in bfloat16 would each lose anything below 1/256 of the sum.
    torch.testing.assert_close(made[0], made[1], rtol=0.02, atol=0.02 * float(made[0].abs().max()))


def test_models_that_change_their_logits_keep_the_usual_head() -> None:
    model = random_model()
    model.config.final_logit_softcapping = 30.0
    assert not use_chunked_head(model, 8)
    assert chunked_head(model) is None


def test_a_frozen_copy_in_half_the_memory_says_what_the_policy_says() -> None:
    accelerator = Accelerator(cpu=True)
    accelerator.state._mixed_precision = "bf16"
    try:
        policy = random_model().float()
        reference = frozen(accelerator, random_model().float())
    finally:
        accelerator.state._mixed_precision = "no"
    assert sum(w.numel() * w.element_size() for w in reference.parameters()) < (
        0.75 * sum(w.numel() * w.element_size() for w in policy.parameters())
    )
    batch = batch_of("padded")
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        said, before = evaluate_tokens(policy, batch), evaluate_tokens(reference, batch)
    assert torch.equal(said.log_probs, before.log_probs)
    assert not any(weight.requires_grad for weight in reference.parameters())
