"""The engine against a real vLLM server process with a tiny model."""

import asyncio
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmark.engines.core.base import EngineDown, EngineError, Generation, PromptTooLong, Sampling
from benchmark.engines.core.chat import Chat
from benchmark.engines.server.openai import OpenAIEngine
from tests.support.engines.servers import EAGER, VllmServer, vllm_server
from tests.support.engines.tiny_model import answer_all, ask, make_tiny_model

# A server takes minutes to start on a busy machine.
pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]

CONTEXT = 512
STOPS = tuple(range(40, 60))
"""Additional stop ids, so that some responses end before their limit."""

PROMPTS = (
    "Push the box left.",
    "#####\n#.$@#\n#####",
    "name one action",
    "\u7bb1\u3092\u62bc\u3059 \U0001f4e6",
    "The player stands at row 3. " * 12,
    "",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny"
    return make_tiny_model(path, context=CONTEXT, extra_stop_ids=STOPS)


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[VllmServer]:
    with vllm_server(folder, arguments=EAGER) as running:
        yield running


async def answers(server: VllmServer, sampling: Sampling, seed: int = 0) -> list[Generation]:
    async with OpenAIEngine([server.url], server.model) as engine:
        return await answer_all(engine, PROMPTS, sampling, seed)


async def test_greedy_responses_are_those_of_transformers(folder: Path, server: VllmServer) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ends = {tokenizer.eos_token_id, *STOPS}
    reasons = set()
    asked = [(prompt, limit) for limit in (2, 48) for prompt in PROMPTS]
    given = [
        generation
        for limit in (2, 48)
        for generation in await answers(server, Sampling(max_tokens=limit))
    ]
    for (prompt, limit), found in zip(asked, given, strict=True):
        ids = tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}], add_generation_prompt=True, return_dict=False
        )
        with torch.inference_mode():
            whole = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=limit)
            log_probs = model(whole).logits[0, len(ids) - 1 : -1].log_softmax(-1)
        response = whole[0, len(ids) :].tolist()
        expected = log_probs.gather(1, torch.tensor(response)[:, None])[:, 0].tolist()
        shown = response[:-1] if response[-1] in ends else response

        assert found.prompt_ids == tuple(ids)
        assert found.response_ids == tuple(response)
        # vLLM omits an incomplete character at the very end.
        text = str(tokenizer.decode(shown, skip_special_tokens=True))
        assert found.text in (text, text.rstrip("\ufffd"))
        assert found.finish_reason == ("stop" if response[-1] in ends else "length")
        assert (found.prompt_tokens, found.response_tokens) == (len(ids), len(response))
        assert found.token_log_probs == pytest.approx(expected, abs=1e-4)
        assert found.log_prob == pytest.approx(math.fsum(expected), abs=1e-3)
        reasons.add(found.finish_reason)
    assert reasons == {"stop", "length"}


async def test_seeds_repeat(server: VllmServer) -> None:
    sampling = Sampling(temperature=1.0, top_p=0.95, top_k=50, max_tokens=24)
    first, second, third = [
        [generation.response_ids for generation in await answers(server, sampling, seed)]
        for seed in (2**62, 2**62, 5)
    ]
    assert first == second
    assert first != third


async def test_log_probs_are_untempered(server: VllmServer) -> None:
    drawn = await answers(server, Sampling(temperature=0.01, max_tokens=8), 1)
    greedy = await answers(server, Sampling(max_tokens=8), 1)
    for one, other in zip(drawn, greedy, strict=True):
        if one.response_ids == other.response_ids:
            assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
    assert any(a.response_ids == b.response_ids for a, b in zip(drawn, greedy, strict=True))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_token_prompts_are_answered_like_messages(
    folder: Path, server: VllmServer, temperature: float
) -> None:
    chat = Chat.load(folder)
    asked = [
        ask(prompt, Sampling(temperature=temperature, max_tokens=limit), 2**60 + number)
        for limit in (2, 48)
        for number in range(16 if temperature else 1)
        for prompt in PROMPTS
    ]
    as_tokens = [
        replace(request, prompt_ids=tuple(chat.render(request.messages))) for request in asked
    ]
    async with OpenAIEngine([server.url], server.model) as engine:
        by_messages = await asyncio.gather(*map(engine.generate, asked))
        by_tokens = await asyncio.gather(*map(engine.generate, as_tokens))
    for request, one, other in zip(as_tokens, by_tokens, by_messages, strict=True):
        assert one.prompt_ids == request.prompt_ids
        assert one.response_ids is not None
        assert one.text in ((text := chat.decode(one.response_ids)), text.rstrip("\ufffd"))
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-3)
        assert one.token_log_probs == pytest.approx(other.token_log_probs, abs=1e-4)
        assert replace(one, log_prob=None, token_log_probs=None) == replace(
            other, log_prob=None, token_log_probs=None
        )
    assert {generation.finish_reason for generation in by_tokens} == {"stop", "length"}
    if temperature:  # ids 0 and 1 are special tokens that do not stop: texts must not contain them
        assert any({0, 1} & set(generation.response_ids or ()) for generation in by_tokens)


async def test_token_prompts_are_taken_as_they_are(folder: Path, server: VllmServer) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    chat = Chat.load(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    # The same text, but with one token per character.
    ids = tuple(chat.tokenizer.convert_tokens_to_ids(list("push")))
    assert chat.tokenizer.decode(ids) == "push"
    assert chat.tokenizer("push", add_special_tokens=False)["input_ids"] != list(ids)
    with torch.inference_mode():
        whole = model.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=12)
    async with OpenAIEngine([server.url], server.model) as engine:
        request = replace(ask("name one action", Sampling(max_tokens=12)), prompt_ids=ids)
        found = await engine.generate(request)
    assert (found.prompt_ids, found.prompt_tokens) == (ids, 4)
    assert found.response_ids == tuple(whole[0, 4:].tolist())


async def test_the_end_of_the_context_for_token_prompts(server: VllmServer) -> None:
    async with OpenAIEngine([server.url], server.model) as engine:
        request = ask("", Sampling(max_tokens=100))
        nearly = await engine.generate(replace(request, prompt_ids=(70,) * (CONTEXT - 1)))
        assert (nearly.prompt_tokens, nearly.response_tokens) == (CONTEXT - 1, 1)
        for tokens in (CONTEXT, CONTEXT + 1):
            with pytest.raises(PromptTooLong, match=f"{tokens} tokens .* context {CONTEXT}"):
                await engine.generate(replace(request, prompt_ids=(70,) * tokens))
        for ids in ((70, 10**6), (70, -1)):
            with pytest.raises(EngineError, match="HTTP 400"):
                await engine.generate(replace(request, prompt_ids=ids))


async def test_the_end_of_the_context(server: VllmServer) -> None:
    async with OpenAIEngine([server.url], server.model) as engine:
        assert engine.describe()["context"] == CONTEXT
        assert engine.describe()["server"] == "vllm"
        empty = await engine.generate(ask("", Sampling(max_tokens=1)))
        assert empty.prompt_tokens is not None
        room = CONTEXT - empty.prompt_tokens
        nearly = await engine.generate(ask("Z" * (room - 1), Sampling(max_tokens=100)))
        assert (nearly.prompt_tokens, nearly.response_tokens) == (CONTEXT - 1, 1)
        for letters in (room, room + 1, 10 * CONTEXT):
            with pytest.raises(PromptTooLong, match=f"context {CONTEXT}"):
                await engine.generate(ask("Z" * letters, Sampling(max_tokens=100)))
        assert (await engine.generate(ask("go on", Sampling(max_tokens=1)))).response_tokens == 1


async def test_a_killed_server_stops_the_run(server: VllmServer) -> None:
    """Must come last, since it stops the module's server."""
    async with OpenAIEngine([server.url], server.model, patience=1.0) as engine:
        sampling = Sampling(temperature=1.0, max_tokens=CONTEXT)
        # Enough that even a busy machine does not answer all of them before the kill.
        requests = [ask(f"prompt {number}", sampling, number) for number in range(1024)]
        running = [asyncio.create_task(engine.generate(request)) for request in requests]
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        start = time.monotonic()
        server.kill()
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        # Not the minutes that a server may take to answer.
        assert time.monotonic() - start < 120
        kinds = {type(outcome) for outcome in outcomes}
        assert kinds == {Generation, EngineDown}
        down = next(outcome for outcome in outcomes if isinstance(outcome, EngineDown))
        assert "connection refused" in str(down)
