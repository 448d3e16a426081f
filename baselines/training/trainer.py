"""The reference trainer: rollouts, advantages, optimizer steps, weight updates of the engine.

`Trainer.update` is one complete update. The four choices of a method are in `algorithms/`: the
collector uses sampling, `Learner.advantages` the advantage, `Learner.steps` clipping and
aggregation.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

import torch
from accelerate import Accelerator

from baselines.config.run import Line, TrainingCallbacks, TrainingRun
from baselines.learning.learner import NOTHING_LEARNED, Learner, learn_from, make_learner
from baselines.learning.metrics import Metrics, check_first_update, memory_metrics
from baselines.learning.preparation import is_exact, memory_advice
from baselines.rollouts.async_collector import AsyncCollector
from baselines.rollouts.collector import Collector, NothingPlayed, TaskSource
from baselines.rollouts.cross_policy import CrossPolicyEngine
from baselines.rollouts.process_shards import Count, EngineLost, ProcessShards, Stopped
from baselines.rollouts.rows import rollout_metrics, training_protocol
from baselines.training.checkpoints import TrainingState, find_last, load_last, save_best, save_last
from baselines.training.clock import Clock
from baselines.training.early_stopping import EarlyStopping
from baselines.training.processes import StoppedTogether
from baselines.training.samples import write_samples
from baselines.training.speed import ThroughputMeter
from baselines.training.sync_check import SyncCheck
from baselines.training.tracking import Trackers, tracked, tracker_settings
from baselines.training.validation import Validator
from benchmark.engines.core.base import Engine, EngineDown
from benchmark.engines.core.chat import Chat, quiet_transformers
from benchmark.engines.core.devices import DEVICE_NAME, unrepeatable
from benchmark.engines.core.metered import MeteredEngine
from benchmark.flat import tracker_values
from benchmark.hosts.choose import EnvPool
from benchmark.logs.schedule import learning_rate_of
from benchmark.logs.training_log import (
    LOG,
    TrainingLogWriter,
    read_training_log,
    set_aside,
    truncate_after,
)
from benchmark.versions import versions
from tasks.errors import UserError

log = logging.getLogger(__name__)


class Trainer:
    """Trains a policy.

    Args:
        run: The training run.
        engine: Generates responses; entered by the caller, with the init's weights. None in all
            processes but the main one if its engine serves all of them.
        accelerator: Processes and devices.
        watch: Callbacks that report progress.
        older: A second engine with the same model, for cross-policy sampling.
        learner: The learner's class; None for the recipe's choice.

    Attributes:
        finished: All updates are made, or training stopped early; the last one has a checkpoint.
    """

    def __init__(
        self,
        run: TrainingRun,
        engine: Engine | None,
        accelerator: Accelerator,
        watch: TrainingCallbacks,
        older: Engine | None = None,
        learner: type[Learner] | None = None,
    ) -> None:
        assert run.init.path is not None
        self.run = run
        self.config = run.config
        self.accelerator = accelerator
        self.watch = watch
        self.finished = False
        self.shards = ProcessShards(accelerator, engine)
        self.engine = MeteredEngine(self.shards.engine)
        self.older = older
        # accelerate warns at every checkpoint that tied weights are saved once, which is intended.
        logging.getLogger("accelerate").setLevel(logging.ERROR)
        quiet_transformers()
        self.chat = Chat.load(run.init.path)
        self._clock = Clock()
        self.learner = make_learner(run, accelerator, self._phase, learner)
        self.learner.engine_is_exact = is_exact(self.engine, accelerator, run.config)
        self.sources = {
            task.info.name: TaskSource(task, training_protocol(task, self.config, run.seed))
            for task in run.tasks
        }
        self.state = TrainingState(0, -1, 0, 0.0, None, (0, 0), 0, 0.0, run.sha256)
        self.older_weights: dict[str, torch.Tensor] | None = None
        self._early_stopping = EarlyStopping(run, accelerator.is_main_process)
        self._handed_gib = 0.0
        self._resume_line: Line | None = None  # written before the first line of a resumed run
        plays = accelerator.is_main_process or not self.shards.main_alone
        self._sync = SyncCheck(self.engine if plays else None)
        self._speed = ThroughputMeter(accelerator, self.learner.model, self.config.needs_critic)

    async def train(self) -> str | None:
        """Make all remaining updates.

        Returns:
            Why training stopped early; None if it did not.

        Raises:
            UserError: Something cannot be used, written or trained any further.
            EngineDown: The engine can no longer serve requests. The last update has a checkpoint.
            StoppedTogether: `stop` was called.
        """
        run = self.run
        resumed, begun = self._resume(), self.state.update
        main = self.accelerator.is_main_process
        self.accelerator.init_trackers(
            "arlarena-bench",
            config=tracker_values({"recipe": run.recipe, "seed": run.seed} | run.configuration),
            init_kwargs=tracker_settings(run.folder, run.tracker_id, self.state.update),
        )
        self._trackers = Trackers(self.accelerator)
        async with EnvPool(run.env_processes, self.shards.here) as hosts:
            self.validator = Validator(run, self.shards, hosts, self.engine)
            collector = self._collector(hosts)
            with TrainingLogWriter(run.folder / LOG) if main else nullcontext() as self._log:
                try:
                    await self._begin(resumed)
                    reason = await self._updates(collector)
                except (Stopped, EngineLost, NothingPlayed) as error:
                    self._save_after(error)
                    if isinstance(error, Stopped):
                        raise StoppedTogether from None
                    raise
        # Not `end_training`, which also destroys process groups that an engine may use.
        self._trackers.finish()
        if main and self.state.update > begun:
            self._sync.close()
        return reason

    async def _updates(self, collector: Collector) -> str | None:
        """Make all remaining updates; return why training stopped early, if it did."""
        reason = self._early_stopping.reason(self.learner, self.validator)
        async with collector:
            collector.advance(self.config.optimization.updates - self.state.update)
            while self.state.update < self.config.optimization.updates and reason is None:
                reason = await self.update(collector)
            self.finished = True
        return reason

    def _collector(self, hosts: EnvPool) -> Collector:
        """Create the configured collector of training episodes."""
        engine: Engine = self.engine
        if self.config.sampling.cross_policy is not None:
            assert self.older is not None
            share = self.config.sampling.cross_policy.probability
            engine = CrossPolicyEngine(self.engine, self.older, share)
        asynchronous = self.config.rollout.max_staleness is not None
        return (AsyncCollector if asynchronous else Collector)(
            self.config,
            self.sources,
            engine,
            hosts,
            self.shards,
            self.state.position,
            self._count("rollout"),
        )

    async def _begin(self, resumed: bool) -> None:
        """Start or continue the log, send the weights to the engine, and validate if due."""
        if not resumed:
            engine = self.engine.describe()
            self._write(self.run.start_line(self.validator.fingerprint, engine))
        else:
            earlier = read_training_log(self.run.folder / LOG)
            self.validator.recall(earlier.validations)
            self._early_stopping.recall(earlier, counted=self.state.skipped is not None)
            began, here = (
                facts.get(DEVICE_NAME) for facts in (earlier.start.engine, self.engine.describe())
            )
            if (why := unrepeatable(began, here)) and self.accelerator.is_main_process:
                log.warning("the run began on %s and continues on %s: %s", began, here, why)
            before = earlier.resumes[-1] if earlier.resumes else earlier.start
            found = {"engine": self.engine.describe(), "versions": versions()}
            if found != {"engine": before.engine, "versions": before.versions}:
                self._resume_line = {"kind": "resume", "update": self.state.update, **found}
        await self._hand_over(older=self.older_weights is not None)
        # The init's validation, or one during which the run was stopped.
        if self.state.validated < self.state.update and self.validator.due(self.state.update):
            await self._validate()

    def stop(self) -> None:
        """Stop with a checkpoint: immediately during a rollout, else before the next one.

        `train` then raises `StoppedTogether`, on all processes of the run.
        """
        self.shards.stopping.set()

    async def update(self, collector: Collector) -> str | None:
        """Make one update: rollout, values, advantages, optimizer steps, weights, log.

        Returns:
            Why training should stop; None if it should not.

        Raises:
            Stopped: `stop` was called. In a validation, the update is already made and logged.
        """
        number, learner = self.state.update + 1, self.learner
        idle = self.engine.usage().idle_seconds
        last = number == self.config.optimization.updates
        self._clock.begin()
        with self._phase("rollout"):
            rollout = await collector.collect(number)
        rows = rollout.rows
        if self.config.rollout.max_staleness is None and self.older is None:
            await self.shards.with_engines(self.engine.sleep())

        def learn() -> Metrics:
            rate = learning_rate_of(self.config.optimization.model_dump(), number)
            learner.set_learning_rate(rate)
            learned = learn_from(learner, rows, number)
            made = (learned.metrics["policy/optimizer_steps"] or 0) / max(len(learned.plan), 1)
            trained = [row for row in rows if not row.masked]
            self._speed.note(trained, made * self.config.optimization.epochs)
            return learned.metrics | {"policy/learning_rate": rate}

        metrics = rollout_metrics(rollout.drawn, rollout.tries)
        if metrics["rollout/lost_turns"] and self.accelerator.is_main_process:
            log.warning(
                "update %d: %d turns are not in their episodes' rows, and nothing is learned from "
                "them: the chat template removes responses from later prompts",
                number,
                metrics["rollout/lost_turns"],
            )
        counted = any(not row.masked for row in rows)
        metrics |= await self._beside_play(learn) if counted else NOTHING_LEARNED
        try:
            if number == 1:
                check_first_update(metrics)
            else:
                self._sync.judge(metrics, number, self.config.tis_cap is not None)
        except UserError:
            self._write(self._update_line(number, metrics))
            raise
        self.state = replace(self.state, update=number, position=collector.position)
        due = self.validator.due(number)
        if self.accelerator.is_main_process and (last or due):
            write_samples(self.run.folder, number, rows, self.chat)
        try:
            with self._phase("weights"):
                refreshed = self._refresh()
                await self.shards.with_engines(self._hand_over(refreshed))
            validations = await self._validations(number, collector) if due else []
        finally:
            metrics["weights/gib"] = self._handed_gib
            metrics["seconds/engine_idle"] = self.engine.usage().idle_seconds - idle
            self._early_stopping.note(number, metrics)
            self._write(self._update_line(number, metrics))
        collector.advance(self.config.optimization.updates - number)
        better = self._note_validations(validations)
        reason = self._early_stopping.reason(learner, self.validator)
        if better or last or reason or number % self.config.checkpoint_every == 0:
            self._save(better)
        return reason

    async def _validations(self, number: int, collector: Collector) -> Sequence[Line]:
        """Validate with no training episodes in flight."""
        with self._phase("rollout"):
            await collector.settle()
        with self._phase("validation"):
            return await self.validator.play(number, self._count("validation"))

    async def _beside_play(self, learn: Callable[[], Metrics]) -> Metrics:
        """Learn; with asynchronous rollouts in a thread, while episodes continue."""
        if self.config.rollout.max_staleness is None:
            return learn()

        # Every thread starts on the first device.
        gpu = torch.cuda.current_device() if self.accelerator.device.type == "cuda" else None

        def on_device() -> Metrics:
            if gpu is not None:
                torch.cuda.set_device(gpu)
            return learn()

        return await asyncio.to_thread(on_device)

    def _update_line(self, number: int, metrics: Metrics) -> Line:
        """The log line of an update, with its time and memory."""
        metrics = metrics | memory_metrics() | self._clock.metrics()
        metrics |= self._speed.metrics(metrics.get("seconds/update"))
        metrics["seconds/checkpoint"] = self.state.checkpoint_seconds or None
        seconds = self.state.seconds + self._clock.total
        self.state = replace(self.state, seconds=seconds, checkpoint_seconds=0.0)
        return {"kind": "update", "update": number, "seconds_total": seconds, **metrics}

    async def _hand_over(self, older: bool) -> None:
        """Send the policy's weights to the engine, and those of the older policy to its own.

        Includes the init's, before any episode: a server may still have those of another run.

        Raises:
            UserError: The engine does not take weights, or has wrong ones.
            EngineDown: It failed, or does not take weights any more.
        """
        with memory_advice(self.config.optimization):
            weights = self._weights()
        try:
            # A sleeping engine reclaims its memory here.
            with memory_advice(self.config.optimization):
                await self.engine.load_weights(weights.items(), self.state.update)
                if older and self.older is not None and self.older_weights is not None:
                    version = self.state.older_version
                    await self.older.load_weights(self.older_weights.items(), version)
        except UserError as error:
            if not self._handed_gib:
                raise
            # It has taken others before: the run, not its setting, has failed.
            raise EngineDown(str(error)) from error
        self._handed_gib = sum(w.numel() * w.element_size() for w in weights.values()) / 2**30
        await self._sync.after_sync(weights)

    def _weights(self) -> Mapping[str, torch.Tensor]:
        """The policy's weights in the engine's type; every process must call this.

        An engine would round to nearest, which loses LoRA's updates.
        """
        narrow = "bfloat16" in (self.run.weights_dtype, self.engine.describe().get("dtype"))
        dtype = torch.bfloat16 if narrow else torch.float32
        return self.learner.weights(not self.shards.main_alone, dtype, self.state.update)

    def _refresh(self) -> bool:
        """Replace cross-policy sampling's older policy by the current one; return whether due."""
        chosen, number = self.config.sampling.cross_policy, self.state.update
        if self.older is None or chosen is None or not chosen.refresh_due(number):
            return False
        weights = self._weights()
        self.older_weights = {name: value.detach().clone() for name, value in weights.items()}
        self.state = replace(self.state, older_version=number)
        return True

    async def _validate(self) -> None:
        """Validate between two updates."""
        self._clock.begin()
        try:
            with self._phase("validation"):
                lines = await self.validator.play(self.state.update, self._count("validation"))
        finally:
            self.state = replace(self.state, seconds=self.state.seconds + self._clock.total)
        better = self._note_validations(lines)
        if self.state.update:
            self._save(better)

    def _note_validations(self, lines: Sequence[Line]) -> bool:
        """Log validations; return whether they are the best so far."""
        for line in lines:
            self._write({**line, "seconds_total": self.state.seconds})
        if not lines:
            return False
        self.state = replace(self.state, validated=self.state.update)
        success = sum(line["success"] for line in lines) / len(lines)
        better = self.state.best is None or success > self.state.best
        if better:
            self.state = replace(self.state, best=success)
        return better and self.state.update > 0

    def _save_after(self, end: Stopped | EngineLost | NothingPlayed) -> None:
        """Write a checkpoint when a run ends, unless this state already has one.

        Raises:
            UserError: It cannot be written; the message begins with what has ended the run.
        """
        if isinstance(end, NothingPlayed) and not self.state.update:
            return  # another setting may help, and a checkpoint would pin this one
        saved = find_last(self.run.folder, self.run.sha256)
        if saved is not None and saved.progress >= self.state.progress:
            return
        try:
            self._save(better=False)
        except UserError as error:
            if isinstance(end, Stopped):
                raise
            failed = "the engine failed: " if isinstance(end, EngineLost) else ""
            raise UserError(f"{failed}{end}; {error}") from error

    def _save(self, better: bool) -> None:
        began = time.monotonic()
        self.watch.phase("checkpoint", 0, 0)
        model, state = self.learner.model, replace(self.state, skipped=self.learner.skipped)
        if better:
            save_best(self.accelerator, model, self.chat, self.run.folder)
        folder, older = self.run.folder, self.older_weights
        save_last(self.accelerator, model, self.chat, folder, state, older, self.learner)
        took = time.monotonic() - began
        self.state = replace(self.state, seconds=self.state.seconds + took, checkpoint_seconds=took)

    def _resume(self) -> bool:
        """Resume from the last checkpoint, if there is one."""
        folder = self.run.folder
        state = find_last(folder, self.run.sha256, self.run.facts)
        if state is None:
            if self.accelerator.is_main_process:
                set_aside(folder / LOG)
            return False
        self.older_weights = load_last(self.accelerator, folder, self.learner)
        if self.accelerator.is_main_process:
            truncate_after(folder / LOG, state.update, state.validated)
        self.accelerator.wait_for_everyone()
        self.state = state
        self.learner.skipped = state.skipped or (0, 0)
        return True

    def _write(self, line: Line) -> None:
        """Append a line to the log and tell the watcher, on the main process only."""
        if self._log is not None:
            if self._resume_line is not None:
                self._log.append(self._resume_line)
                self._resume_line = None
            line = self._log.append(line)
            self.watch.line(line)
        if numbers := tracked(line, several_panels=len(self.validator.plan.panels) > 1):
            self._trackers.log(numbers, line["update"])

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self.watch.phase(name.replace("_", " "), 0, 0)
        with self._clock.phase(name):
            yield

    def _count(self, name: str) -> Count:
        """Create a callback that reports a phase's progress."""
        return partial(self.watch.phase, name)
