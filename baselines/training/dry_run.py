"""Estimates a run's time and memory by measuring one small batch and extrapolating."""

import logging
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from accelerate import Accelerator

from baselines.config.layout import Layout
from baselines.config.schema import TrainConfig
from baselines.learning.estimation import returns_differ
from baselines.learning.learner import learn_from, make_learner
from baselines.learning.metrics import memory_metrics
from baselines.learning.tally import UpdateStats
from baselines.rollouts.collector import Collector, TaskSource, check_played
from baselines.rollouts.process_shards import ProcessShards
from baselines.rollouts.rows import PlayedGroup, training_protocol
from baselines.training.fit import memory_of
from baselines.training.validation import Validator
from benchmark.engines.core.base import Engine
from benchmark.hosts.choose import EnvPool
from tasks.errors import UserError
from tasks.texts import counted

if TYPE_CHECKING:
    from baselines.config.run import TrainingRun

log = logging.getLogger(__name__)

MEASURED_GROUPS = 2
_SIZES = (4_096, 8_192, 16_384, 32_768, 65_536)
"""Micro-batch sizes in tokens whose peaks are shown for a large policy."""
_LARGE = 8.0
"""Size of a large policy, in GiB."""


@dataclass(frozen=True, slots=True)
class RunCost:
    """Time and memory of a run.

    Attributes:
        rows: Expected rows per update.
        tokens: Expected prompt and response tokens of an update's rows.
        rollout_s: Seconds per update for the rollout.
        learn_s: Seconds per update for old and reference log-probabilities and optimizer steps.
        validation_s: Seconds per validation.
        updates: Number of updates in the run.
        validations: Number of validations in the run.
        tuning_updates: Updates of preceding tuning runs, which have no validations; counted in
            updates with as many episodes as the run's.
        peak_gib: Measured peak memory of this process so far, on its GPU if it has one.
        measured: Human-readable summary of the measurement.
    """

    rows: float
    tokens: float
    rollout_s: float
    learn_s: float
    validation_s: float
    updates: int
    validations: int
    tuning_updates: float
    peak_gib: float
    measured: str

    def text(self) -> str:
        """Human-readable text."""
        update = self.rollout_s + self.learn_s
        whole = self.updates * update + self.validations * self.validation_s
        first = self.tuning_updates * update
        tuning = (
            f"the tuning before it: {self.tuning_updates:.0f} updates, about {_time(first)}; "
            f"together about {_time(first + whole)}"
        )
        return "\n".join(
            [
                f"one update: about {self.rows:.0f} rows, {self.tokens:,.0f} tokens; "
                f"{self.rollout_s:.1f} s of playing, {self.learn_s:.1f} s of learning",
                f"one validation: about {self.validation_s:.1f} s",
                f"the run: {self.updates} updates and {self.validations} validations, about "
                f"{_time(whole)} (h:mm:ss)",
                *([tuning] if self.tuning_updates else []),
                f"peak memory of what was measured here, with libraries and engine: "
                f"{self.peak_gib:.2f} GiB",
                f"measured: {self.measured}; the rest is scaled by each task's tokens, assuming "
                "one attempt of dynamic sampling and a constant episode length",
            ]
        )


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def computed(run: "TrainingRun", layout: Layout) -> str:
    """Human-readable estimate from the model's configuration alone; nothing is loaded.

    Args:
        run: The run to estimate.
        layout: Its layout on devices.
    """
    memory = memory_of(run, layout)
    size = f"{memory.parameters:,} parameters, {counted(layout.processes, 'process')}"
    text = f"policy: {size}\n{memory.text()}"
    if memory.peak < _LARGE:
        return text
    others = [f"{n:,} tokens {memory_of(run, layout, n).peak:.1f}" for n in _SIZES]
    return f"{text}\nhighest peak by optimization.micro_batch_tokens: {', '.join(others)}"


@dataclass(frozen=True, slots=True)
class _Measured:
    """Played groups, episodes, rows and row tokens of a task."""

    groups: int
    episodes: int
    rows: int
    tokens: int


def _measured(groups: Sequence[PlayedGroup]) -> dict[str, _Measured]:
    """Count groups, episodes, rows and tokens by task."""
    found = {}
    for task in dict.fromkeys(group.task for group in groups):
        own = [group for group in groups if group.task == task]
        rows = [row for group in own for row in group.rows]
        episodes = sum(len(group.episodes) for group in own)
        found[task] = _Measured(len(own), episodes, len(rows), sum(row.length for row in rows))
    return found


def _check_finite(config: TrainConfig, stats: UpdateStats) -> None:
    """Refuse a method whose first steps would be skipped.

    Raises:
        UserError: A loss or a gradient is not finite.
    """
    if stats.skipped or stats.critic_skipped:
        raise UserError(
            f"{stats.skipped + stats.critic_skipped} optimizer steps from the init had a loss or "
            f"gradient that is not finite: check the formulas of the clipping "
            f"{config.clipping.name} and the advantage {config.advantage.name}"
        )


async def measure(
    run: "TrainingRun",
    engine: Engine | None,
    accelerator: Accelerator,
    tuning_updates: float = 0.0,
) -> RunCost:
    """Play a few groups, learn from them once with a learning rate of 0, and extrapolate.

    Args:
        run: The run to estimate.
        engine: Started, with the init's weights; None if only the main process has one.
        accelerator: Processes and devices.
        tuning_updates: See `RunCost`.

    Raises:
        UserError: The run would fail.
    """
    config = run.config
    learner = make_learner(run, accelerator, lambda phase: nullcontext())
    sources = {
        task.info.name: TaskSource(task, training_protocol(task, config, run.seed))
        for task in run.tasks
    }
    players = ProcessShards(accelerator, engine)
    async with EnvPool(run.env_processes, players.here) as hosts:
        held_out = Validator(run, players, hosts)
        collector = Collector(config, sources, players.engine, hosts, players)
        # The first places of the streams cover every task.
        count = min(max(MEASURED_GROUPS * players.count, len(sources)), config.rollout.groups)
        began = time.monotonic()
        places = collector.next_places(count)
        groups = players.together(await collector.play(players.mine(places)))
        played = time.monotonic() - began
    check_played(groups, 1)
    rows = sorted((row for group in groups for row in group.rows), key=lambda row: row.key)
    learner.set_learning_rate(0.0)
    began = time.monotonic()
    update = learn_from(learner, rows, 1)
    learned = time.monotonic() - began
    _check_finite(config, update.stats)
    if update.advantages.only_penalties and returns_differ(rows) and accelerator.is_main_process:
        log.warning(
            "returns in a group differ, but all advantages without format penalties are 0: look "
            "at the advantage %s",
            config.advantage.name,
        )
    wanted = Counter(
        source.task.info.name for source, _ in collector.places(0, config.rollout.groups)
    )
    measured = _measured(groups)
    rows_wanted = sum(wanted[task] / each.groups * each.rows for task, each in measured.items())
    tokens_wanted = sum(wanted[task] / each.groups * each.tokens for task, each in measured.items())
    episodes = sum(each.episodes for each in measured.values())
    tokens = sum(each.tokens for each in measured.values())
    share = tokens_wanted / tokens
    jobs = Counter(job.task.info.name for job in held_out.plan.jobs())
    held_out_tokens = sum(
        jobs[task] / each.episodes * each.tokens for task, each in measured.items()
    )
    optimization, every = config.optimization, config.validation.every
    memory = memory_metrics()
    peak = memory["memory/gpu_gib"] or memory["memory/host_gib"]
    assert peak is not None
    return RunCost(
        rows=rows_wanted,
        tokens=tokens_wanted,
        rollout_s=played * share,
        learn_s=learned * share,
        validation_s=played * held_out_tokens / tokens,
        updates=optimization.updates,
        validations=2 + (optimization.updates - 1) // every if every else 0,
        tuning_updates=tuning_updates,
        peak_gib=peak,
        measured=f"{episodes} episodes of {count} groups played, and {len(rows)} rows trained "
        "on, on this machine, now",
    )
