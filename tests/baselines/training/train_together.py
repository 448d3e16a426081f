"""Training runs in several processes, one after the other; run by all of them at once.

python train_together.py FOLDER each|main|each,main|down|refused RECIPE SETTING...

Every process has an engine, or only the main one. Two runs are in folders of these names in
`FOLDER`. With `down`, every process has an engine, and the last one's crashes as it gets the
weights of update 2; with `refused`, all of them refuse every request from then on.
"""

import asyncio
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator

from baselines.config.layers import resolve
from baselines.config.run import TrainingCallbacks, TrainingRun
from baselines.inits.registry import find_model
from baselines.learning.learner import Learner
from baselines.training.trainer import Trainer
from benchmark.engines.core.base import EngineDown, EngineError, Generation, Request
from benchmark.engines.transformers.engine import TransformersEngine
from tasks.registry import load_task


class Gathering(Learner):
    """Has a state that needs all processes."""

    def state_dict(self) -> Mapping[str, Any]:
        ranks = torch.tensor([self.accelerator.process_index])
        return {"ranks": self.accelerator.gather(ranks)}


class Dying(TransformersEngine):
    """Does not accept the weights of update 2."""

    async def load_weights(self, weights: Any, version: int) -> None:
        if version == 2:
            raise EngineDown("gone")
        await super().load_weights(weights, version)


class Refusing(TransformersEngine):
    """Refuses all requests once it has the weights of update `until`."""

    until = 2
    version = 0

    async def load_weights(self, weights: Any, version: int) -> None:
        self.version = version
        await super().load_weights(weights, version)

    async def generate(self, request: Request) -> Generation:
        if self.version == self.until:
            raise EngineError("refused")
        return await super().generate(request)


KINDS = {"down": Dying, "refused": Refusing}


def main() -> None:
    """Train."""
    folder, chosen, recipe, *own = sys.argv[1:]
    torch.set_num_threads(1)
    for engines in chosen.split(","):
        place = Path(folder) / engines if "," in chosen else Path(folder)
        train(place, engines, recipe, own)
    Accelerator(cpu=True).end_training()


def train(folder: Path, engines: str, recipe: str, own: list[str]) -> None:
    """Train with one engine per process, or with one for all."""
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
            if engines != "main" or accelerator.is_main_process:
                kind = KINDS.get(engines, TransformersEngine)
                if kind is Dying and not accelerator.is_last_process:
                    kind = TransformersEngine
                engine = await stack.enter_async_context(kind(weights, deterministic=True))
            callbacks = TrainingCallbacks()
            await Trainer(run, engine, accelerator, callbacks, learner=Gathering).train()

    asyncio.run(trained())


if __name__ == "__main__":
    main()
