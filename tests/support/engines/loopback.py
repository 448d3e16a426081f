"""A small OpenAI-compatible server on the loopback interface that follows a script."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def completion(text: Any = "fine", **choice: Any) -> dict[str, Any]:
    """A chat completion of two tokens, as vLLM sends it."""
    tokens = [{"token": "a", "logprob": value, "bytes": [97]} for value in (-0.5, -0.25)]
    return {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "reasoning": None},
                "logprobs": {"content": tokens},
                "finish_reason": "stop",
                "token_ids": [7, 2],
                **choice,
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
        "prompt_token_ids": [1, 5, 6],
    }


def token_completion(text: Any = "fine", **choice: Any) -> dict[str, Any]:
    """A completion of two tokens for the prompt 1, 5, 6, as vLLM sends it."""
    return {
        "id": "cmpl-0",
        "object": "text_completion",
        "choices": [
            {
                "index": 0,
                "text": text,
                "logprobs": {"token_logprobs": [-0.5, -0.25], "tokens": ["a", "a"]},
                "finish_reason": "stop",
                "prompt_token_ids": [1, 5, 6],
                "token_ids": [7, 2],
                **choice,
            }
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
    }


def says(body: Any = None, status: int = 200, **headers: str) -> Answer:
    """Answer with a JSON value, or with raw bytes."""
    content = completion() if body is None else body
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()

    async def answer(request: web.Request) -> web.StreamResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=raw, status=status, headers=named, content_type="application/json")

    return answer


def fails(status: int, message: str = "no", **headers: str) -> Answer:
    """Answer with an error in the format of OpenAI's API."""
    return says({"error": {"message": message, "type": "Error", "code": status}}, status, **headers)


async def hangs(request: web.Request) -> web.StreamResponse:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


async def disconnects(request: web.Request) -> web.StreamResponse:
    """Start an answer and close the connection."""
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"choices": [')
    assert request.transport is not None
    request.transport.abort()
    return response


@dataclass
class Loopback:
    """A running server.

    Attributes:
        script: Answers to completion requests of both kinds, in order; the last one is repeated.
        models: Response to `GET /v1/models`.
        vllm: Whether it presents itself as vLLM.
        context: `max_model_len` of its models.
        key: Required API key; None if there is none.
        prompt_tokens: Response to vLLM's `/tokenize`.
        prompt_text: Response to vLLM's `/detokenize`.
        hello: Answers to the engine's probe requests, in order; the last one is repeated.
        hellos: Bodies of the probe requests.
        tokenized: Bodies of the requests to `/tokenize`.
        requests: Bodies of the completion requests, without the engine's probes.
        paths: Path of each completion request.
        authorizations: `Authorization` headers of all requests.
        open: Number of requests in flight.
        most_open: Maximum of `open`.
    """

    script: list[Answer] = field(default_factory=lambda: [says()])
    models: Sequence[str] = ("tiny",)
    vllm: bool = True
    context: int | None = 4096
    key: str | None = None
    prompt_tokens: int = 3
    prompt_text: str = "<|im_start|>assistant\n"
    hello: list[Answer] = field(default_factory=lambda: [says()])
    hellos: list[dict[str, Any]] = field(default_factory=list)
    tokenized: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    open: int = 0
    most_open: int = 0
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Address without `/v1`."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen, on the same port as before if restarted after `stop`."""
        app = web.Application(client_max_size=2**24)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/chat/completions", self._complete)
        app.router.add_post("/v1/completions", self._complete)
        if self.vllm:
            app.router.add_get("/version", says({"version": "0.32.0"}))
            app.router.add_get("/health", says(b""))
            app.router.add_post("/tokenize", self._tokenize)
            app.router.add_post("/detokenize", self._detokenize)
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=0.05, handler_cancellation=True
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port and all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _models(self, request: web.Request) -> web.Response:
        self.authorizations.append(request.headers.get("Authorization"))
        if self.key is not None and self.authorizations[-1] != f"Bearer {self.key}":
            return web.json_response({"error": {"message": "bad key"}}, status=401)
        owner = "vllm" if self.vllm else "somebody"
        length = {"max_model_len": self.context} if self.vllm else {}
        cards = [{"id": name, "owned_by": owner, **length} for name in self.models]
        return web.json_response({"object": "list", "data": cards})

    async def _tokenize(self, request: web.Request) -> web.Response:
        self.tokenized.append(await request.json())
        return web.json_response({"count": self.prompt_tokens, "tokens": []})

    async def _detokenize(self, request: web.Request) -> web.Response:
        return web.json_response({"prompt": self.prompt_text})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        self.authorizations.append(request.headers.get("Authorization"))
        body = await request.json()
        if body.get("messages") == [{"role": "user", "content": "Hi"}]:
            self.hellos.append(body)
            answer = self.hello.pop(0) if len(self.hello) > 1 else self.hello[0]
            return await answer(request)
        self.requests.append(body)
        self.paths.append(request.path)
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            return await answer(request)
        finally:
            self.open -= 1


@asynccontextmanager
async def loopback(*script: Answer, **settings: Any) -> AsyncIterator[Loopback]:
    """Run a server until the block ends."""
    server = Loopback(**settings)
    if script:
        server.script = list(script)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
