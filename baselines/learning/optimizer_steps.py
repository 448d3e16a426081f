"""One update: optimizer steps over a rollout's rows, and their statistics.

Every process holds all rows of the rollout. The rows of an optimizer step are fixed before they
are split over processes and micro-batches, and all sums are divided by totals of the whole step, so
neither the number of processes nor the micro-batch size affects the result.
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from accelerate import Accelerator
from accelerate.utils import gather_object

from baselines.algorithms.aggregation import SHRINKING, Totals, aggregate
from baselines.algorithms.clipping.base import SequenceMask, TokenBatch
from baselines.algorithms.kl import kl
from baselines.config.schema import Optimization, TrainConfig
from baselines.learning.critic import Critic
from baselines.learning.images import ImageReader
from baselines.learning.microbatches import (
    ForwardBatch,
    MicroBatch,
    PaddedBatch,
    RowValues,
    filler,
    pack_rows,
    split,
)
from baselines.learning.policy import evaluate_tokens
from baselines.learning.sharding import full_grad_norm, is_sharded
from baselines.learning.tally import UpdateStats
from baselines.rollouts.rows import Row
from benchmark.engines.core.vision import reads_images
from benchmark.engines.transformers.tree_attention import TREE_ATTENTION
from tasks.seeding import stable_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

B = TypeVar("B", bound=ForwardBatch)
Tensors = list[torch.Tensor | None]


class SkippedSteps(NamedTuple):
    """Number of latest consecutive steps that were skipped because they were not finite."""

    policy: int = 0
    critic: int = 0


class Updater:
    """A policy, its optimizer, and whatever else an update needs.

    Args:
        accelerator: Processes and devices.
        model: The policy, prepared.
        optimizer: Its optimizer, prepared.
        config: The recipe's choices.
        critic: The critic, if the advantage needs one (`WithCritic`).
        share_prefix: Compute the prefix that padded rows share once per micro-batch; not with FSDP,
            whose hooks expect one forward pass, nor with gradient checkpointing, which keeps no
            cache. A model with tree attention always gets packed rows instead.
        longest: Maximum response tokens of a row, the constant of Dr. GRPO; None for the maximum of
            one turn.
        folder: The init's folder, for reading images; None if there are none.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        model: "PreTrainedModel",
        optimizer: Any,
        config: TrainConfig,
        critic: Critic | None = None,
        share_prefix: bool = True,
        longest: int | None = None,
        folder: Path | None = None,
    ) -> None:
        self.accelerator = accelerator
        self.model = model
        self.optimizer = optimizer
        self.config = config
        self.critic = critic
        self.share_prefix = share_prefix
        self.longest = longest or config.rollout.max_tokens
        self.skipped = SkippedSteps()
        bare = accelerator.unwrap_model(model)
        self.reader = (
            ImageReader(folder, bare) if folder is not None and reads_images(folder) else None
        )
        self.packs = bare.config._attn_implementation == TREE_ATTENTION

    @property
    def diverged(self) -> bool:
        """Whether enough consecutive steps were not finite that training should stop."""
        return max(self.skipped) >= self.config.optimization.max_skipped

    def values_of(
        self,
        rows: Sequence[Row],
        chosen: Sequence[int],
        model: "PreTrainedModel | None" = None,
        entropy: bool = False,
    ) -> tuple[Tensors, Tensors, Tensors]:
        """Log-probabilities under the current weights, for rows of all processes.

        Args:
            rows: All rows of the rollout.
            chosen: Numbers of the rows to compute; the work is split over all processes.
            model: A model to use instead of the policy.
            entropy: Whether to compute entropies as well.

        Returns:
            Log-probabilities at the rollout's temperature, at temperature 1, and entropies: (T,)
            per row, None for the other rows.
        """
        tempered: Tensors = [None] * len(rows)
        plain: Tensors = [None] * len(rows)
        entropies: Tensors = [None] * len(rows)
        temperature = self.config.rollout.temperature
        with torch.no_grad():
            for batch in self._moved(self._micro_batches(rows, chosen)):
                with self.accelerator.autocast():
                    values = evaluate_tokens(model or self.model, batch, temperature, entropy)
                _scatter(batch, values.log_probs, rows, tempered)
                _scatter(batch, values.untempered, rows, plain)
                if values.entropy is not None:
                    _scatter(batch, values.entropy, rows, entropies)
        return self._share(tempered), self._share(plain), self._share(entropies)

    def critic_values(self, rows: Sequence[Row]) -> Tensors:
        """(T,) values per row, for rows of all processes."""
        assert self.critic is not None
        values: Tensors = [None] * len(rows)
        with torch.no_grad():
            for batch in self._moved(self._padded_batches(rows, range(len(rows)))):
                _scatter(batch, self.critic.values(batch), rows, values)
        return self._share(values)

    def update(
        self,
        rows: Sequence[Row],
        values: RowValues,
        plan: Sequence[Sequence[int]],
        targets: Sequence[torch.Tensor] | None = None,
        old_values: Sequence[torch.Tensor | None] | None = None,
    ) -> UpdateStats:
        """Make the optimizer steps of a rollout.

        Args:
            rows: All rows.
            values: Their advantages, log-probabilities and weights.
            plan: Row numbers of each step (`mini_batches`).
            targets: The critic's targets; needs `old_values`.
            old_values: The critic's values before the update.
        """
        tally = UpdateStats()
        for chosen in plan:
            if self.diverged:
                break
            if self._teaches(values, chosen):
                self._step(rows, values, chosen, tally)
            if self.critic is not None and targets is not None and old_values is not None:
                batches = self._padded_batches(rows, chosen)
                total = sum(int(rows[row].response_mask.sum()) for row in chosen)
                loss = self.critic.step(batches, list(targets), list(old_values), total)
                self._note_critic(loss, tally)
        return tally

    def _teaches(self, values: RowValues, chosen: Sequence[int]) -> bool:
        """Whether to make a step; one without any gradient is skipped if so configured.

        All processes know all advantages and decide alike.
        """
        config = self.config
        in_loss = config.kl.coef > 0 and config.kl.place == "loss"
        if not config.optimization.skip_empty or in_loss or config.entropy_coef != 0:
            return True
        return any(bool(values.advantages[row].any()) for row in chosen)

    def _step(
        self, rows: Sequence[Row], values: RowValues, chosen: Sequence[int], tally: UpdateStats
    ) -> None:
        """Make one optimizer step on the chosen rows."""
        accelerator, config = self.accelerator, self.config
        batches = self._micro_batches(rows, chosen)
        whole = _totals(rows, chosen)
        # The first step's old policy is the current one.
        fresh = all(values.old_log_probs[row] is None for row in chosen)
        kept = _Kept([None] * len(batches), whole)
        rule = config.clipping.sequence_mask
        if rule is not None and self._masks_first and not fresh:
            kept = self._kept(rule, values, batches, whole, tally)
        loss = 0.0
        for number, batch in enumerate(self._moved(batches)):
            last = number == len(batches) - 1
            # Without syncing, FSDP would keep full gradients, so reduce after each micro-batch.
            at_once = last or is_sharded(accelerator)
            with nullcontext() if at_once else accelerator.no_sync(self.model):
                with accelerator.autocast():
                    share = self._loss(batch, values, fresh, whole, kept.of(number), tally)
                # Gradients are averaged over processes, but the shares have to be summed.
                accelerator.backward(share * accelerator.num_processes)
            loss += float(share.detach())
        norm = full_grad_norm(
            accelerator.clip_grad_norm_(self.model.parameters(), config.optimization.max_grad_norm)
        )
        tally.grad_norms.append(norm)
        finite = math.isfinite(norm)
        if finite:
            self.optimizer.step()
            tally.losses.append(loss)
        self.optimizer.zero_grad()
        tally.skipped += not finite
        self.skipped = self.skipped._replace(policy=0 if finite else self.skipped.policy + 1)

    def _note_critic(self, loss: float | None, tally: UpdateStats) -> None:
        """Count a critic step; a step without loss was skipped."""
        if loss is not None:
            tally.critic_losses.append(loss)
        tally.critic_skipped += loss is None
        in_a_row = 0 if loss is not None else self.skipped.critic + 1
        self.skipped = self.skipped._replace(critic=in_a_row)

    def _loss(
        self,
        batch: MicroBatch,
        values: RowValues,
        fresh: bool,
        whole: Totals,
        kept: tuple[torch.Tensor | None, Totals],
        tally: UpdateStats,
    ) -> torch.Tensor:
        """This micro-batch's share of the step's loss."""
        config = self.config
        wants_entropy = config.entropy_coef != 0
        now = evaluate_tokens(
            self.model, batch, config.rollout.temperature, True, entropy_gradient=wants_entropy
        )
        assert now.entropy is not None
        mask = batch.response_mask.to(now.log_probs.dtype)
        old = now.log_probs.detach() if fresh else batch.stack(values.old_log_probs)
        advantages = batch.stack(values.advantages)
        kept_rows, left = kept
        rule = config.clipping.sequence_mask
        if rule is not None and not self._masks_first and not fresh:
            kept_rows = _kept_rows(rule, now.log_probs.detach(), batch, values, tally)
        trained = mask if kept_rows is None else mask * kept_rows[:, None]
        limits = config.clipping.checked_losses(
            TokenBatch.of(now.log_probs, old, advantages, trained)
        )
        losses = limits.losses
        if any(weight is not None for weight in values.weights):
            losses = losses * batch.stack(values.weights)
        share = aggregate(losses, trained, config.aggregation, left, self.longest)
        mean = config.regularizer_aggregation or config.aggregation
        if config.kl.coef > 0 and config.kl.place == "loss":
            reference = batch.stack(values.reference_log_probs)
            distance = kl(now.log_probs, reference, config.kl.estimator, response_mask=mask)
            share = share + config.kl.coef * aggregate(distance, mask, mean, whole, self.longest)
        if wants_entropy:
            bonus = aggregate(now.entropy, mask, mean, whole, self.longest)
            share = share - config.entropy_coef * bonus
        if not share.requires_grad:
            # A rule may ignore a micro-batch, but every process has to make the backward pass.
            share = share + now.log_probs[:0].sum()
        if fresh:
            for place, row in enumerate(batch.rows):
                if row >= 0:
                    tally.first_log_probs[row] = now.untempered[place].cpu()
                    # For later epochs.
                    length = len(values.advantages[row])
                    values.old_log_probs[row] = old[place, :length].cpu()
        tally.count(mask, now.log_probs.detach() - old, now.entropy.detach(), limits)
        return share

    @property
    def _masks_first(self) -> bool:
        """Whether the sequence mask affects denominators, and so is needed before the loss."""
        rule = self.config.clipping.sequence_mask
        shrinks = self.config.aggregation in SHRINKING
        return rule is not None and rule.denominator == "kept" and shrinks

    def _kept(
        self,
        rule: SequenceMask,
        values: RowValues,
        batches: Sequence[MicroBatch],
        whole: Totals,
        tally: UpdateStats,
    ) -> "_Kept":
        """Which rows the sequence mask keeps in a step, and their totals.

        The kept rows determine the denominators of the whole step, so they have to be known before
        the first gradient, which takes one more forward pass.
        """
        masks: list[torch.Tensor | None] = []
        left = Totals(0.0, 0.0, 0.0)
        for batch in self._moved(batches):
            with torch.no_grad(), self.accelerator.autocast():
                now = evaluate_tokens(self.model, batch, self.config.rollout.temperature)
            kept = _kept_rows(rule, now.log_probs, batch, values, tally)
            masks.append(kept)
            left = left + Totals.of(batch.response_mask.to(kept.dtype) * kept[:, None])
        sums = torch.tensor([left.tokens, left.nonempty_rows], dtype=torch.float64)
        tokens, nonempty = self._sum(sums).tolist()
        return _Kept(masks, Totals(tokens, whole.rows, nonempty))

    def _micro_batches(self, rows: Sequence[Row], chosen: Sequence[int]) -> Sequence[MicroBatch]:
        """This process's share of the chosen rows; all processes get equally many batches."""
        if not self.packs:
            return self._padded_batches(rows, chosen)
        tokens = self.config.optimization.micro_batch_tokens
        mine = self._mine(rows, chosen)
        packed = pack_rows(rows, mine, tokens, self.reader) if mine else []
        return [*packed, *self._fillers(rows, len(packed))]

    def _padded_batches(self, rows: Sequence[Row], chosen: Sequence[int]) -> list[PaddedBatch]:
        """This process's share of the chosen rows, padded."""
        tokens = self.config.optimization.micro_batch_tokens
        mine = self._mine(rows, chosen)
        batches = split(rows, mine, tokens, self.share_prefix, self.reader) if mine else []
        return batches + self._fillers(rows, len(batches))

    def _moved(self, batches: Iterable[B]) -> Iterator[B]:
        """Move micro-batches to the device one at a time, because images are large."""
        return (batch.to(self.accelerator.device) for batch in batches)

    def _mine(self, rows: Sequence[Row], chosen: Sequence[int]) -> list[int]:
        """This process's share of rows."""
        ordered = sorted(chosen, key=lambda row: (rows[row].length, row))
        return ordered[self.accelerator.process_index :: self.accelerator.num_processes]

    def _fillers(self, rows: Sequence[Row], count: int) -> list[PaddedBatch]:
        """Fillers that bring this process up to the largest number of micro-batches."""
        if self.accelerator.num_processes == 1:
            return []
        return [filler(rows, self.reader)] * (max(gather_object([count])) - count)

    def _share(self, values: Tensors) -> Tensors:
        """Combine the values that each process computed."""
        if self.accelerator.num_processes == 1:
            return values
        joined: Tensors = [None] * len(values)
        for part in gather_object([{i: v for i, v in enumerate(values) if v is not None}]):
            for place, value in part.items():
                joined[place] = value
        return joined

    def _sum(self, values: torch.Tensor) -> torch.Tensor:
        if self.accelerator.num_processes == 1:
            return values
        total: torch.Tensor = self.accelerator.reduce(values.to(self.accelerator.device), "sum")
        return total


@dataclass(frozen=True, slots=True)
class _Kept:
    """Rows kept in each micro-batch (None: all), and their totals."""

    masks: list[torch.Tensor | None]
    totals: Totals

    def of(self, number: int) -> tuple[torch.Tensor | None, Totals]:
        """The kept rows of one micro-batch, and the totals."""
        return self.masks[number], self.totals


def mini_batches(rows: int, optimization: Optimization, seed: int, update: int) -> list[list[int]]:
    """Deal a rollout's rows evenly to optimizer steps, in a new order in every epoch.

    Returns:
        Row numbers of each step, epoch after epoch; a pure function of the arguments.
    """
    if optimization.mini_batch_rows is not None:
        count = math.ceil(rows / optimization.mini_batch_rows)
    else:
        count = min(optimization.mini_batches or 1, rows)
    steps = []
    for epoch in range(optimization.epochs):
        order = list(range(rows))
        random.Random(stable_seed("mini-batches", seed, update, epoch)).shuffle(order)
        steps += [sorted(order[index::count]) for index in range(count)]
    return steps


def _totals(rows: Sequence[Row], chosen: Sequence[int]) -> Totals:
    tokens = sum(int(rows[row].response_mask.sum()) for row in chosen)
    return Totals(float(tokens), float(len(chosen)), float(len(chosen)))


def _kept_rows(
    rule: SequenceMask,
    log_probs: torch.Tensor,
    batch: MicroBatch,
    values: RowValues,
    tally: UpdateStats,
) -> torch.Tensor:
    """(B,) 1 for rows that the sequence mask keeps, 0 for the others; counts the latter."""
    mask = batch.response_mask.to(log_probs.dtype)
    old, advantages = batch.stack(values.old_log_probs), batch.stack(values.advantages)
    kept = rule.kept(TokenBatch.of(log_probs, old, advantages, mask)).to(mask.dtype)
    real = torch.tensor([row >= 0 for row in batch.rows], device=kept.device)
    tally.masked_rows += int(((kept == 0) & real).sum())
    return kept


def _scatter(batch: ForwardBatch, values: torch.Tensor, rows: Sequence[Row], into: Tensors) -> None:
    """Write the values of a micro-batch to their rows."""
    for place, row in enumerate(batch.rows):
        if row >= 0:
            into[row] = values[place, : len(rows[row].response_ids)].cpu()
