"""Forward passes of a batch of demonstrated turns.

Texts on a CPU are packed as prefix trees, in which what prompts share is computed once; everything
else is padded, a few turns of about one length at a time.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from baselines.cloning.examples import Example
from benchmark.engines.core.chat import Chat
from benchmark.engines.transformers.prefix_tree import PrefixTree, by_prefix, pack, take
from benchmark.engines.transformers.tree_attention import TREE_ATTENTION

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IGNORED = -100
_TOGETHER = 8
"""Turns of one padded pass; a batch is sorted by length first, so that little is padding."""
_PACKED = 8192
"""Tokens of one packed pass."""


def predictions(
    model: "PreTrainedModel", chat: Chat, batch: Sequence[Example], device: torch.device
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """What a model predicts of the responses of a batch, pass by pass.

    Args:
        model: Perhaps wrapped for several processes. One with tree attention gets packed turns.
        chat: Reads images.
        batch: The turns.
        device: The model's.

    Yields:
        Logits (M, vocabulary) of the response tokens, and these tokens (M,).
    """
    bare = getattr(model, "module", model)
    packs = bare.config._attn_implementation == TREE_ATTENTION
    if packs and not any(example.images for example in batch):
        for tree, before, targets in packed(batch, _PACKED):
            logits = model(
                input_ids=tree.ids[None],
                position_ids=tree.positions[None],
                attention_mask=tree.nodes[None, None],
                use_cache=False,
                logits_to_keep=before,
            ).logits
            yield logits[0], targets
        return
    ordered = sorted(batch, key=lambda example: len(example.prompt) + len(example.response))
    for start in range(0, len(ordered), _TOGETHER):
        part = ordered[start : start + _TOGETHER]
        ids, mask, labels = (tensor.to(device) for tensor in collate(part))
        # Nothing is asked of what comes before the first response: in a network this small, the
        # predictions of whole prompts would cost as much as all else.
        begin = int((labels != IGNORED).any(0).nonzero()[0])
        kept = labels.shape[1] - begin + 1
        seen = image_inputs(chat, part, ids)
        logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=kept, **seen).logits
        counted = labels[:, begin:] != IGNORED
        yield logits[:, :-1][counted], labels[:, begin:][counted]


def packed(
    batch: Sequence[Example], tokens: int
) -> Iterator[tuple[PrefixTree, torch.Tensor, torch.Tensor]]:
    """Deal turns without images into prefix trees.

    Args:
        batch: The turns.
        tokens: Limit of the packed tokens of one tree; a longer turn is alone.

    Yields:
        A tree, where in it the tokens stand that precede those of the responses (M,), and the
        tokens of the responses (M,).
    """
    sequences = [np.asarray(each.prompt + each.response, np.int32) for each in batch]
    ordered = by_prefix(sequences)
    while ordered:
        count = take(sequences, ordered, tokens)
        chosen, ordered = ordered[:count], ordered[count:]
        tree = pack([sequences[number] for number in chosen])
        before = [
            places[len(batch[number].prompt) - 1 : -1]
            for number, places in zip(chosen, tree.places, strict=True)
        ]
        targets = [token for number in chosen for token in batch[number].response]
        yield tree, torch.from_numpy(np.concatenate(before)), torch.tensor(targets)


def collate(batch: list[Example]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pad examples on the right.

    Returns:
        Token ids, attention mask and labels, each (batch, longest); labels are `IGNORED` outside
        the responses.
    """
    width = max(len(example.prompt) + len(example.response) for example in batch)
    ids = torch.zeros((len(batch), width), dtype=torch.long)
    mask = torch.zeros_like(ids)
    labels = torch.full_like(ids, IGNORED)
    for row, example in enumerate(batch):
        begin, end = len(example.prompt), len(example.prompt) + len(example.response)
        ids[row, :end] = torch.tensor(example.prompt + example.response)
        mask[row, :end] = 1
        labels[row, begin:end] = ids[row, begin:end]
    return ids, mask, labels


def image_inputs(
    chat: Chat, batch: Sequence[Example], ids: torch.Tensor
) -> dict[str, torch.Tensor]:
    """What a model's `forward` takes for the images of a batch; empty without any.

    Args:
        chat: With what reads images.
        batch: The examples.
        ids: Their token ids, as `collate` has them, on the model's device.
    """
    images = [image for example in batch for image in example.images]
    if not images:
        return {}
    vision = chat.vision()
    patches = vision.patches([image.picture() for image in images])
    kinds = (ids == vision.image_token).int()
    inputs = {name: torch.from_numpy(values).to(ids.device) for name, values in patches.items()}
    return {"mm_token_type_ids": kinds, **inputs}
