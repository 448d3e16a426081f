"""Servers that send invalid data: one short line for each, in bounded time and memory."""

import asyncio
import gzip
import json
import resource
import time
from typing import Any

import pytest
from aiohttp import web

from benchmark.engines.core.base import EngineError
from benchmark.engines.server.exchange import MAX_BODY, Reply
from tests.support.engines.loopback import completion, loopback, says, token_completion
from tests.support.engines.server_requests import engine, request

HUGE = 10**400
NUMBERS: list[Any] = [
    [HUGE, -0.5],
    [-HUGE, -0.5],
    [-1.7e308, -1.7e308],
    [float("nan"), -0.5],
    [float("-inf"), -0.5],
    [float("inf"), -0.5],
    ["-0.5", "-0.25"],
    [True, False],
    [None, -0.5],
    [[-0.5], -0.25],
    [{}, -0.25],
    {"0": -0.5, "1": -0.25},
    "-1",
    [-0.5] * 3,
    -0.5,
]
"""Replacements for two log-probabilities."""


def one_line(error: EngineError) -> str:
    """The error message, which ends up in records and on terminals."""
    text = str(error)
    assert text.isprintable()
    assert len(text) < 500
    return text


async def refused(answer: Any, token_prompt: bool = False, patience: float = 120.0) -> str:
    """What is said to an answer that no attempt makes better."""
    async with loopback(answer) as server, engine(server, retries=0, timeout=patience) as tested:
        with pytest.raises(EngineError) as caught:
            await tested.generate(request(prompt_ids=(1, 5, 6) if token_prompt else None))
    return one_line(caught.value)


@pytest.mark.parametrize("values", NUMBERS, ids=lambda values: repr(values)[:30])
async def test_log_probabilities_that_are_none(values: Any) -> None:
    body = token_completion(logprobs={"token_logprobs": values})
    text = await refused(says(body), token_prompt=True)
    assert "HTTP 200 with a body that is not a completion" in text
    tokens = [{"logprob": value} for value in values] if isinstance(values, list) else values
    text = await refused(says(completion(logprobs={"content": tokens})))
    assert "HTTP 200 with a body that is not a chat completion" in text


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices": [{"logprobs": {"token_logprobs": [1e400]}}]}',
        b'{"choices": ' + b"9" * 100_000 + b"}",
        b'{"choices": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"choices": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
        b"[" * 10_000_000,
        json.dumps(completion(token_ids=[HUGE, 2])).encode(),
        json.dumps(completion(token_ids=[-1, 2])).encode(),
        json.dumps(completion(token_ids="72")).encode(),
        json.dumps({**completion(), "usage": {"prompt_tokens": HUGE}}).encode(),
        json.dumps({**completion(), "usage": {"prompt_tokens": -HUGE}}).encode(),
        json.dumps({**completion(), "usage": {"prompt_tokens": True}}).encode(),
        json.dumps({**completion(), "usage": [1]}).encode(),
        b"\x00" * 1000,
        b"",
    ],
    ids=lambda body: body[:30].decode(),
)
async def test_bodies_that_are_no_completion(body: bytes) -> None:
    text = await refused(says(body))
    assert "HTTP 200 with a body that is not" in text


@pytest.mark.parametrize("depth", range(860, 1_000, 4))
def test_messages_at_every_depth_are_texts(depth: int) -> None:
    """A text that can just be parsed may be nested too deeply to be serialized again."""
    for inner in ('"a"', '"\x1b[2J"'):
        for name in ("error", "message", "detail"):
            nested = "[" * depth + inner + "]" * depth
            text = Reply(500, f'{{"{name}": {nested}}}'.encode()).message()
            assert text.isprintable()
            assert len(text) <= 400


@pytest.mark.parametrize(
    "reason", ["\x1b]52;c;aGk=\x07", "x" * 10_000, 7, None, [[[["stop"]]]], {"a": 1}, True]
)
async def test_reasons_to_end_are_shown_on_one_line(reason: Any) -> None:
    assert "finish_reason" in await refused(says(completion(finish_reason=reason)))


async def _drips(incoming: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_length = 10**6
    await response.prepare(incoming)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.02)


async def _never_ends(incoming: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(incoming)
    while True:
        await response.write(bytes(2**16))


LATE = "no answer within 2 s"
BOMB = gzip.compress(bytes(16 * MAX_BODY), 1)


async def _explodes(incoming: web.Request) -> web.StreamResponse:
    return web.Response(body=BOMB, headers={"Content-Encoding": "gzip"})


async def _long_header(incoming: web.Request) -> web.StreamResponse:
    return web.Response(headers={f"X-{number}": "a" * 4_000 for number in range(2_000)})


async def _many_continues(incoming: web.Request) -> web.StreamResponse:
    assert incoming.transport is not None
    while True:
        incoming.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
        await asyncio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (_drips, LATE),
        (_never_ends, f"longer than {MAX_BODY} bytes"),
        (_explodes, f"longer than {MAX_BODY} bytes"),
        (_long_header, "invalid HTTP response"),
        (_many_continues, LATE),
    ],
)
async def test_what_does_not_end_costs_little(answer: Any, said: str) -> None:
    # The memory of the server, which runs in this process, counts as well.
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    # What ends for another reason may take as long as a busy machine needs.
    assert said in await refused(answer, patience=2.0 if said == LATE else 120.0)
    assert time.process_time() - began < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * MAX_BODY / 1024
