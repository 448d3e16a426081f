"""The bare cost of an update with the library's model alone, in plain loops.

Where `bare_work.py` generates with this project's decoder and trains on its order of rows, this
does neither: prompts of about one length are padded on the left and answered together, token by
token with the library's own cache, and rows are packed one behind the other, without padding. What
the decoder and the batches are worth can be read off the difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from transformers import DynamicCache

from baselines.config.schema import Optimization
from baselines.rollouts.rows import Row
from benchmark.engines.transformers.engine import load_model
from tests.benchmarks.floors.bare_work import Offer, Spent, Work, adamw, spent

PACK: Final = 400
"""Tokens of a pack. Attention between rows is computed, then masked: of 90 rows of 190 tokens, a
forward and backward pass took 1.4 CPU s in packs of 200 and of 400, 1.9 of 800, 2.7 of 1,024."""


class PlainFloor:
    """Does the bare work, on models of its own on the CPU.

    Args:
        folder: The weights to begin with.
        optimization: For the optimizer.
        max_batch: Responses that are generated at once.
    """

    def __init__(self, folder: Path, optimization: Optimization, max_batch: int) -> None:
        self._max_batch = max_batch
        self._player: Any = load_model(folder, "float32", "cpu").eval()
        self._model: Any = load_model(folder, "float32", "cpu").train()
        self._optimizer = adamw(self._model, optimization)

    def take(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Start from these weights from now on."""
        self._player.load_state_dict(weights)

    def generate(self, work: Work) -> Spent:
        """Answer all turns again, all of them there from the start."""
        turns = [turn for episode in work.episodes for turn in episode]
        ordered = sorted(turns, key=lambda turn: len(turn.prompt_ids))

        def run() -> None:
            for start in range(0, len(ordered), self._max_batch):
                answer(self._player, ordered[start : start + self._max_batch])

        return spent(run)

    def train(self, work: Work) -> Spent:
        """Make the same number of optimizer steps from the same rows, with the loss -A log p."""
        self._model.load_state_dict(self._player.state_dict())
        mean = float(np.mean([row.reward for row in work.rows]))

        def run() -> None:
            for chosen in work.plan:
                rows = [work.rows[number] for number in chosen]
                count = sum(int(row.response_mask.sum()) for row in rows)
                for pack in packs(rows):
                    (packed_loss(self._model, pack, mean) / count).backward()
                self._optimizer.step()
                self._optimizer.zero_grad()

        return spent(run)


@torch.inference_mode()
def answer(model: Any, offers: Sequence[Offer]) -> None:
    """Draw as many tokens as the longest recorded response has; go on with the recorded ones.

    What was drawn is thrown away: other tokens would end at another length, and be other work.
    """
    width = max(len(offer.prompt_ids) for offer in offers)
    longest = max(len(offer.response_ids) for offer in offers)
    ids = torch.zeros((len(offers), width), dtype=torch.long)
    mask = torch.zeros((len(offers), width + longest), dtype=torch.long)
    said = torch.zeros((len(offers), longest), dtype=torch.long)
    for place, offer in enumerate(offers):
        ids[place, width - len(offer.prompt_ids) :] = torch.tensor(offer.prompt_ids)
        mask[place, width - len(offer.prompt_ids) :] = 1
        said[place, : len(offer.response_ids)] = torch.tensor(offer.response_ids)
    cache = DynamicCache()
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    begin = 0
    for turn in range(longest):
        end = width + turn
        logits = model(
            ids,
            attention_mask=mask[:, :end],
            position_ids=positions[:, begin:end],
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        torch.multinomial(logits[:, -1].softmax(-1), 1)
        ids, begin = said[:, turn : turn + 1], end


def packs(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows in order, as many together as fit."""
    pack: list[Row] = []
    for row in rows:
        if pack and sum(each.length for each in pack) + row.length > PACK:
            yield pack
            pack = []
        pack.append(row)
    yield pack


def packed_loss(model: Any, rows: Sequence[Row], mean: float) -> torch.Tensor:
    """Sum of -A log p over the tokens that the model drew.

    Args:
        model: A model of transformers, which tells rows apart by positions that start over.
        rows: One behind the other in a single sequence.
        mean: Reward of all rows, to be subtracted.
    """
    tokens = [torch.from_numpy(np.concatenate([row.prompt_ids, row.response_ids])) for row in rows]
    targets = []
    for row, ids in zip(rows, tokens, strict=True):
        follows = torch.full((row.length,), -100)
        drawn = torch.from_numpy(row.response_mask) > 0
        begin = len(row.prompt_ids)
        follows[begin - 1 : -1] = torch.where(drawn, ids[begin:].long(), -100)
        targets.append(follows)
    wanted = torch.cat(targets)
    places = (wanted >= 0).nonzero()[:, 0]
    logits = model(
        torch.cat(tokens).long()[None],
        position_ids=torch.cat([torch.arange(row.length) for row in rows])[None],
        use_cache=False,
        logits_to_keep=places,
    ).logits[0]
    surprise = torch.nn.functional.cross_entropy(logits, wanted[places], reduction="none")
    advantages = torch.cat([torch.full((row.length,), row.reward - mean) for row in rows])
    return (surprise * advantages[places]).sum()
