"""Attention over a packed tree equals attention over each sequence alone, including gradients."""

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmark.engines.transformers.prefix_tree import pack
from benchmark.engines.transformers.tree_attention import tree_attention

Sequences = list[npt.NDArray[np.int32]]


def branching(seed: int, count: int = 12) -> Sequences:
    """Sequences that diverge at random positions, some of which contain others."""
    rng = np.random.default_rng(seed)
    made = [rng.integers(0, 50, 300)]
    while len(made) < count:
        old = made[int(rng.integers(len(made)))]
        begin = old[: int(rng.integers(len(old) + 1))]
        made.append(np.concatenate([begin, rng.integers(0, 50, int(rng.integers(1, 150)))]))
    return [sequence.astype(np.int32) for sequence in [*made, made[0], made[1][:32]]]


@given(st.integers(0, 2**16))
@settings(deadline=None, max_examples=30)
def test_every_sequence_stands_in_the_tree_below_what_it_shares(seed: int) -> None:
    sequences = branching(seed)
    tree = pack(sequences)
    nodes = tree.nodes.tolist()
    for sequence, places in zip(sequences, tree.places, strict=True):
        assert tree.ids[places].tolist() == sequence.tolist()
        assert tree.positions[places].tolist() == list(range(len(sequence)))
        # The last token attends to its own node up to itself, and to all ancestors.
        final = int(places[-1])
        seen = [
            place
            for begin, end, last in nodes
            if begin <= final < last
            for place in range(begin, min(end, final + 1))
        ]
        assert seen == places.tolist()
    assert [begin for begin, _, _ in nodes] == [0, *[end for _, end, _ in nodes[:-1]]]


@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_values_and_gradients_are_those_of_each_sequence_alone(key_heads: int) -> None:
    tree = pack(branching(7))
    count = len(tree.ids)
    torch.manual_seed(0)
    shapes = [(1, heads, count, 8) for heads in (4, key_heads, key_heads)]
    query, key, value = (
        torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes
    )
    found, _ = tree_attention(
        torch.nn.Identity(), query, key, value, tree.nodes[None, None], scaling=0.3
    )
    weights = torch.randn(found.shape, dtype=torch.float64)
    alone = torch.zeros_like(found)
    for places in map(torch.from_numpy, tree.places):
        own = torch.nn.functional.scaled_dot_product_attention(
            query[:, :, places],
            key[:, :, places],
            value[:, :, places],
            is_causal=True,
            scale=0.3,
            enable_gqa=True,
        )
        alone = alone.index_copy(1, places, own.transpose(1, 2))
    torch.testing.assert_close(found, alone, rtol=0, atol=1e-12)
    # index_copy passes the gradient to the last sequence that wrote a token, so it counts once.
    gradients = torch.autograd.grad((found * weights).sum(), (query, key, value))
    expected = torch.autograd.grad((alone * weights).sum(), (query, key, value))
    for one, other in zip(gradients, expected, strict=True):
        assert float(other.abs().max()) > 0.1
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_without_a_tree_attention_is_the_usual_one() -> None:
    query, key, value = (torch.randn(2, 4, 9, 8) for _ in range(3))
    module = torch.nn.Identity()
    module.is_causal = True  # type: ignore[assignment]
    found, _ = tree_attention(module, query, key, value, attention_mask=None, scaling=0.5)
    usual = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=0.5
    )
    torch.testing.assert_close(found, usual.transpose(1, 2))
