"""The engine against scripted servers over real HTTP."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from benchmark.engines.core.base import (
    ChatOptions,
    EngineDown,
    EngineError,
    PromptTooLong,
    Sampling,
)
from benchmark.engines.server.exchange import MAX_BODY
from benchmark.engines.server.openai import REFUSED
from tasks.errors import UserError
from tests.support.engines.loopback import (
    completion,
    disconnects,
    fails,
    hangs,
    loopback,
    says,
)
from tests.support.engines.server_requests import engine, request


async def test_vllm_server_gets_every_setting_and_gives_tokens() -> None:
    async with loopback() as server, engine(server) as tested:
        generation = await tested.generate(request(temperature=0.5, top_p=0.9, top_k=7))
        assert server.requests == [
            {
                "model": "tiny",
                "messages": [{"role": "user", "content": "push"}],
                "max_tokens": 16,
                "temperature": 0.5,
                "top_p": 0.9,
                "seed": 2**63 - 1,
                "top_k": 7,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "presence_penalty": 0.0,
                "frequency_penalty": 0.0,
                "return_token_ids": True,
                "logprobs": True,
            }
        ]
        assert tested.describe() == {
            "kind": "openai",
            "server": "vllm",
            "server_version": "0.32.0",
            "endpoints": 1,
            "context": 4096,
        }
    assert generation.text == "fine"
    assert generation.finish_reason == "stop"
    assert (generation.prompt_tokens, generation.response_tokens) == (3, 2)
    assert (generation.prompt_ids, generation.response_ids) == ((1, 5, 6), (7, 2))
    assert generation.token_log_probs == (-0.5, -0.25)
    assert generation.log_prob == -0.75


async def test_other_server_gets_standard_fields_only() -> None:
    async with loopback(vllm=False) as server, engine(server) as tested:
        generation = await tested.generate(request())
        assert set(server.requests[0]) == {
            *("model", "messages", "max_tokens", "temperature", "top_p", "seed")
        }
        assert (generation.prompt_tokens, generation.response_tokens) == (3, 2)
        assert generation.log_prob is None
        assert generation.response_ids is None
        with pytest.raises(UserError, match="top_k"):
            await tested.generate(request(top_k=5))
        assert len(server.requests) == 1


async def test_what_a_server_refuses_is_known_before_the_run() -> None:
    """Turn seeds have 63 bits, and a panel other than the first may use top_k."""

    async def small_seeds(asked: web.Request) -> web.StreamResponse:
        fits = (await asked.json())["seed"] < 2**31
        return await (says() if fits else fails(400, "seed must be an int32"))(asked)

    async with loopback(hello=[small_seeds]) as server:
        with pytest.raises(UserError, match="HTTP 400: seed must be an int32"):
            async with engine(server):
                pass
    async with loopback(vllm=False) as server:
        with pytest.raises(UserError, match="top_k"):
            async with engine(server, sampling=Sampling(top_k=20)):
                pass
        assert server.requests == server.hellos == []


async def test_the_length_of_a_prompt_is_asked_for_with_what_its_template_gets() -> None:
    long = fails(400, "This model's maximum context length is 4096 tokens")
    off = {"enable_thinking": False}
    async with loopback(long, says(), prompt_tokens=4090) as server, engine(server) as tested:
        asked = replace(request(), chat=ChatOptions(template_kwargs=off))
        await tested.generate(asked)
        assert server.tokenized == [
            {"model": "tiny", "messages": list(asked.messages), "chat_template_kwargs": off}
        ]
        assert [body["max_tokens"] for body in server.requests] == [16, 6]


async def test_an_answer_counts_where_its_prompt_cannot_be_shown() -> None:
    async with loopback() as server, engine(server) as tested:
        generation = await tested.generate(request())
        server.prompt_text = "x" * (MAX_BODY + 1)
        assert await tested.prompt_text(request(), generation) is None


@pytest.mark.slow
async def test_retry_after_is_honored() -> None:
    async with loopback(fails(429, Retry_After="1"), says()) as server, engine(server) as tested:
        start = time.monotonic()
        assert (await tested.generate(request())).text == "fine"
        assert time.monotonic() - start >= 1.0
        assert server.requests[0] == server.requests[1]


async def test_a_server_that_asks_to_wait_for_long_stops_the_run() -> None:
    async with loopback(fails(429, Retry_After="3600")) as server, engine(server) as tested:
        with pytest.raises(EngineDown, match="3600 s"):
            await tested.generate(request())


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        fails(500),
        fails(503),
        fails(404),
        disconnects,
        hangs,
        says(b'{"choices": ['),
        says(b"\xff\xfe"),
        says(b"[" * 100_000),
        says({"choices": []}),
        says({"error": "upstream"}),
        says(completion(token_ids=[7])),
        says(completion(token_ids=["7", "2"])),
        says(completion(finish_reason="abort")),
        says(b'{"choices": [{"message": {"content": "a"}, "finish_reason": "stop", '
             b'"logprobs": {"content": [{"logprob": NaN}]}}]}'),
    ],
)  # fmt: skip
async def test_passing_failures_are_repeated(first: Any) -> None:
    # Only silence is waited for; a busy machine may take any time to answer.
    timeout = 2.0 if first is hangs else 120.0
    async with loopback(first, says()) as server, engine(server, timeout=timeout) as tested:
        assert (await tested.generate(request())).text == "fine"
        assert len(server.requests) == 2


@pytest.mark.slow
async def test_attempts_run_out_with_the_cause_and_without_the_address() -> None:
    async with loopback(hangs) as server, engine(server, timeout=1.5, retries=1) as tested:
        with pytest.raises(EngineError, match=r"2 attempts: no answer within 1\.5 s") as caught:
            await tested.generate(request())
        assert "127.0.0.1" not in str(caught.value)
        assert len(server.requests) == 2


async def test_a_server_that_only_fails_stops_the_run() -> None:
    async with loopback(fails(500, "broken")) as server, engine(server, retries=0) as tested:
        for _ in range(2):
            with pytest.raises(EngineError, match="broken"):
                await tested.generate(request())
        with pytest.raises(EngineDown, match="broken"):
            await tested.generate(request())


async def test_an_answer_in_between_keeps_the_run_going() -> None:
    script = [fails(500), fails(500), says(), fails(500)]
    async with loopback(*script) as server, engine(server, retries=0) as tested:
        outcomes = []
        for _ in range(5):
            try:
                outcomes.append((await tested.generate(request())).text)
            except EngineError as error:
                outcomes.append(type(error).__name__)
        assert outcomes == ["EngineError", "EngineError", "fine", "EngineError", "EngineError"]


@pytest.mark.parametrize("with_length", [True, False])
async def test_a_huge_body_is_not_read(with_length: bool) -> None:
    async def huge(incoming: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if with_length:
            response.content_length = 4 * MAX_BODY
        await response.prepare(incoming)
        for _ in range(4 * MAX_BODY // 2**20):
            await response.write(b" " * 2**20)
        raise AssertionError("the client read it all")

    async with loopback(huge) as server, engine(server) as tested:
        with pytest.raises(EngineError, match=f"longer than {MAX_BODY} bytes"):
            await tested.generate(request())
        assert len(server.requests) == 1


async def test_other_refusals_are_not_repeated() -> None:
    async with loopback(fails(400, "no such\nrole")) as server, engine(server) as tested:
        with pytest.raises(EngineError, match="HTTP 400: no such role"):
            await tested.generate(request())
        assert len(server.requests) == 1


async def test_a_server_that_refuses_every_request_stops_the_run() -> None:
    refusal = fails(402, "no credit")
    script = [refusal] * (REFUSED - 1) + [says()] + [refusal] * REFUSED
    async with loopback(*script) as server, engine(server) as tested:
        outcomes = []
        for _ in script:
            try:
                outcomes.append((await tested.generate(request())).text)
            except (EngineError, EngineDown) as error:
                outcomes.append(type(error).__name__)
                last = str(error)
        refused = ["Refused"] * (REFUSED - 1)
        assert outcomes == [*refused, "fine", *refused, "EngineDown"]
        assert "HTTP 402: no credit" in last
        assert len(server.requests) == len(script)


async def test_answers_that_cannot_be_used_do_not_stop_the_run() -> None:
    filtered = completion()
    filtered["choices"][0]["finish_reason"] = "content_filter"
    async with loopback(says(filtered)) as server, engine(server) as tested:
        for _ in range(REFUSED + 1):
            with pytest.raises(EngineError, match="finish_reason content_filter"):
                await tested.generate(request())


async def test_prompts_that_are_too_long_do_not_stop_the_run() -> None:
    refusal = fails(400, "max_tokens must be at least 1, got 0.")
    async with loopback(refusal, context=64, prompt_tokens=64) as server, engine(server) as tested:
        for _ in range(REFUSED + 1):
            with pytest.raises(PromptTooLong, match=r"64 tokens and the model's context 64"):
                await tested.generate(request())
        assert len(server.requests) == REFUSED + 1


async def test_max_tokens_is_cut_to_the_room() -> None:
    refusal = fails(400, "This model's maximum context length is 64 tokens, you requested 82")
    script = (refusal, says())
    async with loopback(*script, context=64, prompt_tokens=50) as server, engine(server) as tested:
        assert (await tested.generate(request(max_tokens=900))).text == "fine"
        assert [body["max_tokens"] for body in server.requests] == [63, 14]


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 64 tokens. However, you requested 82 tokens "
        "(50 in the messages, 32 in the completion).",
        "Requested token count exceeds the model's maximum context length of 64 tokens. You "
        "requested a total of 82 tokens: 50 tokens from the input messages and 32 tokens for "
        "the completion.",
        "request (50 tokens) exceeds the available context size (64 tokens), try increasing it",
    ],
)
async def test_the_room_is_read_from_other_servers_complaints(message: str) -> None:
    script = (fails(400, message), says())
    async with loopback(*script, vllm=False) as server, engine(server) as tested:
        assert (await tested.generate(request(max_tokens=32))).text == "fine"
        assert [body["max_tokens"] for body in server.requests] == [32, 14]


async def test_other_servers_complaint_about_the_prompt_alone() -> None:
    message = "request (90 tokens) exceeds the available context size (64 tokens)"
    async with loopback(fails(400, message), vllm=False) as server, engine(server) as tested:
        with pytest.raises(PromptTooLong, match="90 tokens and the model's context 64"):
            await tested.generate(request())


async def test_refused_access_midway_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARLARENA_API_KEY", "sk-secret")
    answer = fails(401, "Incorrect API key provided: sk-secret")
    async with loopback(answer) as server, engine(server) as tested:
        with pytest.raises(EngineDown, match="check the API key in ARLARENA_API_KEY") as caught:
            await tested.generate(request())
        assert "secret" not in str(caught.value)
        assert set(server.authorizations) == {"Bearer sk-secret"}
        assert "secret" not in str(tested.describe())


async def test_a_server_that_repeats_the_key_does_not_publish_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    async with loopback(fails(400, "sk-secret has no quota")) as server, engine(server) as tested:
        with pytest.raises(EngineError, match=r"\*\*\* has no quota"):
            await tested.generate(request())


async def test_response_texts() -> None:
    script = [
        says(completion("")),
        says(completion("a\ud800b\U0001f600\udfff")),
        says(completion(None)),
        says(completion("x", finish_reason="content_filter")),
        says(completion("x" * 1_000_001)),
        says(completion("x", finish_reason="length")),
    ]
    async with loopback(*script) as server, engine(server) as tested:
        assert (await tested.generate(request())).text == ""
        assert (await tested.generate(request())).text == "a\ufffdb\U0001f600\ufffd"
        for message in ("no content", "content_filter", "longer than 1000000 characters"):
            with pytest.raises(EngineError, match=message):
                await tested.generate(request())
        assert (await tested.generate(request())).finish_reason == "length"
        assert len(server.requests) == 6


async def test_a_server_that_hides_the_reasoning_is_refused() -> None:
    message = {"role": "assistant", "content": "up", "reasoning": "a wall"}
    async with loopback(says(completion(message=message))) as server, engine(server) as tested:
        with pytest.raises(UserError, match="--reasoning-parser"):
            await tested.generate(request())


async def test_requests_in_flight_are_bounded() -> None:
    async def slow(incoming: web.Request) -> web.StreamResponse:
        await asyncio.sleep(0.02)
        return await says()(incoming)

    async with loopback(slow) as server, engine(server, in_flight=3) as tested:
        await asyncio.gather(*(tested.generate(request()) for _ in range(12)))
        assert server.most_open == 3


async def test_a_cancelled_request_is_closed_at_the_server() -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def wait(incoming: web.Request) -> web.StreamResponse:
        arrived.set()
        try:
            return await hangs(incoming)
        finally:
            gone.set()

    async with loopback(wait) as server, engine(server) as tested, asyncio.timeout(120):
        waiting = asyncio.create_task(tested.generate(request()))
        await arrived.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await gone.wait()
