"""Training runs that take seconds, with the real engine and task."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from baselines.config.layers import resolve
from baselines.config.run import TrainingCallbacks, TrainingRun
from baselines.config.schema import TrainConfig
from baselines.inits.registry import find_model
from baselines.learning.learner import Learner
from baselines.training.trainer import Trainer
from benchmark.engines.transformers.engine import TransformersEngine
from tasks.registry import load_task

SMALL = [
    "rollout.groups=2",
    "rollout.group_size=4",
    "rollout.max_turns=4",
    "validation.every=null",
    "checkpoint_every=2",
    "optimization.warmup_updates=0",
]


@asynccontextmanager
async def engines_of(
    config: TrainConfig, weights: Path, played_by: type[TransformersEngine] = TransformersEngine
) -> AsyncIterator[tuple[TransformersEngine, TransformersEngine | None]]:
    """The policy's engine, and the older policy's if the recipe has one."""
    async with played_by(weights, deterministic=True) as engine:
        if config.sampling.cross_policy is None:
            yield engine, None
            return
        async with played_by(weights, deterministic=True) as older:
            yield engine, older


def train(
    folder: Path,
    recipe: str = "sampo",
    own: tuple[str, ...] = (),
    kill_at: int | None = None,
    tasks: tuple[str, ...] = ("sokoban",),
    stop_on_collapse: bool = False,
    said: Callable[[str, int, int], None] | None = None,
    learner: type[Learner] = Learner,
    played_by: type[TransformersEngine] = TransformersEngine,
    stop_in: tuple[str, int] | None = None,
) -> list[dict[str, Any]]:
    """Train, and return the update lines of this session.

    With `kill_at`, `FOLDER-killed` becomes the state after a kill following that update's line.
    With `stop_in`, training is asked to stop within a phase after this many updates.
    """
    torch.set_num_threads(1)
    config = resolve(recipe, "tiny", tasks, [*SMALL, *own])
    name = "all-mixed" if len(tasks) > 1 else tasks[0].replace("_", "-")
    init = find_model(f"tiny-{name}")
    weights = init.path
    assert weights is not None
    run = TrainingRun(
        recipe, config, tuple(map(load_task, tasks)), init, 0, folder, (), stop_on_collapse
    )
    lines: list[dict[str, Any]] = []

    def keep(line: Any) -> None:
        if line["kind"] == "update":
            lines.append(dict(line))
            if line["update"] == kill_at:
                shutil.copytree(folder, folder.with_name(f"{folder.name}-killed"))

    folder.mkdir(exist_ok=True)

    async def main() -> None:
        async with engines_of(config, weights, played_by) as (engine, older):
            accelerator = Accelerator(cpu=True, project_dir=folder)

            def tell(phase: str, done: int, total: int) -> None:
                if said is not None:
                    said(phase, done, total)
                if (phase, trainer.state.update) == stop_in and done:
                    trainer.stop()

            watch = TrainingCallbacks(keep, tell)
            trainer = Trainer(run, engine, accelerator, watch, older, learner)
            await trainer.train()

    asyncio.run(main())
    return lines
