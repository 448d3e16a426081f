"""The bare cost of an update: generating its tokens again, and training on them with a plain loss.

Nothing here is the trainer's own, so that a change to the trainer leaves what it is measured
against as it is: the decode loop of the engine, and a model of transformers with `torch`'s AdamW.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from baselines.config.schema import Optimization
from baselines.rollouts.rows import Row
from benchmark.engines.core.base import Sampling
from benchmark.engines.core.chat import Chat
from benchmark.engines.transformers import decoding
from benchmark.engines.transformers.engine import load_model
from benchmark.engines.transformers.slots import contents


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU and wall time, in seconds."""

    cpu: float
    wall: float

    def __add__(self, other: "Spent") -> "Spent":
        """Both, one after the other."""
        return Spent(self.cpu + other.cpu, self.wall + other.wall)

    def __sub__(self, other: "Spent") -> "Spent":
        """Between two readings of the clocks."""
        return Spent(self.cpu - other.cpu, self.wall - other.wall)


def clocks() -> Spent:
    """What this process has spent so far."""
    return Spent(time.process_time(), time.perf_counter())


def spent(call: Callable[[], object]) -> Spent:
    """What a call spends."""
    began = clocks()
    call()
    return clocks() - began


@dataclass(frozen=True, slots=True)
class Offer:
    """One recorded turn: what was asked, and what was answered."""

    prompt_ids: tuple[int, ...]
    sampling: Sampling
    seed: int
    response_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """What an update generated and trained on.

    Attributes:
        episodes: The turns of each, in order.
        rows: Of the update.
        plan: Row numbers of each optimizer step.
    """

    episodes: list[list[Offer]]
    rows: Sequence[Row]
    plan: Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one forward pass, padded on the right.

    Attributes:
        prefix_ids: (1, P) tokens that are computed once for all rows; P may be 0.
        input_ids: (rows, W) all others.
        targets: (rows, W) the token that follows on each, -100 where it is not the model's.
        kept: Last columns that hold all targets.
        advantages: (rows, 1).
    """

    prefix_ids: torch.Tensor
    input_ids: torch.Tensor
    targets: torch.Tensor
    kept: int
    advantages: torch.Tensor


class Floor:
    """Does the bare work, on models of its own on the CPU.

    Args:
        folder: The weights to begin with.
        optimization: For the optimizer and the size of micro-batches.
        max_batch: Responses that are generated at once.
    """

    def __init__(self, folder: Path, optimization: Optimization, max_batch: int) -> None:
        self._optimization = optimization
        engine_model = load_model(folder, "float32", "cpu")
        self._decoder = decoding.Decoder(engine_model, Chat.load(folder).stop_ids, max_batch)
        self._model: Any = load_model(folder, "float32", "cpu").train()
        self._optimizer = adamw(self._model, optimization)
        self._weights = {name: t.clone() for name, t in self._model.state_dict().items()}

    def take(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Start from these weights from now on."""
        for name, tensor in self._weights.items():
            tensor.copy_(weights[name])
        self._decoder.load_weights(self._weights, 0)

    def generate(self, work: Work, at_once: bool) -> Spent:
        """Answer all turns again.

        Args:
            work: What to do.
            at_once: All turns are there from the start; otherwise one follows the other.
        """
        self._decoder.forget_prefixes()
        turns = [[turn] for episode in work.episodes for turn in episode]
        chains = turns if at_once else work.episodes
        same = 0

        def run() -> None:
            nonlocal same
            waiting = deque((chain, 0) for chain in chains)
            while waiting or self._decoder.rows:
                new = [waiting.popleft() for _ in range(min(self._decoder.free, len(waiting)))]
                self._decoder.admit(
                    [_decoder_row(chain, turn) for chain, turn in new],
                    [chain[turn].prompt_ids for chain, turn in new],
                )
                for row, completion in self._decoder.step():
                    chain, turn = row.owner
                    same += completion.response_ids == chain[turn].response_ids
                    if turn + 1 < len(chain):
                        waiting.append((chain, turn + 1))

        took = spent(run)
        # Draws depend on the request alone, but for the rounding of batched sums.
        assert same > 0.98 * len(turns), "the floor drew other tokens than the trainer's engine"
        return took

    def train(self, work: Work, share_prefix: bool) -> Spent:
        """Make the same number of optimizer steps from the same rows, with the loss -A log p."""
        tokens = self._optimization.micro_batch_tokens
        steps = [cut(work.rows, chosen, tokens, share_prefix) for chosen in work.plan]
        self._model.load_state_dict(self._weights)

        def run() -> None:
            for batches in steps:
                count = sum(int((batch.targets >= 0).sum()) for batch in batches)
                for batch in batches:
                    (plain_loss(self._model, batch) / count).backward()
                self._optimizer.step()
                self._optimizer.zero_grad()

        return spent(run)


def adamw(model: Any, optimization: Optimization) -> torch.optim.AdamW:
    """The plain optimizer with a run's settings."""
    return torch.optim.AdamW(
        model.parameters(),
        lr=optimization.learning_rate,
        betas=optimization.betas,
        weight_decay=optimization.weight_decay,
    )


def _decoder_row(chain: Sequence[Offer], turn: int) -> decoding.BatchRow:
    offer = chain[turn]
    longest = offer.sampling.max_tokens
    return decoding.BatchRow(
        owner=(chain, turn),
        pending=offer.prompt_ids[-1],
        length=len(offer.prompt_ids) - 1,
        sampling=offer.sampling,
        max_tokens=longest,
        uniforms=decoding.uniforms(offer.seed, longest),
    )


def cut(rows: Sequence[Row], chosen: Sequence[int], tokens: int, share_prefix: bool) -> list[Batch]:
    """Deal rows, by length, into batches of so many tokens, padding included."""
    mean = float(np.mean([row.reward for row in rows]))
    batches: list[list[Row]] = [[]]
    for row in sorted((rows[number] for number in chosen), key=lambda row: row.length):
        if batches[-1] and (len(batches[-1]) + 1) * row.length > tokens:
            batches.append([])
        batches[-1].append(row)
    return [_pad(batch, mean, share_prefix) for batch in batches]


def _pad(rows: Sequence[Row], mean: float, share_prefix: bool) -> Batch:
    prefix = 0
    if share_prefix:
        shortest = min(len(row.prompt_ids) for row in rows) - 1
        starts = np.stack([row.prompt_ids[:shortest] for row in rows])
        differ = np.flatnonzero((starts != starts[0]).any(0))
        prefix = int(differ[0]) if len(differ) else shortest
    width = max(row.length for row in rows) - prefix
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    targets = torch.full((len(rows), width), -100)
    for place, row in enumerate(rows):
        tokens = torch.from_numpy(np.concatenate([row.prompt_ids, row.response_ids])).long()
        ids[place, : row.length - prefix] = tokens[prefix:]
        first, last = len(row.prompt_ids) - prefix - 1, row.length - prefix - 1
        drawn = torch.from_numpy(row.response_mask) > 0
        targets[place, first:last] = torch.where(drawn, tokens[len(row.prompt_ids) :], -100)
    return Batch(
        prefix_ids=torch.from_numpy(rows[0].prompt_ids[:prefix]).long()[None],
        input_ids=ids,
        targets=targets,
        kept=width - int((targets >= 0).any(0).nonzero()[0]),
        advantages=torch.tensor([[row.reward - mean] for row in rows]),
    )


def plain_loss(model: Any, batch: Batch) -> torch.Tensor:
    """Sum of -A log p over the tokens that the model drew."""
    count, width = batch.input_ids.shape
    shared = batch.prefix_ids.shape[1]
    past = None
    if shared:
        cache = DynamicCache()
        model(batch.prefix_ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        past = DynamicCache(
            [(k.expand(count, -1, -1, -1), v.expand(count, -1, -1, -1)) for k, v in contents(cache)]
        )
    logits = model(
        batch.input_ids,
        position_ids=torch.arange(shared, shared + width)[None],
        past_key_values=past,
        use_cache=past is not None,
        logits_to_keep=batch.kept,
    ).logits
    targets = batch.targets[:, -batch.kept :]
    surprise = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), reduction="none"
    )
    return (surprise.view_as(targets) * batch.advantages).sum()
