"""Compares prompts with images between in-process vLLM and the transformers engine.

python images_agree.py FOLDER
"""

import asyncio
import sys
from pathlib import Path
from typing import Any, cast

from pytest import approx
from safetensors.torch import load_file

from benchmark.engines.core.base import Generation, Request, Sampling
from benchmark.engines.core.worker import WorkerEngine
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.engines.vllm.engine import VllmEngine
from tasks.chat.images import Image
from tasks.chat.messages import user_message
from tasks.sokoban.pixels import draw_board
from tests.support.engines.tiny_vision import tiny_vision_model

SMALL = draw_board(("####", "#@$#", "#._#", "####"))
SOLVED = draw_board(("####", "#_@#", "#*_#", "####"))
WIDE = draw_board(("#####", "#@$.#", "#####"))


def asked(*images: Image, text: str = "look") -> Request:
    sampling = Sampling(max_tokens=8)
    return Request((user_message(text, images),), sampling, 1, 0, cast("Any", None))


REQUESTS = [asked(SMALL), asked(SOLVED), asked(WIDE, SMALL), asked(text="no image"), asked(SMALL)]


async def answers(engine: WorkerEngine) -> list[Generation]:
    return list(await asyncio.gather(*map(engine.generate, REQUESTS)))


def check(folder: Path) -> None:
    """Compare them before and after a weight update."""
    tiny_vision_model(folder)
    halved = {
        name: tensor / 2 if "visual" in name else tensor
        for name, tensor in load_file(folder / "model.safetensors").items()
    }

    async def ask(engine: WorkerEngine) -> list[Generation]:
        async with engine:
            before = await answers(engine)
            # The same prompts with other weights: nothing cached before is reused.
            await engine.load_weights(halved.items(), 1)
            return before + await answers(engine)

    ours, theirs = (
        asyncio.run(ask(TransformersEngine(folder))),
        asyncio.run(ask(VllmEngine(folder))),
    )
    for own, other in zip(ours, theirs, strict=True):
        assert other.prompt_ids == own.prompt_ids
        assert other.response_ids == own.response_ids
        assert other.token_log_probs == approx(own.token_log_probs, abs=2e-3)
    assert theirs[0].token_log_probs != approx(theirs[1].token_log_probs, abs=1e-2)
    assert theirs[0].token_log_probs != approx(theirs[5].token_log_probs, abs=1e-2)


if __name__ == "__main__":
    check(Path(sys.argv[1]))
