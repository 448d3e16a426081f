"""Runs two updates of a tiny model on this machine, and measures everything that can go wrong."""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import torch

from baselines.config.layers import resolve
from baselines.config.run import TrainingCallbacks, TrainingRun
from baselines.doctor.peaks import Peaks
from baselines.doctor.weight_sync import WeightSync, check_weight_sync
from baselines.inits.registry import find_model
from baselines.learning.metrics import MOST_AT_FIRST
from baselines.training.processes import make_accelerator
from baselines.training.trainer import Trainer
from benchmark.engines.core.base import Engine, EngineDown
from benchmark.logs.training_log import LOG, read_training_log
from tasks.errors import UserError
from tasks.registry import load_task

log = logging.getLogger(__name__)

INIT: Final = "tiny-sokoban"
_SETTINGS: Final = (
    "rollout.groups=4",
    "rollout.group_size=4",
    "rollout.max_turns=6",
    "optimization.updates=2",
    "optimization.mini_batches=2",
    "optimization.warmup_updates=0",
    "validation.every=null",
    "checkpoint_every=2",
)
_LEARNING: Final = ("old_log_probs", "reference", "update")


@dataclass
class Smoke:
    """Results of the run so far.

    Attributes:
        doing: The current or last step.
        failure: Why the run failed in that step; None if it succeeded.
        engine: The engine's description of itself.
        start_s: Seconds until the engine was ready.
        weight_sync: See `check_weight_sync`.
        updates: The log's lines.
        peaks: Peak memory by phase, in GiB.
    """

    doing: str = "setup"
    failure: str | None = None
    engine: Mapping[str, Any] = field(default_factory=dict)
    start_s: float | None = None
    weight_sync: WeightSync | None = None
    updates: list[Mapping[str, Any]] = field(default_factory=list)
    peaks: Mapping[str, float] = field(default_factory=dict)

    def speed(self, tokens: str, *phases: str) -> float | None:
        """Tokens of the last update per second of the given phases."""
        if not self.updates:
            return None
        last = self.updates[-1]
        seconds = sum(last.get(f"seconds/{phase}") or 0.0 for phase in phases)
        return (last.get(tokens) or 0) / seconds if seconds else None

    @property
    def generated_per_s(self) -> float | None:
        """Generated response tokens per second of rollout."""
        return self.speed("tokens/response", "rollout")

    @property
    def trained_per_s(self) -> float | None:
        """Trained response tokens per second of learning."""
        return self.speed("tokens/trained", *_LEARNING)


def smoke_run(folder: Path) -> TrainingRun:
    """Configure the run: GRPO on Sokoban, on a GPU in bf16, as for large models.

    Args:
        folder: Folder for its log and checkpoint.
    """
    own = ("optimization.mixed_precision=bf16",) if torch.cuda.is_available() else ()
    config = resolve("grpo", "tiny", ["sokoban"], [*_SETTINGS, *own])
    return TrainingRun("grpo", config, (load_task("sokoban"),), find_model(INIT), 0, folder)


async def run_smoke(run: TrainingRun, build: Callable[[], Engine]) -> Smoke:
    """Train for two updates; a failure is recorded in the result.

    Args:
        run: Result of `smoke_run`.
        build: Builds the engine.
    """
    found, peaks = Smoke(), Peaks()
    run.folder.mkdir(parents=True, exist_ok=True)
    try:
        await _train(run, build, found, peaks)
    except (UserError, EngineDown) as error:
        log.debug("traceback of the smoke run", exc_info=True)
        found.failure = str(error)
    peaks.begin(None)
    found.peaks = dict(peaks.of)
    if (run.folder / LOG).exists():
        log_lines = read_training_log(run.folder / LOG, allow_torn=True)
        found.updates = [dict(line.values) for line in log_lines.updates]
    return found


async def _train(run: TrainingRun, build: Callable[[], Engine], found: Smoke, peaks: Peaks) -> None:
    async with AsyncExitStack() as stack:
        found.doing = "start of the engine"
        peaks.begin("engine start")
        began = time.monotonic()
        engine = await stack.enter_async_context(build())
        found.start_s = time.monotonic() - began
        found.engine = engine.describe()
        found.doing = "start of the trainer"
        peaks.begin("trainer start")
        watch = TrainingCallbacks(phase=peaks.begin)
        trainer = Trainer(run, engine, make_accelerator(run), watch)
        found.doing = "weight sync"
        peaks.begin("weights")
        found.weight_sync = await check_weight_sync(engine, trainer.learner.weights())
        found.doing = "two updates"
        await trainer.train()
        found.doing = "comparison of engine and trainer after a weight sync"
        gap = read_training_log(run.folder / LOG).updates[-1].values.get("engine/k3")
        if not (isinstance(gap, float) and gap <= MOST_AT_FIRST):
            raise UserError(
                f"after the first weight sync engine/k3 is {gap}, above {MOST_AT_FIRST:g}: the "
                "engine answers from other weights than the trainer's"
            )
