"""Trains on one rollout: values, advantages, optimizer steps."""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator

from baselines.algorithms.custom_learner import code_of_learner, packed, state_of
from baselines.algorithms.kl import LOG_RATIO_LIMIT, kl
from baselines.algorithms.learner_checks import LearnerChecks
from baselines.config.run import TrainingRun
from baselines.learning.adamw import set_learning_rate
from baselines.learning.estimation import estimate, penalty_share
from baselines.learning.lora import (
    has_updates,
    merging,
    updates_of,
    without_lora,
    without_updates,
)
from baselines.learning.metrics import (
    Metrics,
    engine_metrics,
    explained_variance,
    gathered,
    init_metrics,
    loggable,
    staleness_metrics,
    update_metrics,
)
from baselines.learning.microbatches import RowValues
from baselines.learning.optimizer_steps import SkippedSteps, Tensors, mini_batches
from baselines.learning.preparation import load_init, make_updater, memory_advice
from baselines.learning.sharding import frozen, full_weights, loaded_once
from baselines.learning.tally import UpdateStats
from baselines.rollouts.rows import Row
from tasks.seeding import stable_seed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger(__name__)

REFERENCE_ROWS = 64
"""Rows per update whose KL to the init is measured only for the log."""

NOTHING_LEARNED: Metrics = {"policy/optimizer_steps": 0, "policy/skipped_steps": 0}
"""Metrics of an update whose rollout has no rows and so leaves the policy unchanged."""


@dataclass(frozen=True, slots=True)
class ModelValues:
    """Model outputs for all rows before the first step; (T,) per row, None where not needed.

    Attributes:
        old: Log-probabilities under the policy, at the rollout's temperature.
        plain: The same at temperature 1, for rows that the trainer ran.
        entropies: Entropies of the policy's distributions.
        critic: Values before each token; empty without a critic.
        reference: Log-probabilities under the init, at the rollout's temperature.
        plain_reference: The same at temperature 1.
    """

    old: Tensors
    plain: Tensors
    entropies: Tensors
    critic: Tensors
    reference: Tensors
    plain_reference: Tensors


@dataclass(frozen=True, slots=True)
class Advantages:
    """Advantages of the tokens of all rows.

    Attributes:
        of_tokens: (T,) per row, 0 where masked.
        targets: (T,) per row, the critic's targets; None without a critic.
        penalty_share: Share of the advantages that comes from format penalties alone.
    """

    of_tokens: list[torch.Tensor]
    targets: list[torch.Tensor] | None
    penalty_share: float

    @property
    def only_penalties(self) -> bool:
        """Whether the advantages come from nothing but format penalties."""
        return self.penalty_share == 1 or not any(bool(each.any()) for each in self.of_tokens)


@dataclass(frozen=True, slots=True)
class Learned:
    """Result of an update.

    Attributes:
        plan: Row numbers of each optimizer step.
        advantages: Advantages of all rows.
        stats: Statistics of the steps of all processes.
        metrics: Metrics for the log line.
    """

    plan: list[list[int]]
    advantages: Advantages
    stats: UpdateStats
    metrics: Metrics


class Learner:
    """The policy with its optimizer, the init, and the critic if there is one.

    Args:
        run: The training run.
        accelerator: Processes and devices.
        phase: Context manager entered around each part of the work, with its name.

    Attributes:
        engine_is_exact: What the engine says of rows that were drawn from the current weights is
            what the trainer would say, up to the order of sums; set by whoever knows the engine
            (`preparation.is_exact`).
        warned: Whether a warning of state that no checkpoint holds was logged.
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
        self.engine_is_exact = False
        self.warned = False
        self.lora = run.config.optimization.lora
        with memory_advice(run.config.optimization), loaded_once(accelerator):
            needed = run.config.needs_reference or run.config.kl.measured
            alone = needed and self.lora is None
            self.reference = frozen(accelerator, load_init(run, accelerator)) if alone else None
            self.updater = make_updater(run, accelerator)
            if needed and self.lora is not None:
                self.reference = self.model

    @property
    def model(self) -> "PreTrainedModel":
        """The policy, prepared for this process."""
        return self.updater.model

    @property
    def diverged(self) -> bool:
        """Whether enough consecutive steps were not finite that training should stop."""
        return self.updater.diverged

    @property
    def skipped(self) -> SkippedSteps:
        """Number of latest consecutive steps that were not finite; part of a checkpoint."""
        return self.updater.skipped

    @skipped.setter
    def skipped(self, known: Sequence[int]) -> None:
        self.updater.skipped = SkippedSteps(*known)

    def weights(
        self, everywhere: bool = True, dtype: torch.dtype = torch.float32, number: int = 0
    ) -> Mapping[str, torch.Tensor]:
        """The policy's weights by the init's names; every process must call this.

        Args:
            everywhere: See `full_weights`.
            dtype: Type of the returned weights.
            number: Number of updates so far.
        """
        place = self.accelerator.device if self.run.weights_on_gpu else torch.device("cpu")
        gather = partial(full_weights, self.accelerator, self.model, everywhere, dtype, place=place)
        if not has_updates(self.model):
            return gather()
        seed = stable_seed("hand-over", self.run.seed, number)
        # Merge on the GPU: on one CPU thread, 4B parameters take more than a minute.
        merge = merging(self.model, updates_of(self.model), dtype, seed)
        return without_lora(gather(change=merge))

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the policy's next steps."""
        set_learning_rate(self.updater.optimizer, rate)

    def learn(self, rows: Sequence[Row], number: int) -> Learned:
        """Learn from one rollout: `plan`, `values`, `advantages`, `steps`, `metrics`.

        Args:
            rows: All rows of a rollout, of all processes.
            number: Number of the update, from 1.

        Raises:
            UserError: Memory ran out, or a step of a custom learner returns the wrong thing.
        """
        checks = LearnerChecks(self)
        plan = checks.plan(self.plan(rows, number), len(rows))
        values = checks.given(self.values(rows, plan, number), ModelValues, "values")
        advantages = checks.given(self.advantages(rows, values), Advantages, "advantages")
        if type(self).advantages is not Learner.advantages:
            known = _all([*values.old, *values.entropies, *values.critic, *values.reference])
            sound = all(bool(each.isfinite().all()) for each in known)
            checks.of_tokens(advantages.of_tokens, rows, sound)
        stats = checks.given(self.steps(rows, plan, values, advantages), UpdateStats, "steps")
        metrics = self.metrics(rows, values, advantages, stats, number)
        return Learned(plan, advantages, stats, checks.given(metrics, dict, "metrics"))

    def state_dict(self) -> Mapping[str, Any]:
        """What a subclass remembers from one update to the next, for checkpoints; nothing here.

        Returns:
            Tensors, numbers, strings, and lists and dictionaries of them, by name; the same in all
            processes, each of which calls this, the first time before any update.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take back what `state_dict` gave, when a run is resumed; not called if that was nothing.

        Args:
            state: With tensors on the CPU.
        """
        del state

    def plan(self, rows: Sequence[Row], number: int) -> list[list[int]]:
        """Row numbers of each optimizer step of an update (from 1).

        Masked rows are dealt to steps and then dropped from them, as in the released code.
        """
        dealt = mini_batches(len(rows), self.config.optimization, self.run.seed, number)
        counted = ([row for row in step if not rows[row].masked] for step in dealt)
        return [step for step in counted if step]

    def values(
        self, rows: Sequence[Row], plan: Sequence[Sequence[int]], number: int
    ) -> ModelValues:
        """Compute model outputs for all rows before the first step.

        Args:
            rows: All rows of a rollout, of all processes.
            plan: Row numbers of each optimizer step.
            number: Number of the update, from 1.

        Raises:
            UserError: Memory ran out.
        """
        with memory_advice(self.config.optimization):
            with self.phase("old_log_probs"):
                old, plain, entropies = self._old_values(rows, plan, number - 1)
                critic = self.updater.critic_values(rows) if self.updater.critic else []
            with self.phase("reference"):
                reference, plain_reference = self._reference(rows, number)
        return ModelValues(old, plain, entropies, critic, reference, plain_reference)

    def advantages(self, rows: Sequence[Row], values: ModelValues) -> Advantages:
        """Estimate the advantages of all tokens, with the recipe's estimator."""
        config = self.config
        distances: Tensors = [None] * len(rows)
        if config.kl.place == "reward" and config.kl.coef > 0:
            distances = [
                kl(known, before, config.kl.estimator)
                for known, before in zip(_all(values.old), _all(values.reference), strict=True)
            ]
        found, targets = estimate(config, rows, values.entropies, values.critic, distances)
        share = 0.0
        if any(row.penalty for row in rows):
            spared = [replace(row, penalty=0.0) for row in rows]
            without, _ = estimate(config, spared, values.entropies, values.critic, distances)
            share = penalty_share(found, without)
        return Advantages(found, targets, share)

    def steps(
        self,
        rows: Sequence[Row],
        plan: Sequence[Sequence[int]],
        values: ModelValues,
        advantages: Advantages,
    ) -> UpdateStats:
        """Make the optimizer steps, at the current learning rate.

        Fills in old log-probabilities that were not needed before.

        Returns:
            Statistics of the steps of all processes.

        Raises:
            UserError: Memory ran out.
        """
        weights = self._weights(rows, values.plain)
        known = RowValues(advantages.of_tokens, values.old, values.reference, weights)
        with memory_advice(self.config.optimization), self.phase("update"):
            stats = self.updater.update(
                rows, known, plan, advantages.targets, values.critic or None
            )
        return gathered(stats, self.accelerator)

    def metrics(
        self,
        rows: Sequence[Row],
        values: ModelValues,
        advantages: Advantages,
        stats: UpdateStats,
        number: int,
    ) -> Metrics:
        """The learning metrics of the log line."""
        plain = list(values.plain)
        for row, log_probs in stats.first_log_probs.items():
            plain[row] = log_probs[: len(rows[row].response_ids)]
        # For rows that needed no forward pass, use the engine's log-probabilities.
        played = [
            said if trainer is None else trainer
            for trainer, said in zip(plain, values.old, strict=True)
        ]
        counted = [torch.from_numpy(row.response_mask * (not row.masked)) for row in rows]
        drawn = torch.cat(counted) > 0
        of_drawn = torch.cat(advantages.of_tokens)[drawn]
        metrics = (
            staleness_metrics(rows, number - 1)
            | update_metrics(stats)
            | engine_metrics(rows, plain, number - 1)
            | init_metrics(rows, played, values.plain_reference)
        )
        metrics["policy/penalty_share"] = advantages.penalty_share
        metrics["policy/advantage_std"] = float(of_drawn.std(unbiased=False))
        if advantages.targets is not None:
            metrics["critic/explained_variance"] = explained_variance(
                torch.cat(_all(values.critic))[drawn], torch.cat(advantages.targets)[drawn]
            )
        return metrics

    def _old_values(
        self, rows: Sequence[Row], plan: Sequence[Sequence[int]], version: int
    ) -> tuple[Tensors, Tensors, Tensors]:
        """Old log-probabilities where a step needs them; see `Updater.values_of`.

        The first step's old policy is the current one, so its rows need no separate forward pass
        unless something else uses the result. Rows from an exact engine need none either
        (`engine_is_exact`). The engine's values do not count as the trainer's: the gap between the
        two is measured on the first step's rows. A skipped first step provides no old
        log-probabilities of its rows to later epochs.
        """
        config = self.config
        optimization = config.optimization
        everything = (
            config.tis_cap is not None
            or config.advantage.needs_entropies
            or (config.kl.place == "reward" and config.kl.coef > 0)
            or (optimization.epochs > 1 and self.accelerator.num_processes > 1)
            or (optimization.epochs > 1 and optimization.skip_empty)
        )
        if everything:
            return self.updater.values_of(
                rows, range(len(rows)), entropy=config.advantage.needs_entropies
            )
        first = set(plan[0]) if plan else set()
        later = sorted(set().union(*plan) - first)
        exact = self.engine_is_exact and config.rollout.temperature == 1.0
        known = [row for row in later if exact and rows[row].versions == (version, version)]
        old, plain, entropies = self.updater.values_of(rows, sorted({*later} - {*known}))
        for row in known:
            old[row] = torch.from_numpy(rows[row].engine_log_probs)
        return old, plain, entropies

    def _reference(self, rows: Sequence[Row], number: int) -> tuple[Tensors, Tensors]:
        """Log-probabilities of the init, for all rows if needed, else for some, for the log.

        At the rollout's temperature, and at 1.
        """
        nothing: Tensors = [None] * len(rows)
        if self.reference is None:
            return nothing, nothing
        wanted: Sequence[int] = range(len(rows))
        if not self.config.needs_reference:
            step = max(len(rows) // REFERENCE_ROWS, 1)
            wanted = range(number % step, len(rows), step)
        own = without_updates(self.reference) if self.lora is not None else nullcontext()
        with own:
            tempered, plain, _ = self.updater.values_of(rows, list(wanted), self.reference)
        return tempered, plain

    def _weights(self, rows: Sequence[Row], plain: Tensors) -> Tensors:
        """Truncated importance weights per token, trainer over engine."""
        cap = self.config.tis_cap
        if cap is None:
            return [None] * len(rows)
        return [
            (log_probs - torch.from_numpy(row.engine_log_probs))
            .clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
            .exp()
            .clamp(max=cap)
            for row, log_probs in zip(rows, _all(plain), strict=True)
        ]


def make_learner(
    run: TrainingRun,
    accelerator: Accelerator,
    phase: Callable[[str], AbstractContextManager[None]],
    chosen: type[Learner] | None = None,
) -> Learner:
    """Create a run's learner.

    Args:
        run: See `Learner`.
        accelerator: See `Learner`.
        phase: See `Learner`.
        chosen: The learner's class; None for the one that the recipe names, else `Learner`.

    Raises:
        UserError: Memory ran out, or the recipe's custom learner raised an exception or has a state
            that no checkpoint can hold.
    """
    custom = run.config.learner
    if chosen is None and custom is not None:
        chosen = custom.learner
    with code_of_learner(custom):
        learner = (chosen or Learner)(run, accelerator, phase)
    # In all processes, as at a checkpoint, but before hours of training.
    if state := state_of(learner):
        packed(state)
    return learner


def learn_from(learner: Learner, rows: Sequence[Row], number: int) -> Learned:
    """Call `Learner.learn`, which a custom learner may override, and check the result.

    Raises:
        UserError: Memory ran out, a metric is not one of a log, or the code of a custom learner
            raised an error or returns the wrong thing.
    """
    checks = LearnerChecks(learner)
    before = checks.attributes()
    with code_of_learner(learner.config.learner):
        learned = checks.given(learner.learn(rows, number), Learned, "learn")
    checks.metrics(learned.metrics, NOTHING_LEARNED)
    if type(learner).state_dict is Learner.state_dict and not learner.warned:
        learner.warned = checks.warn_of_lost_state(before)
    return replace(learned, metrics=loggable(learned.metrics))


def _all(values: Tensors) -> list[torch.Tensor]:
    """The values that are known."""
    return [value for value in values if value is not None]
