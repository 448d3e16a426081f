"""Replicas of a model in separate processes: the same answers, and all kinds of failures."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio

from baselines.inits.registry import find_model
from benchmark.engines.choose import EngineOptions, build_engine, unused_gpus
from benchmark.engines.core.base import (
    ChatOptions,
    Engine,
    EngineDown,
    EngineNotStarted,
    PromptTooLong,
    Sampling,
)
from benchmark.engines.core.replicas import ReplicatedEngine, device_groups
from tasks.errors import UserError
from tests.support.engines.tiny_model import ask

SOURCE = find_model("tiny-sokoban")
OPTIONS = EngineOptions(dtype="float32", data_parallel_size=2)
GREEDY = Sampling(max_tokens=12)


def build(options: EngineOptions = OPTIONS) -> Engine:
    return build_engine("transformers", options, SOURCE)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[Engine]:
    async with build() as started:
        yield started


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_two_copies_answer_as_one_does(engine: Engine) -> None:
    requests = [replace(ask(f"Push box {n} up.", GREEDY), affinity=n % 5) for n in range(10)]
    together = await asyncio.gather(*map(engine.generate, requests))
    async with build(replace(OPTIONS, data_parallel_size=None)) as alone:
        one_by_one = [await alone.generate(request) for request in requests]
        facts = alone.describe()
    assert [one.response_ids for one in together] == [one.response_ids for one in one_by_one]
    assert [one.text for one in together] == [one.text for one in one_by_one]
    described = engine.describe()
    assert described.pop("data_parallel_size") == 2
    # Each replica has half of the 64 slots.
    assert described == facts


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_an_episode_stays_with_its_copy_and_episodes_are_spread(engine: Engine) -> None:
    assert isinstance(engine, ReplicatedEngine)
    for number in range(100, 108):
        requests = [replace(ask("up", GREEDY), affinity=number) for _ in range(2)]
        await asyncio.gather(*map(engine.generate, requests))
    async with asyncio.TaskGroup() as group:
        for number in range(200, 208):
            group.create_task(engine.generate(replace(ask("up", GREEDY), affinity=number)))
    homes = [id(engine._homes.choose(number, engine._replicas)) for number in range(200, 208)]
    assert sorted(map(homes.count, set(homes))) == [4, 4]


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_errors_and_prompts_cross_over(engine: Engine) -> None:
    with pytest.raises(PromptTooLong, match="tokens and the model's context 1024"):
        await engine.generate(ask("box " * 2000, GREEDY))
    wrong = replace(ask("up", GREEDY), chat=ChatOptions(extra_body={"top_k": 1}))
    with pytest.raises(UserError, match="--extra-body goes to servers"):
        await engine.generate(wrong)
    request = ask("up", GREEDY)
    generation = await engine.generate(request)
    shown = await engine.prompt_text(request, generation)
    assert shown is not None
    assert shown.startswith("<|im_start|>user\nup<|im_end|>")


@pytest.mark.slow
async def test_a_model_that_cannot_be_loaded_is_the_users_mistake(tmp_path: Path) -> None:
    wrong = replace(SOURCE, path=tmp_path)
    options = replace(OPTIONS, data_parallel_size=None)
    build_broken = partial(build_engine, "transformers", options, wrong)
    broken = ReplicatedEngine("transformers", build_broken, [None, None])
    with pytest.raises(UserError, match="has no config.json"):
        await broken.__aenter__()


@pytest.mark.slow
async def test_a_mistake_that_an_engine_sees_before_it_starts_is_the_users(tmp_path: Path) -> None:
    options = replace(OPTIONS, data_parallel_size=None, dtype="int8")
    wrong = ReplicatedEngine(
        "transformers", partial(build_engine, "transformers", options, SOURCE), [None]
    )
    with pytest.raises(UserError, match="unknown dtype 'int8'"):
        await wrong.__aenter__()


def killed() -> Engine:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


@pytest.mark.slow
async def test_a_copy_that_is_killed_while_it_starts_has_played_nothing() -> None:
    with pytest.raises(EngineNotStarted, match="ended unexpectedly while it started"):
        await ReplicatedEngine("transformers", killed, [None]).__aenter__()


@pytest.mark.slow
async def test_a_copy_that_dies_ends_the_run(engine: Engine) -> None:
    async with build() as mortal:
        assert isinstance(mortal, ReplicatedEngine)
        calls = [
            asyncio.create_task(
                mortal.generate(replace(ask("up", Sampling(max_tokens=900)), affinity=n))
            )
            for n in range(2)
        ]
        await asyncio.sleep(0)  # Both are sent; a busy machine may take long to answer.
        process = mortal._replicas[0]._process
        assert process is not None
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(EngineDown, match="ended unexpectedly"):
            await asyncio.gather(*calls)
        for call in calls:
            call.cancel()


def test_devices_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert device_groups(4, 2) == ["0,1", "2,3", "4,5", "6,7"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7,6,5,4,3,2,1,0")
    assert device_groups(2, 1) == ["7", "6"]
    with pytest.raises(UserError, match="needs 9 GPUs, and there are 8"):
        device_groups(3, 3)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert device_groups(2, 1) == [None, None]


def test_who_has_more_gpus_than_are_used_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    assert "8 GPUs here and 1 will be used; --data-parallel-size 8 uses 8" in unused_gpus(
        EngineOptions()
    )
    three = EngineOptions(tensor_parallel_size=3)
    assert "and 3 will be used; --data-parallel-size 2 uses 6" in unused_gpus(three)
    for used in (replace(three, data_parallel_size=2), EngineOptions(data_parallel_size=8)):
        assert unused_gpus(used) == ""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    assert unused_gpus(EngineOptions()) == ""
