"""Two vLLM engines in one process, as in cross-policy sampling.

A separate module, because the first engine to close ends vLLM's global state in the process, after
which no other engine can continue.
"""

import asyncio
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmark.engines.core.base import Sampling
from benchmark.engines.vllm.engine import VllmEngine
from tests.support.engines.tiny_model import answer_all, make_tiny_model, mixed_prompts

PROMPTS = mixed_prompts(24, seed=12)
SAMPLING = Sampling(temperature=1.0, max_tokens=24)


answers = partial(answer_all, prompts=PROMPTS, sampling=SAMPLING)


@pytest.mark.vllm
@pytest.mark.slow
@pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed")
async def test_two_engines_at_once_answer_as_each_alone(tmp_path: Path) -> None:
    folders = [make_tiny_model(tmp_path / str(seed), context=512, seed=seed) for seed in (0, 5)]
    async with VllmEngine(folders[0]) as one, VllmEngine(folders[1]) as other:
        alone = [await answers(one), await answers(other)]
        assert [each.text for each in alone[0]] != [each.text for each in alone[1]]
        for _ in range(3):
            together = await asyncio.gather(answers(one), answers(other))
            for expected, found in zip(alone, together, strict=True):
                assert [g.response_ids for g in found] == [g.response_ids for g in expected]
                for first, second in zip(found, expected, strict=True):
                    assert first.token_log_probs == pytest.approx(second.token_log_probs, abs=1e-4)
