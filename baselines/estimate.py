"""What a run will take: measured on one small batch, the rest by proportion."""

import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accelerate import Accelerator

from baselines.collector import Collector, Source
from baselines.held_out import HeldOut
from baselines.learner import Learner
from baselines.rollouts import training_protocol
from baselines.train_config import GAE
from baselines.update import mini_batches
from benchmark.engines.base import Engine
from benchmark.hosts.choose import Hosts

if TYPE_CHECKING:
    from baselines.training_run import TrainingRun

GIB = 2**30
MEASURED_GROUPS = 2


@dataclass(frozen=True, slots=True)
class Estimate:
    """Time and memory of a run.

    Attributes:
        parameters: Of the policy.
        processes: That share the work.
        rows: Of one update, expected.
        tokens: Prompt and response tokens of one update's rows, expected.
        rollout_s: Seconds of one update for playing.
        learn_s: Seconds of one update for old and reference log-probabilities and optimizer steps.
        validation_s: Seconds of one validation.
        updates: Of the run.
        validations: Of the run.
        weights_gib: Policy, gradients, optimizer, init, critic: computed from the parameters.
        measured: What was measured, for people.
    """

    parameters: int
    processes: int
    rows: float
    tokens: float
    rollout_s: float
    learn_s: float
    validation_s: float
    updates: int
    validations: int
    weights_gib: float
    measured: str

    def text(self) -> str:
        """For people."""
        update = self.rollout_s + self.learn_s
        whole = self.updates * update + self.validations * self.validation_s
        return "\n".join(
            [
                f"policy: {self.parameters:,} parameters, {self.processes} process(es)",
                f"one update: about {self.rows:.0f} rows, {self.tokens:,.0f} tokens; "
                f"{self.rollout_s:.1f} s of playing, {self.learn_s:.1f} s of learning",
                f"one validation: about {self.validation_s:.1f} s",
                f"the run: {self.updates} updates and {self.validations} validations, about "
                f"{whole / 60:.1f} minutes",
                f"memory for weights, gradients and optimizer: {self.weights_gib:.2f} GiB "
                "(computed; activations and the engine's cache come on top and grow with "
                "optimisation.micro_batch_tokens and rollout.concurrency)",
                f"measured: {self.measured}; all else by proportion, with one try of dynamic "
                "sampling and no episode that becomes longer or shorter as the policy learns",
            ]
        )


async def measure(run: "TrainingRun", engine: Engine, accelerator: Accelerator) -> Estimate:
    """Play a few groups, learn from them once with a learning rate of 0, and extrapolate.

    Args:
        run: What is to be estimated.
        engine: Started, with the init's weights.
        accelerator: Processes and devices.

    Raises:
        UserError: The run could not be made.
    """
    config = run.config
    learner = Learner(run, accelerator, lambda phase: nullcontext())
    sources = {
        task.info.name: Source(task, training_protocol(task, config, run.seed))
        for task in run.tasks
    }
    async with Hosts(run.env_processes) as hosts:
        held_out = HeldOut(run, engine, hosts, accelerator)
        collector = Collector(config, sources, engine, hosts, accelerator)
        count = min(MEASURED_GROUPS * accelerator.num_processes, config.rollout.groups)
        began = time.monotonic()
        groups = await collector.play(collector.next_places(count))
        played = time.monotonic() - began
    rows = sorted((row for group in groups for row in group.rows), key=lambda row: row.key)
    learner.set_learning_rate(0.0)
    began = time.monotonic()
    learner.learn(rows, mini_batches(len(rows), config.optimisation, run.seed, 1), 1)
    learnt = time.monotonic() - began
    episodes = sum(len(group.episodes) for group in groups)
    share = config.rollout.groups / count
    optimisation, every = config.optimisation, config.validation.every
    parameters = learner.parameters
    # Policy, gradient, two moments and the init in float32; a critic has the first four, too.
    numbers = 5 + (4 if isinstance(config.advantage, GAE) else 0)
    return Estimate(
        parameters=parameters,
        processes=accelerator.num_processes,
        rows=len(rows) * share,
        tokens=sum(row.length for row in rows) * share,
        rollout_s=played * share,
        learn_s=learnt * share,
        validation_s=played * len(held_out.plan.jobs()) / episodes,
        updates=optimisation.updates,
        validations=2 + (optimisation.updates - 1) // every if every else 0,
        weights_gib=4 * numbers * parameters / GIB,
        measured=f"{episodes} episodes of {count} groups played, and {len(rows)} rows learnt from, "
        "on this machine, now",
    )
