"""Tensors that FSDP2 has sharded are gathered whole in each process."""

from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file

from baselines.learning.sharding import full_grad_norm, full_weights
from tests.support.training.ranks import run_together
from tests.support.training.synthetic_rows import random_model

pytestmark = pytest.mark.slow


def test_every_process_gets_all_weights_and_the_whole_norm(tmp_path: Path) -> None:
    run_together(Path(__file__).parent / "sharded_weights.py", str(tmp_path))
    model = random_model()
    ids = torch.arange(12)[None]
    model(input_ids=ids, labels=ids).loss.backward()
    norm = full_grad_norm(torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9))
    expected = full_weights(Accelerator(cpu=True), model)
    for rank in range(2):
        found = load_file(tmp_path / f"{rank}.safetensors")
        torch.testing.assert_close(float(found.pop("norm")), norm, rtol=1e-5, atol=0)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(found[name], value, rtol=0, atol=0)


def test_gradients_of_bf16_weights_are_summed_in_float32(tmp_path: Path) -> None:
    script = Path(__file__).parent / "summed_gradients.py"
    run_together(script, str(tmp_path), environment={"ACCELERATE_USE_FSDP": "true"})
    mean = (1 + 2**-9) / 2  # 0.5 if the sum were in bfloat16
    assert (tmp_path / "gradient").read_text() == f"torch.float32 {[[mean, mean]]}"


def test_a_frozen_model_keeps_no_weight_whole(tmp_path: Path) -> None:
    script = Path(__file__).parent / "frozen_sharded.py"
    run_together(script, str(tmp_path), environment={"ACCELERATE_USE_FSDP": "true"})
    assert (tmp_path / "whole").read_text() == ""
    logits = load_file(tmp_path / "logits.safetensors")["logits"]
    expected = random_model()(input_ids=torch.arange(12)[None]).logits
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-12)
