"""The trainer's forward pass agrees with a plain one over whole sequences, row by row."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel

from baselines.learning import policy
from baselines.learning.microbatches import (
    MicroBatch,
    PaddedBatch,
    collate,
    filler,
    pack_rows,
    split,
)
from baselines.learning.policy import TokenValues, drawn_logits, evaluate_tokens
from baselines.rollouts.rows import Row
from benchmark.engines.transformers.tree_attention import use_tree_attention
from tests.support.training.synthetic_rows import VOCABULARY, random_model, random_rows

ROWS = random_rows(19)


def gpt2() -> PreTrainedModel:
    """A network that computes in float64 throughout, with learned positions."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=256,
        n_embd=24,
        n_layer=2,
        n_head=2,
        initializer_range=0.2,
    )
    model: PreTrainedModel = GPT2LMHeadModel(config).double().eval()
    return model


# Qwen3 normalizes in float32 whatever its weights' dtype.
MODELS: dict[str, tuple[Callable[[], PreTrainedModel], float]] = {
    "gpt2": (gpt2, 1e-9),
    "qwen3": (random_model, 2e-6),
}
TOLERANCE = 2e-6
WHOLE = sum(row.length for row in ROWS)


def plain(model: PreTrainedModel, row: Row, temperature: float) -> torch.Tensor:
    """(T, vocabulary) log-probabilities from one pass over the row alone."""
    ids = torch.from_numpy(np.concatenate([row.prompt_ids, row.response_ids]).astype(np.int64))
    logits = model(ids[None], use_cache=False).logits[0]
    before = logits[len(row.prompt_ids) - 1 : -1]
    return torch.log_softmax(before / temperature, dim=-1)


def of_row(values: torch.Tensor, batch: MicroBatch, number: int) -> torch.Tensor:
    return values[batch.rows.index(number), : len(ROWS[number].response_ids)]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("way", ["padded", "shared", "packed"])
@pytest.mark.parametrize(("tokens", "temperature"), [(1, 1.0), (600, 1.0), (600, 0.6)])
def test_values_are_those_of_the_whole_sequences(
    tokens: int, temperature: float, way: str, name: str
) -> None:
    make, tolerance = MODELS[name]
    model = make()
    everything = range(len(ROWS))
    batches: Sequence[MicroBatch] = split(ROWS, everything, tokens, way == "shared")
    shared = [
        batch for batch in batches if isinstance(batch, PaddedBatch) and len(batch.prefix_ids)
    ]
    assert bool(shared) == (way == "shared" and tokens > 1)
    if way == "packed":
        use_tree_attention(model)
        batches = pack_rows(ROWS, everything, tokens)
        # All prompts share their first forty tokens, of which 32, in whole blocks, are packed once.
        packed = sum(len(batch.ids) for batch in batches)
        assert packed == WHOLE - 32 * (len(ROWS) - len(batches))
    with torch.no_grad():
        for batch in batches:
            found = evaluate_tokens(model, batch, temperature, entropy=True)
            assert found.entropy is not None
            for number in batch.rows:
                row = ROWS[number]
                mask = torch.from_numpy(row.response_mask).double()
                drawn = torch.from_numpy(row.response_ids.astype(np.int64))[:, None]
                own = plain(model, row, temperature)
                cold = plain(model, row, 1.0)
                expected = (
                    (found.log_probs, own.gather(1, drawn)[:, 0]),
                    (found.untempered, cold.gather(1, drawn)[:, 0]),
                    (found.entropy, -(own.exp() * own).sum(1)),
                )
                for values, wanted in expected:
                    torch.testing.assert_close(
                        of_row(values, batch, number), wanted * mask, rtol=0, atol=tolerance
                    )
            # Positions without a sampled token are 0.
            padding = batch.response_mask == 0
            for values in (found.log_probs, found.untempered, found.entropy):
                assert not values[padding].any()


@pytest.mark.parametrize("packed", [False, True])
def test_gradients_are_those_of_the_whole_sequences(packed: bool) -> None:
    model = gpt2()
    batch: MicroBatch = collate(ROWS, range(len(ROWS)), share_prefix=True)
    assert isinstance(batch, PaddedBatch) and len(batch.prefix_ids) >= 40
    if packed:
        use_tree_attention(model)
        (batch,) = pack_rows(ROWS, range(len(ROWS)), 10_000)
    found = evaluate_tokens(model, batch, 0.8, entropy=True, entropy_gradient=True)
    assert found.entropy is not None
    (found.log_probs.sum() - 0.3 * found.entropy.sum()).backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters()}
    model.zero_grad(set_to_none=True)
    for row in ROWS:
        mask = torch.from_numpy(row.response_mask).double()
        own = plain(model, row, 0.8)
        drawn = torch.from_numpy(row.response_ids.astype(np.int64))[:, None]
        entropy = -(own.exp() * own).sum(1)
        (((own.gather(1, drawn)[:, 0] - 0.3 * entropy) * mask).sum()).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and float(weight.grad.abs().max()) > 1e-3
        torch.testing.assert_close(gradients[name], weight.grad, rtol=1e-9, atol=1e-9)


def test_entropy_is_the_same_with_and_without_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    # In chunks of logits, as with a large vocabulary.
    monkeypatch.setattr(policy, "ENTROPY_CHUNK", 3 * VOCABULARY)
    model = random_model()
    batch = collate(ROWS, range(len(ROWS)), share_prefix=False)
    learning = evaluate_tokens(model, batch, entropy=True, entropy_gradient=True).entropy
    logged = evaluate_tokens(model, batch, entropy=True).entropy
    assert learning is not None and learning.requires_grad
    assert logged is not None and not logged.requires_grad
    torch.testing.assert_close(learning.detach(), logged, rtol=0, atol=1e-12)
    drawn = logged[batch.response_mask > 0]
    assert float(drawn.min()) >= 0 and float(drawn.max()) <= math.log(VOCABULARY)
    assert float(drawn.std()) > 0.05


def evaluate(entropy: bool = False, entropy_gradient: bool = False) -> TokenValues:
    batch = collate(ROWS, [0, 1], share_prefix=False)
    return evaluate_tokens(random_model(), batch, 0.5, entropy, entropy_gradient)


def test_only_what_is_asked_for_has_a_gradient() -> None:
    found = evaluate()
    assert found.entropy is None
    assert found.log_probs.requires_grad and not found.untempered.requires_grad
    with torch.no_grad():
        assert not evaluate(entropy=True, entropy_gradient=True).log_probs.requires_grad


def test_padding_and_neighbors_change_nothing() -> None:
    model = random_model()
    with torch.no_grad():
        alone = evaluate_tokens(model, collate(ROWS, [3], share_prefix=False)).log_probs
        batch = collate(ROWS, [7, 3, 11], share_prefix=False)
        among = evaluate_tokens(model, batch).log_probs
        moved = replace(batch, input_ids=batch.input_ids.clone())
        length = ROWS[3].length
        moved.input_ids[1, length:] = 17
        other = evaluate_tokens(model, moved).log_probs
    torch.testing.assert_close(of_row(among, batch, 3), alone[0], rtol=0, atol=TOLERANCE)
    torch.testing.assert_close(of_row(other, batch, 3), alone[0], rtol=0, atol=TOLERANCE)


def test_a_filler_says_nothing_and_teaches_nothing() -> None:
    model = random_model()
    found = evaluate_tokens(model, filler(ROWS), entropy=True, entropy_gradient=True)
    assert found.entropy is not None
    assert not found.log_probs.any() and not found.entropy.any()
    (found.log_probs.sum() + found.entropy.sum()).backward()
    for weight in model.parameters():
        assert weight.grad is None or not weight.grad.any()


def test_logits_of_narrow_types_are_widened() -> None:
    batch = collate(ROWS, [0, 1], share_prefix=False)
    with torch.no_grad():
        assert drawn_logits(random_model().bfloat16(), batch)[0].dtype == torch.float32
        assert drawn_logits(random_model(), batch)[0].dtype == torch.float64
