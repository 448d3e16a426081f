"""Prompts as token ids: what servers receive, valid answers, and the remaining context."""

from dataclasses import replace
from typing import Any

import pytest

from baselines.inits.registry import find_model
from benchmark.engines.core.base import (
    EngineError,
    Generation,
    PromptTooLong,
)
from benchmark.engines.core.chat import Chat
from tasks.chat.messages import Message
from tests.support.engines.loopback import (
    fails,
    loopback,
    says,
    token_completion,
)
from tests.support.engines.server_requests import engine, request


async def test_token_prompts_on_vllm() -> None:
    async with loopback(says(token_completion())) as server, engine(server) as tested:
        generation = await tested.generate(request(prompt_ids=(1, 5, 6), temperature=0.5, top_k=7))
        assert server.paths == ["/v1/completions"]
        assert server.requests == [
            {
                "model": "tiny",
                "prompt": [1, 5, 6],
                "add_special_tokens": False,
                "max_tokens": 16,
                "temperature": 0.5,
                "top_p": 1.0,
                "seed": 2**63 - 1,
                "top_k": 7,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "presence_penalty": 0.0,
                "frequency_penalty": 0.0,
                "return_token_ids": True,
                "logprobs": 0,
            }
        ]
    assert (generation.text, generation.finish_reason) == ("fine", "stop")
    assert (generation.prompt_tokens, generation.response_tokens) == (3, 2)
    assert (generation.prompt_ids, generation.response_ids) == ((1, 5, 6), (7, 2))
    assert generation.token_log_probs == (-0.5, -0.25)
    assert generation.log_prob == -0.75


async def test_a_conversation_goes_on_from_its_token_ids() -> None:
    folder = find_model("tiny-tir-math").path
    assert folder is not None
    text = Chat.load(folder)
    before = (*text.render([Message(role="user", content="2 + 3?")]),)
    said = (*text.tokenizer("the answer", add_special_tokens=False)["input_ids"],)
    past = Generation("the answer", "stop", prompt_ids=before, response_ids=said)
    talk = (
        Message(role="user", content="2 + 3?"),
        Message(role="assistant", content="the answer"),
        Message(role="user", content="go on"),
    )
    whole = text.continue_conversation(before, said, talk)
    assert tuple(whole[: len(before) + len(said)]) == before + said
    body = token_completion(
        prompt_token_ids=whole,
        token_ids=list(said),
        logprobs={"token_logprobs": [-0.5] * len(said)},
    )
    body["usage"]["prompt_tokens"] = len(whole)
    asked = replace(request(), messages=talk, previous=past)
    async with loopback(says(body)) as server, engine(server, text=text) as tested:
        generation = await tested.generate(asked)
        assert server.paths == ["/v1/completions"]
        assert server.requests[0]["prompt"] == whole
    assert generation.prompt_ids == tuple(whole) and generation.text == "the answer"
    # Without a local tokenizer, the server renders the whole conversation again.
    async with loopback() as server, engine(server) as tested:
        await tested.generate(asked)
        assert server.paths == ["/v1/chat/completions"]


async def test_token_prompts_need_vllm() -> None:
    async with loopback(vllm=False) as server, engine(server) as tested:
        with pytest.raises(EngineError, match="token prompts need a vLLM server"):
            await tested.generate(request(prompt_ids=(1, 5, 6)))
        assert server.requests == []
        assert (await tested.generate(request())).text == "fine"


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        fails(500),
        says(),  # a chat completion
        says(token_completion(token_ids=[7])),
        says(token_completion(token_ids=["7", "2"])),
        says(token_completion(logprobs={"token_logprobs": [-0.5, None]})),
        says(token_completion(logprobs={"token_logprobs": [-0.5, float("nan")]})),
        says(token_completion(logprobs=[-0.5, -0.25])),
        says(token_completion(finish_reason="abort")),
    ],
)
async def test_token_prompts_are_repeated_likewise(first: Any) -> None:
    script = (first, says(token_completion()))
    async with loopback(*script) as server, engine(server) as tested:
        assert (await tested.generate(request(prompt_ids=(1, 5, 6)))).text == "fine"
        assert server.paths == 2 * ["/v1/completions"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (token_completion(prompt_token_ids=[1, 5, 7]), "a different prompt from the token ids"),
        (
            {**token_completion(prompt_token_ids=None), "usage": {"prompt_tokens": 4}},
            "a different prompt from the token ids",
        ),
        (token_completion(None), "no content"),
        (token_completion(finish_reason="content_filter"), "content_filter"),
        (token_completion("x" * 1_000_001), "longer than 1000000 characters"),
    ],
)
async def test_unusable_answers_to_token_prompts(answer: dict[str, Any], message: str) -> None:
    async with loopback(says(answer)) as server, engine(server) as tested:
        with pytest.raises(EngineError, match=message):
            await tested.generate(request(prompt_ids=(1, 5, 6)))
        assert len(server.requests) == 1


async def test_room_of_token_prompts() -> None:
    script = (says(token_completion(prompt_token_ids=None) | {"usage": None}),)
    async with loopback(*script, context=64) as server, engine(server) as tested:
        for tokens in (48, 49, 63):
            await tested.generate(request(prompt_ids=(5,) * tokens))
        assert [body["max_tokens"] for body in server.requests] == [16, 15, 1]
        for tokens in (64, 90):
            with pytest.raises(PromptTooLong, match=f"{tokens} tokens .* context 64"):
                await tested.generate(request(prompt_ids=(5,) * tokens))
        with pytest.raises(EngineError, match="no tokens"):
            await tested.generate(request(prompt_ids=()))
        assert len(server.requests) == 3


async def test_room_of_token_prompts_where_the_context_is_not_known() -> None:
    refusal = fails(400, "This model's maximum context length is 64 tokens, you requested 66")
    script = (refusal, says(token_completion(prompt_token_ids=None) | {"usage": None}), refusal)
    async with loopback(*script, context=None) as server, engine(server) as tested:
        assert (await tested.generate(request(prompt_ids=(5,) * 50))).text == "fine"
        assert [body["max_tokens"] for body in server.requests] == [16, 14]
        assert server.paths == 2 * ["/v1/completions"]
        with pytest.raises(PromptTooLong, match="64 tokens and the model's context 64"):
            await tested.generate(request(prompt_ids=(5,) * 64))
