"""Training a vision-language model on boards that are shown as images."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
from accelerate import Accelerator

from baselines.config.layers import resolve
from baselines.config.run import TrainingCallbacks, TrainingRun
from baselines.training.trainer import Trainer
from benchmark.engines.core.chat import Chat
from benchmark.engines.core.vision import PROCESSOR
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.logs.training_log import LOG
from benchmark.models import from_folder
from tasks.registry import load_task
from tests.support.engines.tiny_vision import tiny_vision_model

SMALL = (
    "rollout.groups=2",
    "rollout.group_size=2",
    "rollout.max_turns=3",
    "rollout.max_tokens=6",
    "validation.every=null",
    "checkpoint_every=1",
    "optimization.warmup_updates=0",
    "optimization.updates=1",
)


def train(model: Path, folder: Path, recipe: str) -> dict[str, Any]:
    """One update, and its line of the log."""
    task = load_task("sokoban").configured({"view": "pixels"})
    config = resolve(recipe, "tiny", ["sokoban"], SMALL)
    run = TrainingRun(recipe, config, (task,), from_folder(model), 3, folder)

    folder.mkdir()

    async def main() -> None:
        async with TransformersEngine(model, steady=True) as engine:
            accelerator = Accelerator(cpu=True, project_dir=folder)
            await Trainer(run, engine, accelerator, TrainingCallbacks()).train()

    asyncio.run(main())
    lines = [json.loads(line) for line in (folder / LOG).read_text("utf-8").splitlines()]
    (update,) = (line for line in lines if "policy/loss" in line)
    return dict(update)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["sampo", "ppo"])
def test_an_update_on_images(tmp_path: Path, recipe: str) -> None:
    model = tiny_vision_model(tmp_path / "model")
    line = train(model, tmp_path / "run", recipe)
    assert math.isfinite(line["policy/loss"]) and math.isfinite(line["policy/grad_norm"])
    assert line["engine/abs_max"] < 1e-3, "the trainer's log-probabilities are the engine's"
    # What was trained can be played: its image processor came with it.
    trained = tmp_path / "run" / "last"
    assert (trained / PROCESSOR).read_bytes() == (model / PROCESSOR).read_bytes()
    assert Chat.load(trained).vision().image_token == Chat.load(model).vision().image_token
