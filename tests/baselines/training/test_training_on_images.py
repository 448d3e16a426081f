"""Trains a vision-language model on boards shown as images."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file

from baselines.config.layers import resolve
from baselines.config.run import TrainingCallbacks, TrainingRun
from baselines.inits.registry import find_model
from baselines.learning.images import freeze_vision
from baselines.training.trainer import Trainer
from benchmark.engines.core.chat import Chat
from benchmark.engines.core.vision import PROCESSOR
from benchmark.logs.training_log import LOG
from tasks.errors import UserError
from tasks.registry import load_task
from tests.support.training.runs import engines_of
from tests.support.training.synthetic_rows import random_model

INIT = find_model("tiny-sokoban-pixels")
SMALL = (
    "rollout.groups=2",
    "rollout.group_size=4",
    "rollout.max_turns=4",
    "rollout.max_tokens=40",
    "validation.every=null",
    "checkpoint_every=1",
    "optimization.warmup_updates=0",
    "optimization.updates=1",
)


def train(folder: Path, recipe: str, *own: str) -> dict[str, Any]:
    """Train for one update and return its log line."""
    torch.set_num_threads(1)
    assert INIT.path is not None
    model = INIT.path
    task = load_task("sokoban").configured({"view": "pixels"})
    config = resolve(recipe, "tiny", ["sokoban"], [*SMALL, *own])
    run = TrainingRun(recipe, config, (task,), INIT, 3, folder)
    folder.mkdir()

    async def main() -> None:
        async with engines_of(config, model) as (engine, older):
            accelerator = Accelerator(cpu=True, project_dir=folder)
            await Trainer(run, engine, accelerator, TrainingCallbacks(), older).train()

    asyncio.run(main())
    lines = [json.loads(line) for line in (folder / LOG).read_text("utf-8").splitlines()]
    (update,) = (line for line in lines if line["kind"] == "update")
    return dict(update)


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [True, False])
def test_the_image_side_stays_where_it_is_frozen(tmp_path: Path, frozen: bool) -> None:
    line = train(tmp_path / "run", "ppo", f"optimization.freeze_vision={str(frozen).lower()}")
    assert line["policy/grad_norm"] > 0
    assert INIT.path is not None
    before, after = (
        load_file(folder / "model.safetensors") for folder in (INIT.path, tmp_path / "run" / "last")
    )
    moved = {name for name, weight in before.items() if not torch.equal(weight, after[name])}
    assert any("language_model" in name for name in moved)
    assert any("visual" in name for name in moved) != frozen


def test_a_model_of_texts_has_no_image_side_to_freeze() -> None:
    with pytest.raises(UserError, match="reads only text"):
        freeze_vision(random_model())


# A second policy, entropies and a critic also read images; anything computed from log-probabilities
# does not depend on them (`test_trainer.py` covers every choice).
@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["agentrl", "empg", "ppo", "sampo"])
def test_recipes_train_on_images(tmp_path: Path, recipe: str) -> None:
    line = train(tmp_path / "run", recipe)
    assert math.isfinite(line["policy/loss"]) and math.isfinite(line["policy/grad_norm"])
    assert line["policy/skipped_steps"] == 0
    assert line["rollout/format_ok"] > 0.9, "it knows what to say"
    assert line["engine/abs_max"] < 1e-3, "the trainer's log-probabilities are the engine's"
    # The trained model can be evaluated: it is saved with its image processor.
    trained, model = tmp_path / "run" / "last", INIT.path
    assert model is not None
    assert (trained / PROCESSOR).read_bytes() == (model / PROCESSOR).read_bytes()
    assert Chat.load(trained).vision().image_token == Chat.load(model).vision().image_token
