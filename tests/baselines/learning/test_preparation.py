"""The message when memory runs out."""

import pytest
import torch

from baselines.config.layers import resolve
from baselines.learning.preparation import memory_advice
from tasks.errors import UserError

OPTIMIZATION = resolve("grpo", "tiny", ["sokoban"]).optimization


def test_everything_that_helps_is_named() -> None:
    with pytest.raises(UserError) as caught, memory_advice(OPTIMIZATION):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
    said = str(caught.value)
    assert f"micro_batch_tokens (now {OPTIMIZATION.micro_batch_tokens})" in said
    for option in ("--gpu-memory-utilization", "--gpus N", "--sleep", "lora.rank", "adamw_8bit"):
        assert option in said


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(RuntimeError, match="shapes"), memory_advice(OPTIMIZATION):
        raise RuntimeError("shapes do not match")
