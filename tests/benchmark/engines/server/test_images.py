"""Prompts with images, sent to scripted servers over real HTTP."""

from typing import Any, cast

import pytest

from benchmark.engines.core.base import EngineError, PromptTooLong, Request, Sampling
from benchmark.engines.server.openai import OpenAIEngine
from tasks.chat.messages import user_message
from tasks.errors import UserError
from tasks.sokoban.pixels import draw_board
from tests.support.engines.loopback import Loopback, fails, loopback, says

BOARD = draw_board(("####", "#@$#", "#._#", "####"))


def request(seed: int = 1) -> Request:
    message = user_message("push", [BOARD])
    sampling = Sampling(max_tokens=16)
    return Request((message,), sampling, seed, 0, episode=cast("Any", None))


def engine(server: Loopback) -> OpenAIEngine:
    return OpenAIEngine([server.url], "tiny", retries=1, patience=0.5)


async def test_an_image_is_sent_as_a_url_that_holds_it() -> None:
    async with loopback() as server, engine(server) as tested:
        assert (await tested.generate(request())).text == "fine"
        assert (await tested.generate(request(2))).text == "fine"
    assert [body["messages"] for body in server.requests] == 3 * [
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "push"},
                    {"type": "image_url", "image_url": {"url": BOARD.data_url}},
                ],
            }
        ]
    ]
    # Before the first one, the server processes it for one token.
    assert [(body["max_tokens"], body["seed"]) for body in server.requests] == [
        (1, 0),
        (16, 1),
        (16, 2),
    ]


async def test_a_server_that_refuses_images_ends_the_run_with_one_line() -> None:
    refusal = "tiny is not a multimodal model"
    async with loopback(fails(400, refusal), vllm=False) as server, engine(server) as tested:
        with pytest.raises(UserError) as caught:
            await tested.generate(request())
    line = str(caught.value)
    assert "refuses a prompt with an image (image, 256 x 256 pixels" in line
    assert f"HTTP 400: {refusal}; serve a vision-language model" in line
    assert "\n" not in line
    assert "base64" not in line


async def test_an_image_that_is_too_large_is_said_in_the_servers_words() -> None:
    script = [fails(413, "image exceeds 100 pixels")]
    async with loopback(*script, vllm=False) as server, engine(server) as tested:
        with pytest.raises(UserError, match="HTTP 413: image exceeds 100 pixels"):
            await tested.generate(request())


async def test_an_image_that_leaves_no_room() -> None:
    long = fails(400, "maximum context length is 4096 tokens")
    async with loopback(long, prompt_tokens=5000) as server, engine(server) as tested:
        with pytest.raises(PromptTooLong, match="5000 tokens"):
            await tested.generate(request())


async def test_a_server_that_stumbles_over_the_first_image_is_asked_again() -> None:
    script = [fails(500), says(), says(), says()]
    async with loopback(*script) as server, engine(server) as tested:
        assert (await tested.generate(request())).text == "fine"
        assert (await tested.generate(request())).text == "fine"
    assert [body["max_tokens"] for body in server.requests] == [1, 16, 1, 16]


async def test_later_refusals_are_failures_of_their_episodes() -> None:
    script = [says(), says(), fails(400, "odd image")]
    async with loopback(*script, vllm=False) as server, engine(server) as tested:
        await tested.generate(request())
        with pytest.raises(EngineError, match="odd image"):
            await tested.generate(request())
