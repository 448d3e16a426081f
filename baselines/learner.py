"""Learning from a rollout: what its rows are worth, and the optimizer steps."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from accelerate import Accelerator

from baselines.algorithms.kl import kl
from baselines.critic import Critic
from baselines.estimation import estimate, penalty_share
from baselines.microbatches import RowValues
from baselines.rollouts import Row, longest_row
from baselines.sharding import whole_weights
from baselines.train_config import EMPG, GAE
from baselines.train_metrics import (
    Metrics,
    engine_metrics,
    explained_variance,
    gathered,
    init_metrics,
    staleness_metrics,
    update_metrics,
)
from baselines.training_run import TrainingRun
from baselines.update import Tensors, Updater
from benchmark.engines.transformers import load_model
from tasks.errors import UserError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

REFERENCE_ROWS = 64
"""Rows of an update whose distance to the init is measured where nothing else needs it."""


class Learner:
    """The policy with its optimizer, the init, and the critic if there is one.

    Args:
        run: What is to be done.
        accelerator: Processes and devices.
        phase: Entered around each part of the work, with its name.
    """

    def __init__(
        self,
        run: TrainingRun,
        accelerator: Accelerator,
        phase: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        self.run = run
        self.config = run.config
        self.accelerator = accelerator
        self.phase = phase
        with self._memory_advice():
            self.reference = self._load_model().eval().requires_grad_(False)
            self.updater = self._updater()

    @property
    def model(self) -> "PreTrainedModel":
        """The policy, prepared for this process."""
        return self.updater.model

    def weights(self) -> Mapping[str, torch.Tensor]:
        """The policy's weights by name, whole on every process; all processes must ask."""
        return whole_weights(self.accelerator, self.model)

    def set_learning_rate(self, rate: float) -> None:
        """Set the rate of the policy's next steps."""
        for group in self.updater.optimizer.param_groups:
            group["lr"] = rate

    def learn(self, rows: Sequence[Row], plan: Sequence[Sequence[int]], number: int) -> Metrics:
        """Learn from rows, with the optimizer's learning rate as it is.

        Args:
            rows: All rows of a rollout, of all processes.
            plan: Row numbers of each optimizer step.
            number: Of the update, from 1.

        Returns:
            The numbers of the log's line that are about learning.

        Raises:
            UserError: Memory ran out, or too many steps in a row were not finite.
        """
        with self._memory_advice():
            return self._learn(rows, plan, number)

    def _learn(self, rows: Sequence[Row], plan: Sequence[Sequence[int]], number: int) -> Metrics:
        version = number - 1
        metrics = staleness_metrics(rows, version)
        with self.phase("old_log_probs"):
            old, plain, entropies = self._old_values(rows, plan)
            values = self.updater.critic_values(rows) if self.updater.critic else []
        with self.phase("reference"):
            reference, plain_reference = self._reference(rows, number)
        distances: Tensors = [None] * len(rows)
        if self.config.kl.place == "reward" and self.config.kl.coef > 0:
            distances = [
                kl(known, before, self.config.kl.estimator)
                for known, before in zip(_all(old), _all(reference), strict=True)
            ]
        advantages, targets = estimate(self.config, rows, entropies, values, distances)
        known = RowValues(advantages, old, reference, self._weights(rows, plain))
        with self.phase("update"):
            tally = self.updater.update(rows, known, plan, targets, values or None)
        tally = gathered(tally, self.accelerator)
        for row, log_probs in tally.first_log_probs.items():
            plain[row] = log_probs[: len(rows[row].response_ids)]
        metrics |= update_metrics(tally)
        metrics |= engine_metrics(rows, plain, version)
        metrics |= init_metrics(rows, plain, plain_reference)
        drawn = torch.cat([torch.from_numpy(row.response_mask) for row in rows]) > 0
        metrics["policy/penalty_share"] = 0.0
        if any(row.penalty for row in rows):
            spared = [replace(row, penalty=0.0) for row in rows]
            without, _ = estimate(self.config, spared, entropies, values, distances)
            metrics["policy/penalty_share"] = penalty_share(advantages, without)
        metrics["policy/advantage_std"] = float(torch.cat(advantages)[drawn].std(unbiased=False))
        if targets is not None:
            metrics["critic/explained_variance"] = explained_variance(
                torch.cat(_all(values))[drawn], torch.cat(targets)[drawn]
            )
        return metrics

    def _old_values(
        self, rows: Sequence[Row], plan: Sequence[Sequence[int]]
    ) -> tuple[Tensors, Tensors, Tensors]:
        """Old log-probabilities where a step needs them; see `Updater.values_of`.

        The first step's old policy is the current one: its rows need no pass of their own, unless
        they are seen again in a later epoch or something else asks for them.
        """
        config = self.config
        everything = (
            config.optimisation.epochs > 1
            or config.mismatch_cap is not None
            or isinstance(config.advantage, EMPG)
            or (config.kl.place == "reward" and config.kl.coef > 0)
        )
        wanted = range(len(rows)) if everything else [row for step in plan[1:] for row in step]
        return self.updater.values_of(
            rows, list(wanted), entropy=isinstance(config.advantage, EMPG)
        )

    def _reference(self, rows: Sequence[Row], number: int) -> tuple[Tensors, Tensors]:
        """Log-probabilities of the init: of all rows if they matter, else of some for the log.

        At the rollout's temperature, and at 1.
        """
        wanted: Sequence[int] = range(len(rows))
        if not self.config.needs_reference:
            step = max(len(rows) // REFERENCE_ROWS, 1)
            wanted = range(number % step, len(rows), step)
        tempered, plain, _ = self.updater.values_of(rows, list(wanted), self.reference)
        return tempered, plain

    def _weights(self, rows: Sequence[Row], plain: Tensors) -> Tensors:
        """Truncated importance weights, trainer over engine, per token."""
        cap = self.config.mismatch_cap
        if cap is None:
            return [None] * len(rows)
        return [
            (log_probs - torch.from_numpy(row.engine_log_probs)).clamp(-20, 20).exp().clamp(max=cap)
            for row, log_probs in zip(rows, _all(plain), strict=True)
        ]

    @contextmanager
    def _memory_advice(self) -> Iterator[None]:
        try:
            yield
        except (torch.OutOfMemoryError, RuntimeError) as error:
            # The allocator of CPUs has no error of its own.
            texts = "out of memory", "can't allocate memory"
            said = any(text in str(error) for text in texts)
            if not isinstance(error, torch.OutOfMemoryError) and not said:
                raise
            tokens = self.config.optimisation.micro_batch_tokens
            raise UserError(
                "out of memory: lower optimisation.micro_batch_tokens (now "
                f"{tokens}) or vLLM's share (--gpu-memory-utilization), or set "
                "optimisation.gradient_checkpointing=true; no result depends on these and the same "
                "command resumes. A policy that is too large for one GPU can be sharded over "
                "several (accelerate launch with FSDP2)"
            ) from error

    def _load_model(self) -> "PreTrainedModel":
        """The init on this process's device; master weights are float32."""
        assert self.run.init.path is not None
        model = load_model(self.run.init.path, "float32", "cpu")
        placed: PreTrainedModel = model.to(self.accelerator.device)
        return placed

    def _updater(self) -> Updater:
        """The policy with its optimizer, prepared for all processes."""
        optimisation = self.config.optimisation
        model = self._load_model().train()
        if optimisation.gradient_checkpointing:
            model.gradient_checkpointing_enable()
        optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=optimisation.learning_rate,
            betas=optimisation.betas,
            weight_decay=optimisation.weight_decay,
        )
        policy, prepared_optimizer = self.accelerator.prepare(model, optimizer)
        critic = None
        chosen = self.config.advantage
        if isinstance(chosen, GAE):
            assert self.run.init.path is not None
            critic = Critic(
                self.accelerator,
                self.run.init.path,
                chosen.learning_rate,
                chosen.clip_range,
                optimisation.max_grad_norm,
            )
        sharded = self.accelerator.distributed_type.value == "FSDP"
        share_prefix = not sharded and not optimisation.gradient_checkpointing
        return Updater(
            self.accelerator,
            policy,
            prepared_optimizer,
            self.config,
            critic,
            share_prefix,
            longest_row(self.config, self.run.tasks),
        )


def _all(values: Tensors) -> list[torch.Tensor]:
    """Values that are known of all rows."""
    return [value for value in values if value is not None]
