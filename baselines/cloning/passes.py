"""Forward passes over a batch of demonstrated turns.

Texts on a CPU are packed as prefix trees, in which shared parts of prompts are computed once;
everything else is padded, a few turns of similar length at a time.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from baselines.cloning.examples import Example
from benchmark.engines.core.chat import Chat
from benchmark.engines.transformers.prefix_tree import Ids, PrefixTree, by_prefix, pack, take
from benchmark.engines.transformers.tree_attention import TREE_ATTENTION

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IGNORED = -100
_TOGETHER = 8
"""Turns per padded pass; a batch is sorted by length first to reduce padding."""
_PACKED = 8192
"""Tokens per packed pass."""


def deal(model: "PreTrainedModel", batch: Sequence[Example]) -> list[list[Example]]:
    """Split a batch into forward passes.

    Args:
        model: The model, possibly wrapped for several processes.
        batch: All turns of the batch.
    """
    if _packs(model, batch):
        sequences = [_ids(example) for example in batch]
        ordered, parts = by_prefix(sequences), []
        while ordered:
            count = take(sequences, ordered, _PACKED)
            parts.append([batch[number] for number in ordered[:count]])
            ordered = ordered[count:]
        return parts
    by_length = sorted(batch, key=lambda example: len(example.prompt) + len(example.response))
    return [by_length[at : at + _TOGETHER] for at in range(0, len(by_length), _TOGETHER)]


def predict(
    model: "PreTrainedModel", chat: Chat, part: Sequence[Example], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute a model's predictions of the responses in one pass.

    Args:
        model: The model, possibly wrapped for several processes. With tree attention, texts are
            packed.
        chat: Chat format, with an image processor if there are images.
        part: The turns.
        device: The model's device.

    Returns:
        Logits (M, vocabulary) of the response tokens, and these tokens (M,).
    """
    if _packs(model, part):
        tree, before, targets = packed(part)
        logits = model(
            input_ids=tree.ids[None],
            position_ids=tree.positions[None],
            attention_mask=tree.nodes[None, None],
            use_cache=False,
            logits_to_keep=before,
        ).logits
        return logits[0], targets
    ids, mask, labels = (tensor.to(device) for tensor in collate(part))
    # Compute no logits before the first response: in a network this small, those of whole prompts
    # would cost as much as everything else.
    begin = int((labels != IGNORED).any(0).nonzero()[0])
    kept = labels.shape[1] - begin + 1
    seen = image_inputs(chat, part, ids)
    logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=kept, **seen).logits
    counted = labels[:, begin:] != IGNORED
    return logits[:, :-1][counted], labels[:, begin:][counted]


def _packs(model: "PreTrainedModel", batch: Sequence[Example]) -> bool:
    """Whether to pack turns as a prefix tree."""
    bare = getattr(model, "module", model)
    texts = not any(example.images for example in batch)
    return texts and bare.config._attn_implementation == TREE_ATTENTION


def _ids(example: Example) -> Ids:
    """Token ids of a turn."""
    return np.asarray(example.prompt + example.response, np.int32)


def packed(part: Sequence[Example]) -> tuple[PrefixTree, torch.Tensor, torch.Tensor]:
    """Pack turns without images as a prefix tree.

    Returns:
        The tree, the positions in it of the tokens that precede those of the responses (M,), and
        the tokens of the responses (M,).
    """
    tree = pack([_ids(example) for example in part])
    before = [
        places[len(example.prompt) - 1 : -1]
        for example, places in zip(part, tree.places, strict=True)
    ]
    targets = [token for example in part for token in example.response]
    return tree, torch.from_numpy(np.concatenate(before)), torch.tensor(targets)


def collate(batch: Sequence[Example]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pad turns on the right.

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
    """The arguments of a model's `forward` for the images of a batch; empty without images.

    Args:
        chat: Chat format, with an image processor.
        batch: The examples.
        ids: Their token ids, as from `collate`, on the model's device.
    """
    images = [image for example in batch for image in example.images]
    if not images:
        return {}
    vision = chat.vision()
    patches = vision.patches([image.picture() for image in images])
    kinds = (ids == vision.image_token).int()
    inputs = {name: torch.from_numpy(values).to(ids.device) for name, values in patches.items()}
    return {"mm_token_type_ids": kinds, **inputs}
