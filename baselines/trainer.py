"""The reference trainer: rollouts, advantages, optimizer steps, weights back to the engine.

The four choices of a method stand in `algorithms/`; this file is the loop around them:

    rows = collect()                      sampling
    advantages = estimate(rows)           advantage
    for step in mini_batches(rows):       clipping, aggregation
        minimise(step)
    engine.load_weights(policy)
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator

from baselines.algorithms.kl import kl
from baselines.algorithms.sampling import refresh_due
from baselines.async_collector import AsyncCollector
from baselines.checkpoints import (
    TrainingState,
    find_last,
    load_last,
    save_best,
    save_last,
)
from baselines.collector import Collector, Rollout, Source
from baselines.critic import Critic
from baselines.cross_policy import CrossPolicyEngine
from baselines.estimation import estimate
from baselines.held_out import HeldOut
from baselines.microbatches import RowValues
from baselines.rollouts import Row, rollout_metrics, training_protocol
from baselines.tracking import flat
from baselines.train_config import EMPG, GAE, TrainConfig
from baselines.train_metrics import (
    Metrics,
    engine_metrics,
    explained_variance,
    gathered,
    init_metrics,
    memory_metrics,
    staleness_metrics,
    update_metrics,
)
from baselines.update import Learner, Tensors, mini_batches
from benchmark.collapse import should_stop
from benchmark.engines.base import Engine
from benchmark.engines.chat import Chat, quiet_transformers
from benchmark.engines.transformers import load_model
from benchmark.hosts.choose import Hosts
from benchmark.models import ModelSource
from benchmark.training_log import (
    LOG,
    TrainingLog,
    TrainingLogWriter,
    read_training_log,
    truncate_after,
)
from benchmark.versions import versions
from tasks.base import Task
from tasks.errors import UserError
from tasks.seeding import canonical_json, sha256_text

if TYPE_CHECKING:
    from transformers import PreTrainedModel

REFERENCE_ROWS = 64
"""Rows of an update whose distance to the init is measured where nothing else needs it."""

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """One run, completely.

    Attributes:
        recipe: Name of the recipe, for the log.
        config: What is chosen.
        tasks: What is trained on, configured.
        init: Where weights start.
        seed: Of streams, draws and the order of rows.
        folder: Where log and checkpoints go.
        trackers: Names of accelerate trackers that get the log, too.
        stop_on_collapse: End when `benchmark.collapse` says so.
        env_processes: Worker processes for episodes, at most; None for one per usable core.
    """

    recipe: str
    config: TrainConfig
    tasks: tuple[Task, ...]
    init: ModelSource
    seed: int
    folder: Path
    trackers: tuple[str, ...] = ()
    stop_on_collapse: bool = False
    env_processes: int | None = None

    @property
    def configuration(self) -> dict[str, Any]:
        """Everything that can move a number, but seed and init."""
        tasks = {task.info.name: dict(task.settings()) for task in self.tasks}
        return {**self.config.model_dump(mode="json"), "tasks": tasks}

    @property
    def sha256(self) -> str:
        """Hash of what a checkpoint must have been made from to be resumed."""
        config = self.configuration
        # A run may be made longer.
        config["optimisation"] = {**config["optimisation"], "updates": None}
        return sha256_text(canonical_json([config, self.init.identity.sha256, self.seed]))


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told what happens.

    Attributes:
        line: Called with every line of the log.
        phase: Called with what is being done now.
    """

    line: Callable[[Line], None] = lambda line: None
    phase: Callable[[str], None] = lambda phase: None


class Trainer:
    """Trains a policy.

    Args:
        run: What is to be done.
        engine: Where responses come from; entered by the caller, with the init's weights.
        accelerator: Processes and devices.
        watch: Who is told.
        older: A second engine with the same model, for cross-policy sampling.
    """

    def __init__(
        self,
        run: TrainingRun,
        engine: Engine,
        accelerator: Accelerator,
        watch: Watch,
        older: Engine | None = None,
    ) -> None:
        assert run.init.path is not None
        self.run = run
        self.config = run.config
        self.accelerator = accelerator
        self.watch = watch
        self.engine = engine
        self.older = older
        # accelerate warns at every checkpoint that tied weights are saved once, as is wanted.
        logging.getLogger("accelerate").setLevel(logging.ERROR)
        quiet_transformers()
        self.chat = Chat.load(run.init.path)
        self.reference = self._load_model().eval().requires_grad_(False)
        self.learner = self._learner()
        self.sources = {
            task.info.name: Source(task, training_protocol(task, self.config, run.seed))
            for task in run.tasks
        }
        self.state = TrainingState(0, 0, 0.0, None, 0, 0, 0.0, run.sha256)
        self.older_weights: dict[str, torch.Tensor] | None = None
        self.parameters = sum(weight.numel() for weight in self.reference.parameters())
        self._group_stds: list[float | None] = []
        self._clock = _Clock()

    async def train(self) -> str | None:
        """Make all updates that are left.

        Returns:
            Why training stopped early; None if it did not.

        Raises:
            UserError: Something cannot be used, written or trained any further.
            EngineDown: The engine cannot serve any request any more.
        """
        run, config = self.run, self.config
        resumed = self._resume()
        main = self.accelerator.is_main_process
        self.accelerator.init_trackers(
            "arlarena-bench",
            config=flat({"recipe": run.recipe, "seed": run.seed} | run.configuration),
        )
        async with Hosts(run.env_processes) as hosts:
            self.held_out = HeldOut(run, self.engine, hosts, self.accelerator)
            engine = self.engine
            if config.sampling.cross_policy is not None:
                assert self.older is not None
                share = config.sampling.cross_policy.probability
                engine = CrossPolicyEngine(self.engine, self.older, share)
            asynchronous = config.rollout.max_staleness is not None
            collector = (AsyncCollector if asynchronous else Collector)(
                config, self.sources, engine, hosts, self.accelerator, self.state.position
            )
            with TrainingLogWriter(run.folder / LOG) if main else _nothing() as log:
                self._log = log
                if not resumed:
                    self._write(self._start_line())
                else:
                    self._recall(read_training_log(run.folder / LOG))
                await self._hand_over()
                if self.older is not None and self.older_weights is not None:
                    await self.older.load_weights(
                        self.older_weights.items(), self.state.older_version
                    )
                if not resumed and config.validation.every is not None:
                    await self._validate(0)
                reason = None
                async with collector:
                    while self.state.update < config.optimisation.updates and reason is None:
                        reason = await self._advance(collector)
        # Not `end_training`, which also ends the process groups that an engine may have.
        for tracker in self.accelerator.trackers:
            tracker.finish()
        return reason

    async def _advance(self, collector: Collector) -> str | None:
        """One update, with what is due after it."""
        config, run = self.config, self.run
        number = self.state.update + 1
        self._clock.begin()
        with self._phase("rollout"):
            rollout = await collector.collect(number)
        metrics = rollout_metrics(rollout.drawn, rollout.tries)
        if config.rollout.max_staleness is None:
            metrics |= self._learn(rollout, number)
        else:
            # Episodes go on meanwhile.
            metrics |= await asyncio.to_thread(self._learn, rollout, number)
        self.state = replace(self.state, update=number, position=collector.position)
        with self._phase("weights"):
            await self._hand_over()
            await self._refresh()
        collector.advance()
        last = number == config.optimisation.updates
        validations = []
        every = config.validation.every
        if every is not None and (last or number % every == 0):
            with self._phase("validation"):
                validations = await self.held_out.play(number)
        self._group_stds.append(metrics["rollout/group_std"])
        metrics |= memory_metrics()
        metrics |= self._clock.metrics()
        metrics["seconds/checkpoint"] = self.state.checkpoint_seconds or None
        self.state = replace(self.state, seconds=self.state.seconds + self._clock.total)
        line = {"kind": "update", "update": number, "seconds_total": self.state.seconds, **metrics}
        self._write(line)
        better = self._note_validations(validations)
        reason = self._collapse() if run.stop_on_collapse else None
        if better or last or reason or number % config.checkpoint_every == 0:
            self._save(better)
        return reason

    def _learn(self, rollout: Rollout, number: int) -> Metrics:
        """Estimate advantages and make the optimizer steps."""
        rows = rollout.rows
        if not rows:
            # Nothing was left of what was drawn; the policy stays as it is.
            return {"policy/optimizer_steps": 0, "policy/skipped_steps": 0}
        rate = self._learning_rate(number)
        plan = mini_batches(len(rows), self.config.optimisation, self.run.seed, number)
        return self.learn_rows(rows, plan, number) | {"policy/learning_rate": rate}

    def learn_rows(
        self, rows: Sequence[Row], plan: Sequence[Sequence[int]], number: int
    ) -> Metrics:
        """Learn from rows, with the optimizer's learning rate as it is.

        Args:
            rows: All rows of a rollout, of all processes.
            plan: Row numbers of each optimizer step.
            number: Of the update, from 1.

        Returns:
            The numbers of the log's line that are about learning.
        """
        version = number - 1
        metrics = staleness_metrics(rows, version)
        with self._phase("old_log_probs"):
            old, plain, entropies = self._old_values(rows, plan)
            values = self.learner.critic_values(rows) if self.learner.critic else []
        with self._phase("reference"):
            reference, plain_reference = self._reference(rows, number)
        distances: Tensors = [None] * len(rows)
        if self.config.kl.place == "reward" and self.config.kl.coef > 0:
            distances = [
                kl(known, before, self.config.kl.estimator)
                for known, before in zip(_all(old), _all(reference), strict=True)
            ]
        advantages, targets = estimate(self.config, rows, entropies, values, distances)
        known = RowValues(advantages, old, reference, self._weights(rows, plain))
        with self._phase("update"), self._memory_advice():
            tally = self.learner.update(rows, known, plan, targets, values or None)
        tally = gathered(tally, self.accelerator)
        for row, log_probs in tally.first_log_probs.items():
            plain[row] = log_probs[: len(rows[row].response_ids)]
        metrics |= update_metrics(tally)
        metrics |= engine_metrics(rows, plain, version)
        metrics |= init_metrics(rows, plain, plain_reference)
        drawn = torch.cat([torch.from_numpy(row.response_mask) for row in rows]) > 0
        metrics["policy/advantage_std"] = float(torch.cat(advantages)[drawn].std(unbiased=False))
        if targets is not None:
            metrics["critic/explained_variance"] = explained_variance(
                torch.cat(_all(values))[drawn], torch.cat(targets)[drawn]
            )
        return metrics

    def _old_values(
        self, rows: Sequence[Row], plan: Sequence[Sequence[int]]
    ) -> tuple[Tensors, Tensors, Tensors]:
        """Old log-probabilities where a step needs them; see `Learner.values_of`.

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
        return self.learner.values_of(
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
        tempered, plain, _ = self.learner.values_of(rows, list(wanted), self.reference)
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

    def _learning_rate(self, number: int) -> float:
        """Set and return the learning rate of an update (from 1)."""
        optimisation = self.config.optimisation
        rate = optimisation.learning_rate
        if number <= optimisation.warmup_updates:
            rate *= number / optimisation.warmup_updates
        elif optimisation.schedule == "linear":
            left = optimisation.updates - number + 1
            rate *= left / (optimisation.updates - optimisation.warmup_updates)
        for group in self.learner.optimizer.param_groups:
            group["lr"] = rate
        return rate

    async def _hand_over(self) -> None:
        """Give the policy's weights to the engine.

        Also the init's, before anything is played: a server may still have those of another run.
        """
        weights = self.accelerator.get_state_dict(self.learner.model)
        await self.engine.load_weights(weights.items(), self.state.update)

    async def _refresh(self) -> None:
        """Bring the older policy of cross-policy sampling up to date, where that is due."""
        chosen, number = self.config.sampling.cross_policy, self.state.update
        if self.older is None or chosen is None or not refresh_due(number, chosen.refresh_every):
            return
        weights = self.accelerator.get_state_dict(self.learner.model)
        self.older_weights = {name: value.detach().clone() for name, value in weights.items()}
        self.state = replace(self.state, older_version=number)
        await self.older.load_weights(self.older_weights.items(), number)

    async def _validate(self, number: int) -> None:
        self._clock.begin()
        with self._phase("validation"):
            lines = await self.held_out.play(number)
        self.state = replace(self.state, seconds=self._clock.total)
        self._note_validations(lines)

    def _note_validations(self, lines: Sequence[Line]) -> bool:
        """Log validations; say whether they are the best so far."""
        for line in lines:
            self._write({**line, "seconds_total": self.state.seconds})
        if not lines:
            return False
        success = sum(line["success"] for line in lines) / len(lines)
        better = self.state.best is None or success > self.state.best
        if better:
            self.state = replace(self.state, best=success, best_update=self.state.update)
        return better and self.state.update > 0

    def _collapse(self) -> str | None:
        """Why the run should stop, if it should."""
        for curve in self.held_out.curves.values():
            reason = should_stop(
                [line.success for line in curve],
                [line.action_ok for line in curve],
                self._group_stds,
            )
            if reason is not None:
                return reason
        return None

    def _save(self, better: bool) -> None:
        began = time.monotonic()
        self.watch.phase("checkpoint")
        if better:
            save_best(self.accelerator, self.learner.model, self.chat, self.run.folder)
        save_last(
            self.accelerator,
            self.learner.model,
            self.chat,
            self.run.folder,
            self.state,
            self.older_weights,
        )
        took = time.monotonic() - began
        self.state = replace(self.state, seconds=self.state.seconds + took, checkpoint_seconds=took)

    def _resume(self) -> bool:
        """Go on from the last checkpoint, if there is one."""
        folder = self.run.folder
        state = find_last(folder, self.run.sha256)
        if state is None:
            if self.accelerator.is_main_process:
                (folder / LOG).unlink(missing_ok=True)
            return False
        self.older_weights = load_last(self.accelerator, folder)
        if self.accelerator.is_main_process:
            truncate_after(folder / LOG, state.update)
        self.accelerator.wait_for_everyone()
        self.state = state
        return True

    def _recall(self, log: TrainingLog) -> None:
        """Take up what earlier sessions have measured."""
        self._group_stds = log.series("rollout/group_std")
        self.held_out.recall(log.validations)

    def _start_line(self) -> Line:
        return {
            "kind": "start",
            "schema_version": 1,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "recipe": self.run.recipe,
            "configuration": self.run.configuration,
            "task": "+".join(self.sources),
            "init": self.run.init.identity.model_dump(),
            "fingerprint": self.held_out.fingerprint,
            "seed": self.run.seed,
            "engine": self.engine.describe(),
            "versions": versions(),
        }

    def _write(self, line: Line) -> None:
        """Append a line to the log and tell who listens; the main process does."""
        if self._log is not None:
            line = self._log.append(line)
            self.watch.line(line)
        numbers = {
            name: value
            for name, value in line.items()
            if isinstance(value, int | float) and name not in ("update", "schema_version", "seed")
        }
        if line["kind"] == "validation":
            numbers = {f"validation/{name}": value for name, value in numbers.items()}
        if line["kind"] != "start":
            self.accelerator.log(numbers, step=line["update"])

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self.watch.phase(name.replace("_", " "))
        with self._clock.phase(name):
            yield

    @contextmanager
    def _memory_advice(self) -> Iterator[None]:
        try:
            yield
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not isinstance(error, torch.OutOfMemoryError) and "memory" not in str(error):
                raise
            tokens = self.config.optimisation.micro_batch_tokens
            raise UserError(
                f"out of memory in an update: lower optimisation.micro_batch_tokens (now {tokens}; "
                "no result depends on it), or set optimisation.gradient_checkpointing=true; the "
                "same command resumes"
            ) from error

    def _load_model(self) -> "PreTrainedModel":
        """The init on this process's device; master weights are float32."""
        assert self.run.init.path is not None
        model = load_model(self.run.init.path, "float32", "cpu")
        placed: PreTrainedModel = model.to(self.accelerator.device)
        return placed

    def _learner(self) -> Learner:
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
        return Learner(
            self.accelerator, policy, prepared_optimizer, self.config, critic, share_prefix
        )


class _Clock:
    """Wall time of an update, by phase."""

    def __init__(self) -> None:
        self._began = 0.0
        self._phases: dict[str, float] = {}

    def begin(self) -> None:
        """Start an update."""
        self._began = time.monotonic()
        self._phases = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time a part of it."""
        began = time.monotonic()
        yield
        self._phases[name] = self._phases.get(name, 0.0) + time.monotonic() - began

    @property
    def total(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def metrics(self) -> Metrics:
        """`seconds/` numbers."""
        phases: Metrics = {f"seconds/{name}": value for name, value in self._phases.items()}
        return phases | {"seconds/total": self.total}


@contextmanager
def _nothing() -> Iterator[None]:
    yield None


def _all(values: Tensors) -> list[torch.Tensor]:
    """Values that are known of all rows."""
    return [value for value in values if value is not None]
