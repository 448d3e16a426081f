"""Which processes play, and how many of them run on one machine."""

import pytest
from accelerate import Accelerator

from baselines.rollouts.process_shards import EngineLost, ProcessShards, Stopped
from benchmark.engines.core.base import EngineDown
from tests.baselines.rollouts.byte_engine import ByteEngine, wait


def test_processes_of_this_machine_are_those_that_play(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = ProcessShards(Accelerator(cpu=True), ByteEngine(wait))
    assert shards.here == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert shards.here == 8
    shards.main_alone = True
    assert shards.here == 1


async def test_an_engine_that_ends_after_a_stop_was_asked_for_has_not_failed() -> None:
    shards = ProcessShards(Accelerator(cpu=True), ByteEngine(wait))

    async def ends() -> None:
        raise EngineDown("gone")

    with pytest.raises(EngineLost, match="^gone$"):
        await shards.with_engines(ends())
    shards.stopping.set()
    with pytest.raises(Stopped):
        await shards.with_engines(ends())
