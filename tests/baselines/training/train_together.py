"""A training run of several processes; run by all of them at once.

python train_together.py FOLDER each|main RECIPE SETTING...

Every process has an engine, or the main one has the only one.
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
    """Train."""
    folder, engines, recipe, *own = sys.argv[1:]
    torch.set_num_threads(1)
    init = find_model("tiny-sokoban")
    weights = init.path
    assert weights is not None
    config = resolve(recipe, "tiny", ["sokoban"], own)
    run = TrainingRun(recipe, config, (load_task("sokoban"),), init, 0, Path(folder))
    accelerator = Accelerator(cpu=True)

    async def train() -> None:
        async with AsyncExitStack() as stack:
            engine = None
            if engines == "each" or accelerator.is_main_process:
                engine = await stack.enter_async_context(TransformersEngine(weights, steady=True))
            await Trainer(run, engine, accelerator, TrainingCallbacks()).train()

    asyncio.run(train())
    accelerator.end_training()


if __name__ == "__main__":
    main()
