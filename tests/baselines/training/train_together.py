"""Two training runs of several processes, one after the other; run by all of them at once.

python train_together.py FOLDER RECIPE SETTING...

In `FOLDER/each` every process has an engine, in `FOLDER/main` the main one has the only one.
"""

import asyncio
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import torch
from accelerate import Accelerator

from baselines.config.layers import resolve
from baselines.config.run import TrainingCallbacks, TrainingRun
from baselines.inits.registry import find_model
from baselines.training.trainer import Trainer
from benchmark.engines.transformers.engine import TransformersEngine
from tasks.registry import load_task


def main() -> None:
    """Train twice."""
    folder, recipe, *own = sys.argv[1:]
    torch.set_num_threads(1)
    for engines in ("each", "main"):
        train(Path(folder) / engines, engines == "each", recipe, own)
    Accelerator(cpu=True).end_training()


def train(folder: Path, each: bool, recipe: str, own: list[str]) -> None:
    """Train with an engine for each process, or with one for all."""
    init = find_model("tiny-sokoban")
    weights = init.path
    assert weights is not None
    config = resolve(recipe, "tiny", ["sokoban"], own)
    run = TrainingRun(recipe, config, (load_task("sokoban"),), init, 0, folder)
    folder.mkdir(exist_ok=True)
    accelerator = Accelerator(cpu=True)

    async def trained() -> None:
        async with AsyncExitStack() as stack:
            engine = None
            if each or accelerator.is_main_process:
                engine = await stack.enter_async_context(TransformersEngine(weights, steady=True))
            await Trainer(run, engine, accelerator, TrainingCallbacks()).train()

    asyncio.run(trained())


if __name__ == "__main__":
    main()
