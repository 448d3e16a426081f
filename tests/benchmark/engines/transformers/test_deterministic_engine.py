"""Deterministic engines give bitwise equal answers, whatever the timing or earlier requests."""

import asyncio
import random
from pathlib import Path

import pytest

from benchmark.engines.core.base import Sampling
from benchmark.engines.transformers.engine import TransformersEngine
from tests.support.engines.tiny_model import answer_all, make_tiny_model, mixed_prompts
from tests.support.engines.uneven import LogProbs, talk


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny", context=512)


@pytest.mark.slow
async def test_a_steady_engine_says_the_same_to_slow_clients_to_the_bit(folder: Path) -> None:
    firsts = mixed_prompts(24, seed=7)

    async def play(pause: random.Random | None) -> list[LogProbs]:
        async with TransformersEngine(folder, max_batch=16, deterministic=True) as engine:
            clients = [talk(engine, first, 1 + i % 4, pause) for i, first in enumerate(firsts)]
            return await asyncio.gather(*clients)

    at_once = await play(None)
    assert at_once == await play(random.Random(1)) == await play(random.Random(2))


async def test_a_steady_engine_forgets_what_was_played_before(folder: Path) -> None:
    # The instructions are shorter in the first batch than in the second.
    before = [f"{'You push boxes. ' * 12}{level}" for level in ("abc", "xyz", "kmn")]
    prompts = [f"{'You push boxes. ' * 20}{level}" for level in ("klm", "opq", "stu")]
    sampling = Sampling(temperature=1.0, max_tokens=12)

    async with TransformersEngine(folder, deterministic=True) as engine:
        fresh = await answer_all(engine, prompts, sampling)
    async with TransformersEngine(folder, deterministic=True) as engine:
        await answer_all(engine, before, sampling)
        later = await answer_all(engine, prompts, sampling)
    assert [g.token_log_probs for g in later] == [g.token_log_probs for g in fresh]
