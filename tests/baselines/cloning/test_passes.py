"""Forward passes of cloning: only responses count, and packing equals padding."""

from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from baselines.cloning.examples import Example
from baselines.cloning.passes import IGNORED, collate, deal, packed, predict
from benchmark.engines.core.chat import Chat
from benchmark.engines.transformers.engine import load_model
from benchmark.engines.transformers.tree_attention import use_tree_attention
from tests.support.engines.tiny_model import make_tiny_model

DEVICE = torch.device("cpu")


def test_only_responses_are_trained_on() -> None:
    ids, mask, labels = collate(
        [Example("sokoban", (5, 6, 7), (8, 9), True), Example("sokoban", (5,), (8,), True)]
    )
    assert ids.tolist() == [[5, 6, 7, 8, 9], [5, 8, 0, 0, 0]]
    assert mask.tolist() == [[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]]
    assert labels.tolist() == [
        [IGNORED, IGNORED, IGNORED, 8, 9],
        [IGNORED, 8, IGNORED, IGNORED, IGNORED],
    ]


def test_a_tree_says_where_responses_are_predicted() -> None:
    """Sixteen shared tokens are stored once; a response is predicted from the token before it."""
    shared = tuple(range(100, 116))
    batch = [Example("a", (*shared, 7), (8, 9), True), Example("a", (*shared, 5), (6,), True)]
    tree, before, targets = packed(batch)
    assert tree.ids.tolist() == [*shared, 5, 6, 7, 8, 9]
    assert targets.tolist() == [8, 9, 6]
    assert tree.ids[before].tolist() == [7, 8, 5]


def test_packed_and_padded_turns_have_one_gradient(tmp_path: Path) -> None:
    folder = make_tiny_model(tmp_path / "model")
    rng = np.random.default_rng(0)
    instructions = tuple(rng.integers(3, 60, 40).tolist())
    batch = [
        Example(
            "a",
            (*instructions, *rng.integers(3, 60, rng.integers(1, 30)).tolist()),
            tuple(rng.integers(3, 60, rng.integers(1, 9)).tolist()),
            True,
        )
        for _ in range(20)
    ]
    tokens = sum(len(example.response) for example in batch)
    chat, found = Chat.load(folder), []
    for tree in (False, True):
        model = load_model(folder, "float32", "cpu").double()
        if tree:
            use_tree_attention(model)
        parts = deal(model, batch)
        assert len(parts) == (1 if tree else 3)
        passes = [predict(model, chat, part, DEVICE) for part in parts]
        assert sum(len(targets) for _, targets in passes) == tokens
        loss = sum(cross_entropy(logits, targets, reduction="sum") for logits, targets in passes)
        assert isinstance(loss, torch.Tensor)
        loss.backward()
        gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]
        found.append([loss.detach(), *gradients])
    assert len(found[0]) == len(found[1]) > 5
    for padded, tree_packed in zip(*found, strict=True):
        # The library's norms and rotary embeddings compute in float32 whatever the weights' dtype.
        torch.testing.assert_close(tree_packed, padded, rtol=1e-5, atol=1e-5)
