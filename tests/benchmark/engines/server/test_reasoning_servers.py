"""Servers of reasoning models: reasoning in separate fields, other limits, template variables."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import benchmark
from benchmark.cli.main import main
from benchmark.engines.core.base import ChatOptions, Generation, Sampling
from benchmark.engines.server.openai import only_model
from tasks.errors import UserError
from tests.support.engines.loopback import completion, fails, loopback, says
from tests.support.engines.server_requests import engine, request

JOINED = ChatOptions(join_reasoning=True)


def answer(finish_reason: str = "stop", **message: Any) -> dict[str, Any]:
    """A chat completion with a message in the format of other servers."""
    body = completion(finish_reason=finish_reason)
    body["choices"][0]["message"] = {"role": "assistant", **message}
    return body


KINDS: dict[str, dict[str, Any]] = {
    "SGLang, llama.cpp, DeepSeek": {"reasoning_content": "a box", "content": "up"},
    "vLLM, OpenRouter": {"reasoning": "a box", "content": "up"},
    "OpenRouter's details": {
        "reasoning": None,
        "reasoning_details": [
            {"type": "reasoning.text", "text": "a ", "format": "unknown", "index": 0},
            {"type": "reasoning.summary", "summary": "box"},
            {"type": "reasoning.encrypted", "data": "AAAA"},
        ],
        "content": "up",
    },
    "Mistral": {
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "a box"}]},
            {"type": "text", "text": "up"},
        ]
    },
}


async def asked(body: dict[str, Any], chat: ChatOptions, vllm: bool = False) -> Generation:
    async with loopback(says(body), vllm=vllm) as server, engine(server) as tested:
        return await tested.generate(replace(request(), chat=chat))


@pytest.mark.parametrize("vllm", [True, False])
@pytest.mark.parametrize("kind", KINDS)
async def test_reasoning_is_joined_or_refused(kind: str, vllm: bool) -> None:
    body = answer(**KINDS[kind])
    assert (await asked(body, JOINED, vllm)).text == "<think>a box</think>up"
    with pytest.raises(UserError, match="removes the reasoning from responses.*--protocol thinki"):
        await asked(body, ChatOptions(), vllm)


async def test_a_thought_that_was_cut_stays_open() -> None:
    cut = answer("length", reasoning_content="a box", content=None)
    assert (await asked(cut, JOINED)).text == "<think>a box"
    ended = answer("stop", reasoning_content="a box", content=None)
    assert (await asked(ended, JOINED)).text == "<think>a box</think>"


async def test_no_reasoning_is_no_thought() -> None:
    for nothing in (None, ""):
        plain = answer(reasoning_content=nothing, content="up")
        assert (await asked(plain, JOINED)).text == "up"


async def test_a_template_that_opens_the_thought_is_found_on_vllm() -> None:
    async with (
        loopback(says(completion("a box</think>up")), prompt_text="user\n<think>\n") as server,
        engine(server) as tested,
    ):
        generation = await tested.generate(request())
        assert tested.describe()["opened"] == "<think>"
        shown = await tested.prompt_text(request(), generation)
    assert generation.text == "<think>\na box</think>up"
    assert shown == "user\n<think>\n"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"reasoning": "a box", "content": "up"}, "<think>\na box</think>up"),
        # The model has closed the thought immediately.
        ({"reasoning": "", "content": "up"}, "<think>\n</think>up"),
        # No reasoning parser.
        ({"content": "a box</think>up"}, "<think>\na box</think>up"),
        ({"reasoning": "", "content": "a box</think>up"}, "<think>\na box</think>up"),
        ({"reasoning": None, "content": "a box"}, "<think>\na box"),
    ],
)
async def test_a_thought_that_the_template_opens_is_opened_once(
    message: dict[str, Any], text: str
) -> None:
    async with (
        loopback(says(answer(**message)), prompt_text="user\n<think>\n") as server,
        engine(server) as tested,
    ):
        assert (await tested.generate(replace(request(), chat=JOINED))).text == text


async def test_variables_and_further_fields_are_sent_and_tried_out() -> None:
    chat = ChatOptions({"enable_thinking": False}, {"reasoning_effort": "low", "top_k": 5})
    async with loopback(vllm=False) as server:
        async with engine(server, chat=chat, sampling=Sampling(temperature=1.0)) as tested:
            await tested.generate(replace(request(), chat=chat))
        for body in (server.hellos[0], server.requests[0]):
            assert body["chat_template_kwargs"] == {"enable_thinking": False}
            assert (body["reasoning_effort"], body["top_k"]) == ("low", 5)
        assert server.hellos[0]["temperature"] == 1.0


async def test_a_server_of_the_o_series_gets_the_limit_under_its_name() -> None:
    refusal = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead."
    )
    used_up = "Could not finish the message because max_tokens or model output limit was reached."
    async with loopback(vllm=False, hello=[fails(400, refusal), fails(400, used_up)]) as server:
        async with engine(server) as tested:
            await tested.generate(request())
        first, second = server.hellos
        assert first["max_tokens"] == 1 and "max_completion_tokens" not in first
        assert second["max_completion_tokens"] == 16 and "max_tokens" not in second
        assert server.requests[0]["max_completion_tokens"] == 16
        assert "max_tokens" not in server.requests[0]


async def test_a_server_with_one_temperature_is_told_how_to_be_asked() -> None:
    refusal = (
        "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) "
        "value is supported."
    )
    async with loopback(vllm=False, hello=[fails(400, refusal)]) as server:
        with pytest.raises(UserError, match="--temperature 1 --top-p 1"):
            await engine(server).__aenter__()


async def o_series(request: web.Request) -> web.StreamResponse:
    """Answer as a model that hides its thoughts: strict about its parameters, no reasoning text."""
    body = await request.json()
    for name, value in (("temperature", 1), ("top_p", 1)):
        if body.get(name, 1) != value:
            text = f"Unsupported value: '{name}' does not support {body[name]} with this model."
            return await fails(400, text)(request)
    for name in ("max_tokens", "logprobs", "top_k"):
        if name in body:
            text = f"Unsupported parameter: '{name}' is not supported with this model."
            hint = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
            return await fails(400, text + hint)(request)
    reply = answer(content="<think>short</think><action>up</action>", refusal=None)
    details = {"reasoning_tokens": 128, "accepted_prediction_tokens": 0}
    reply["usage"] |= {"completion_tokens": 140, "completion_tokens_details": details}
    del reply["prompt_token_ids"], reply["choices"][0]["token_ids"]
    del reply["choices"][0]["logprobs"]
    return await says(reply)(request)


async def test_an_evaluation_on_a_server_of_the_o_series(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--task", "sokoban", "--limit", "2", "--protocol", "thinking", "--repeats", "1"]
    async with loopback(o_series, vllm=False, hello=[o_series], models=("o9",)) as server:
        base = ["eval", "--endpoint", server.url, *words, "--out", str(tmp_path / "run")]
        assert await asyncio.to_thread(main, base) == 2
        assert "--temperature 1 --top-p 1" in capsys.readouterr().err
        fixed = [*base, "--temperature", "1", "--top-p", "1"]
        assert await asyncio.to_thread(main, fixed) == 0
    printed = capsys.readouterr().out
    assert "o9 (endpoint) on openai" in printed
    assert "valid format     100.0% of turns" in printed
    assert {body["max_completion_tokens"] for body in server.requests} == {8192}
    turns = [
        turn for record in benchmark.read_run(tmp_path / "run").records for turn in record.turns
    ]
    # Thoughts are hidden but counted.
    assert {turn.response for turn in turns} == {"<think>short</think><action>up</action>"}
    assert {turn.response_tokens for turn in turns} == {140}


async def test_the_only_model_needs_no_name() -> None:
    async with loopback(models=("alone",)) as server:
        assert await only_model(server.url) == "alone"
    async with loopback(models=("one", "two")) as server:
        with pytest.raises(UserError, match="serves 'one', 'two'; choose with --model"):
            await only_model(server.url)
    with pytest.raises(UserError, match="no answer from http://127.0.0.1:9"):
        await only_model("http://127.0.0.1:9")
