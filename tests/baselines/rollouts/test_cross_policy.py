"""Cross-policy sampling with two real engines."""

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from baselines.rollouts.cross_policy import CrossPolicyEngine
from benchmark.engines.core.base import Engine, EngineDown, Sampling
from benchmark.engines.core.metered import MeteredEngine
from tests.support.engines.tiny_model import ask, make_tiny_model, mixed_prompts
from tests.support.engines.uneven import LogProbs, UnevenEngine, talk
from tests.support.training.logs import without_times
from tests.support.training.runs import train

SHARE = 0.4


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny", context=512)


async def play(
    current: Engine, older: Engine, pause: random.Random | None = None
) -> list[LogProbs | BaseException]:
    """All answers of the two engines to 24 clients."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(current)
        await stack.enter_async_context(older)
        engine = CrossPolicyEngine(MeteredEngine(current), older, SHARE)  # as in the trainer
        firsts = mixed_prompts(24, seed=7)
        clients = [talk(engine, first, 1 + i % 4, pause) for i, first in enumerate(firsts)]
        return await asyncio.gather(*clients, return_exceptions=True)


async def test_two_engines_say_the_same_to_the_bit_whoever_is_slow(folder: Path) -> None:
    at_once = await play(UnevenEngine(folder, None), UnevenEngine(folder, None))
    assert all(isinstance(answers, list) for answers in at_once)
    for one, other, clients in ((1, None, None), (None, 2, None), (3, 4, 5), (None, None, 6)):
        pause = None if clients is None else random.Random(clients)
        engines = UnevenEngine(folder, one), UnevenEngine(folder, other)
        assert await play(*engines, pause) == at_once


@pytest.mark.parametrize("which", [0, 1])
async def test_clients_of_two_engines_end_when_one_of_them_dies(which: int, folder: Path) -> None:
    current, older = [UnevenEngine(folder, None, fails_at=8 if which == i else 0) for i in range(2)]
    found = await asyncio.wait_for(play(current, older), timeout=60)
    down = [answers for answers in found if isinstance(answers, BaseException)]
    assert down and all(isinstance(error, EngineDown) for error in down)


async def test_a_share_of_the_turns_is_the_older_policys(folder: Path) -> None:
    asked = [0, 0]

    class Counted(UnevenEngine):
        async def generate(self, request: Any) -> Any:
            asked[self is older] += 1
            return await super().generate(request)

    current, older = Counted(folder, None), Counted(folder, None)
    await play(current, older)
    assert sum(asked) == sum(1 + i % 4 for i in range(24))
    assert 0.2 < asked[1] / sum(asked) < 0.6


async def test_two_engines_answer_whoever_asks_without_being_a_client(folder: Path) -> None:
    async with UnevenEngine(folder, 1) as current, UnevenEngine(folder, 2) as older:
        engine = CrossPolicyEngine(current, older, SHARE)
        sampling = Sampling(temperature=1.0, max_tokens=12)
        asked = [engine.generate(ask(f"level {i}", sampling, seed=i)) for i in range(24)]
        answers = await asyncio.wait_for(asyncio.gather(*asked), timeout=60)
    assert len(answers) == 24


async def test_a_client_that_gives_up_holds_nobody_up(folder: Path) -> None:
    async with UnevenEngine(folder, 1) as current, UnevenEngine(folder, 2) as older:
        engine = CrossPolicyEngine(current, older, SHARE)
        firsts = mixed_prompts(24, seed=7)
        clients = [asyncio.create_task(talk(engine, first, 4)) for first in firsts]
        for leaving in clients[::3]:
            await asyncio.sleep(0.02)
            leaving.cancel()
        found = await asyncio.wait_for(asyncio.gather(*clients, return_exceptions=True), 60)
    left = [one for one in found if isinstance(one, asyncio.CancelledError)]
    assert left and sum(isinstance(one, list) for one in found) == len(firsts) - len(left)
    assert len(left) <= len(clients[::3])


def test_training_with_two_engines_repeats_to_the_bit(tmp_path: Path) -> None:
    seeds = iter(range(1, 5))

    class Uneven(UnevenEngine):
        def __init__(self, folder: Path, deterministic: bool) -> None:
            assert deterministic
            super().__init__(folder, next(seeds), slow_clients=True)

    own = ("optimization.updates=3", "sampling.cross_policy.refresh_every=2")
    once, again = (
        train(tmp_path / name, "agentrl", own, played_by=Uneven) for name in ("once", "again")
    )
    assert len(once) == 3 and all(line["policy/grad_norm"] > 0 for line in once)
    assert [without_times(line) for line in once] == [without_times(line) for line in again]
