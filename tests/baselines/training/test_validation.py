"""Validation on the real panel, by an engine that lets every turn pass."""

import asyncio
from pathlib import Path

import pytest
from accelerate import Accelerator

from baselines.config.layers import resolve
from baselines.config.run import TrainingRun
from baselines.inits.registry import find_model
from baselines.rollouts.process_shards import ProcessShards
from baselines.training.validation import Validator
from benchmark.hosts.inline import InlineHost
from tasks.registry import load_task
from tests.baselines.rollouts.byte_engine import ByteEngine, wait


@pytest.mark.slow
def test_all_of_the_panel_is_played_and_counted() -> None:
    config = resolve("grpo", "tiny", ["sokoban"])
    init = find_model("tiny-sokoban")
    run = TrainingRun("grpo", config, (load_task("sokoban"),), init, 0, Path("unused"))
    held_out = Validator(run, ProcessShards(Accelerator(cpu=True), ByteEngine(wait)), InlineHost())
    counts: list[tuple[int, int]] = []
    (line,) = asyncio.run(held_out.play(3, lambda *count: counts.append(count)))
    assert counts == [(done, 256) for done in range(257)]
    assert (line["update"], line["panel"], line["episodes"]) == (3, "builtin", 256)
    # Waiting solves nothing, but its format is valid.
    assert (line["success"], line["format_ok"]) == (0.0, 1.0)
