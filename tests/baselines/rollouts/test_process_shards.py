"""Which processes play, and how many of them run on one machine."""

import pytest
from accelerate import Accelerator

from baselines.rollouts.process_shards import ProcessShards
from tests.baselines.rollouts.byte_engine import ByteEngine, wait


def test_processes_of_this_machine_are_those_that_play(monkeypatch: pytest.MonkeyPatch) -> None:
    shards = ProcessShards(Accelerator(cpu=True), ByteEngine(wait))
    assert shards.here == 1
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert shards.here == 8
    shards.main_alone = True
    assert shards.here == 1
