"""Engines that are slow at times, or fail: timing must affect nothing but time."""

import asyncio
import random
import time
from pathlib import Path
from typing import Any

from benchmark.engines.core.base import Engine, Generation, Request, Sampling
from benchmark.engines.transformers.engine import TransformersEngine
from tasks.seeding import stable_seed
from tests.support.engines.tiny_model import ask

LogProbs = list[tuple[float, ...] | None]


class UnevenEngine(TransformersEngine):
    """Delays its steps at random, and may fail in one of them.

    Args:
        folder: Folder of the weights.
        seed: Seed of the delays; None for no delays.
        fails_at: Number of the step that fails, from 1; 0 for none.
        slow_clients: Whether requests also arrive with random delays.
    """

    def __init__(
        self, folder: Path, seed: int | None, fails_at: int = 0, slow_clients: bool = False
    ) -> None:
        super().__init__(folder, max_batch=8, deterministic=True)
        self._pauses = None if seed is None else random.Random(seed)
        self._requests = random.Random(seed) if slow_clients else None
        self._steps_left = fails_at

    async def generate(self, request: Request) -> Generation:
        if self._requests is not None:
            await asyncio.sleep(self._requests.uniform(0, 0.02))
        return await super().generate(request)

    def _advance(self, arrived: Any) -> Any:
        self._steps_left -= 1
        if self._steps_left == 0:
            raise RuntimeError("out of memory")
        if self._pauses is not None:
            time.sleep(self._pauses.uniform(0, 0.004))
        return super()._advance(arrived)


async def talk(
    engine: Engine, first: str, turns: int, pause: random.Random | None = None
) -> LogProbs:
    """The answers to a client that sends a new request after each answer, slowly or immediately."""
    found: LogProbs = []
    with engine.client():
        for turn in range(turns):
            if pause is not None:
                await asyncio.sleep(pause.uniform(0, 0.02))
            seed = stable_seed(first, turn)
            request = ask(f"{first} {turn}", Sampling(temperature=1.0, max_tokens=12), seed)
            found.append((await engine.generate(request)).token_log_probs)
    return found
