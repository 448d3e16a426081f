"""One attempt to get a request answered by one endpoint, and the wait before the next."""

import json
from dataclasses import replace
from typing import Any

import aiohttp

from benchmark.engines.core.base import EngineDown, EngineError, Generation, PromptTooLong
from benchmark.engines.server.completion import read_completion, read_token_completion
from benchmark.engines.server.dialect import Dialect, context_in, is_about_context, prompt_in
from benchmark.engines.server.endpoint import Endpoint
from benchmark.engines.server.exchange import MAX_BODY, BodyTooLong, Reply, RetryableError
from benchmark.engines.server.weights import ServerWeights
from tasks.seeding import stable_seed

OF_PROMPT = ("model", "messages", "chat_template_kwargs")
"""Request fields that a prompt's length depends on."""

FIRST_WAIT = 0.25
LONGEST_WAIT = 30.0
"""Bounds of the back-off between attempts, in seconds."""


class Refused(EngineError):
    """The server refuses the request."""


class Attempts:
    """Sends requests and reads their answers.

    Args:
        dialect: Request format of the servers.
        weights: Weights of the servers.
    """

    def __init__(self, dialect: Dialect, weights: ServerWeights) -> None:
        self._dialect = dialect
        self._weights = weights

    async def send(
        self,
        session: aiohttp.ClientSession,
        endpoint: Endpoint,
        fields: dict[str, Any],
        join_reasoning: bool,
    ) -> Generation:
        """Send a request, and retry once with a shorter response if the context is too short.

        Args:
            session: The HTTP session.
            endpoint: The endpoint.
            fields: Fields of the request, from `Dialect.fields`.
            join_reasoning: Whether separately returned reasoning belongs to the text.

        Raises:
            RetryableError: Another attempt may succeed.
            EngineError: The server refuses the request.
            PromptTooLong: The context leaves no room for a response.
            EngineDown: Access is denied.
        """
        tokens = "prompt" in fields
        began, salt = self._weights.version, self._weights.cache_salt
        if salt is not None:
            fields = {**fields, "cache_salt": salt}
        endpoint.load += 1
        try:
            reply = await endpoint.post(session, json_body(fields), tokens)
            if reply.status in (400, 413, 422):
                room = await self._room(session, endpoint, reply, fields)
                body = json_body(self._dialect.limited(fields, room))
                reply = await endpoint.post(session, body, tokens)
            generation = self._read(endpoint, reply, fields, join_reasoning)
        except BodyTooLong:
            raise EngineError(f"the server's answer is longer than {MAX_BODY} bytes") from None
        finally:
            endpoint.load -= 1
        return replace(generation, weights_versions=(began, self._weights.version))

    async def _room(
        self,
        session: aiohttp.ClientSession,
        endpoint: Endpoint,
        reply: Reply,
        fields: dict[str, Any],
    ) -> int:
        """Find the maximum response length that fits a refused request.

        Only the server knows the length of messages, so it is asked here. (vLLM 0.32 reduces
        `max_tokens` itself and refuses only prompts that leave no room; earlier versions and other
        servers refuse the sum.)

        Raises:
            PromptTooLong: There is no room.
            EngineError: The refusal is not about the context length.
        """
        message = endpoint.message(reply)
        served = self._dialect.served
        context = served.context if served else None
        prompt: int | None = None
        if "prompt" in fields:
            prompt = len(fields["prompt"])
        elif self._dialect.vllm:
            prompt = await endpoint.tokenize(
                session, json_body({key: fields[key] for key in OF_PROMPT if key in fields})
            )
        elif not is_about_context(reply.body.decode("utf-8", "replace")):
            raise Refused(f"HTTP {reply.status}: {message}")
        context = context or context_in(message)
        prompt = prompt or prompt_in(message)
        limit = fields[self._dialect.limit_field]
        if context is None or prompt is None or prompt + limit <= context:
            raise Refused(f"HTTP {reply.status}: {message}")
        if prompt >= context:
            raise PromptTooLong(prompt, context)
        return context - prompt

    def _read(
        self, endpoint: Endpoint, reply: Reply, fields: dict[str, Any], join_reasoning: bool
    ) -> Generation:
        status = reply.status
        if status == 200 and "prompt" in fields:
            return read_token_completion(reply, fields["prompt"])
        if status == 200:
            opened = self._dialect.opened
            return read_completion(reply, self._dialect.vllm, join_reasoning, opened)
        if status in (401, 403):
            raise EngineDown(f"access was denied (HTTP {status}); {endpoint.key_hint}")
        message = f"HTTP {status}: {endpoint.message(reply)}"
        # A 404 means that a model served at the start is now missing: the probe checks this.
        if status in (404, 408, 429) or status >= 500:
            raise RetryableError(message, reply.retry_after, busy=status == 429)
        raise Refused(message)


def json_body(fields: dict[str, Any]) -> bytes:
    """A request's body."""
    return json.dumps(fields, separators=(",", ":")).encode()


def back_off_seconds(seed: int, attempt: int) -> float:
    """Wait after a failed attempt: exponential, with jitter that is reproducible.

    Args:
        seed: The request's seed; spreads requests that failed together.
        attempt: Number of the failed attempt, from 0.

    Returns:
        Seconds, between half and all of the attempt's bound.
    """
    share = stable_seed("back-off", seed, attempt, bits=32) / 2**32
    return min(LONGEST_WAIT, FIRST_WAIT * 2.0**attempt) * (1 + share) / 2
