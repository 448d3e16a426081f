"""`arlarena-bench train` with a few small steps."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmark.cli.main import main

TINY = {
    "rollout.groups": "2",
    "rollout.group_size": "4",
    "rollout.max_turns": "4",
    "rollout.max_tokens": "32",
    "optimization.updates": "2",
    "optimization.mini_batches": "2",
    "optimization.warmup_updates": "0",
    "sampling.dynamic": "null",
    "validation.every": "null",
    "checkpoint_every": "1",
}


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train(out: Path, *arguments: str, recipe: str = "sampo", **settings: str) -> int:
    """Train a few steps; in names of settings, two underscores stand for a dot."""
    chosen = TINY | {name.replace("__", "."): value for name, value in settings.items()}
    sets = [part for name, value in chosen.items() for part in ("--set", f"{name}={value}")]
    model = ("--init", "tiny-sokoban", "--recipe", recipe)
    return main(["train", *model, "--out", str(out), *sets, *arguments])
