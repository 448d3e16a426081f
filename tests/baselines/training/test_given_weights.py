"""Log entries about handed-over weights, and about waiting times."""

from dataclasses import replace
from pathlib import Path

import pytest

from baselines.doctor.smoke import run_smoke, smoke_run
from benchmark.engines.transformers.engine import TransformersEngine


@pytest.mark.slow
async def test_weights_in_bfloat16_are_half_as_much_and_round(tmp_path: Path) -> None:
    run = replace(smoke_run(tmp_path), weights_dtype="bfloat16")
    init = run.init.path
    assert init is not None
    found = await run_smoke(run, lambda: TransformersEngine(init, deterministic=True))
    assert found.failure is None and found.weight_sync is not None
    for line in found.updates:
        assert line["weights/gib"] == pytest.approx(found.weight_sync.gib / 2)
        # The engine computes in float32 as well, so only rounding differs.
        assert 1e-4 < line["engine/abs_max"] < 0.5
        assert line["speed/tflops"] > 0 and "speed/mfu" not in line
        # The engine is idle while the trainer learns.
        learning = line["seconds/update"] + line["seconds/reference"] + line["seconds/weights"]
        assert learning <= line["seconds/engine_idle"] + 0.01 < line["seconds/total"] + 0.02
