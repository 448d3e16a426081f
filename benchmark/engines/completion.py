"""Reads the body of a chat completion; it comes from outside and nothing in it is trusted."""

import math
from typing import Any

from benchmark.engines.base import EngineError, Generation
from benchmark.engines.endpoint import Reply, Trouble
from tasks.errors import UserError

MAX_TEXT = 1_000_000
"""Longest response text, in characters: the most that a record holds."""


def read_completion(reply: Reply, vllm: bool) -> Generation:
    """Turn the answer to a chat completion request into a generation.

    Args:
        reply: With status 200.
        vllm: Whether the server is vLLM. Only then are log-probabilities taken over, because only
            there they are known to be those of the full, untempered distribution (vLLM's default
            `--logprobs-mode raw_logprobs`).

    Raises:
        Trouble: The body is no chat completion, or the server dropped the request.
        EngineError: The response has no text, is too long, or ended for another reason than a stop
            token or the limit of tokens.
        UserError: The server takes the reasoning out of the response.
    """
    value = reply.json()
    try:
        choice = value["choices"][0]
        message, finish_reason = choice["message"], choice["finish_reason"]
        content, usage = message.get("content"), value.get("usage") or {}
        reasoning = vllm and (message.get("reasoning") or message.get("reasoning_content"))
        prompt_ids = _ids(value.get("prompt_token_ids")) if vllm else None
        response_ids = _ids(choice.get("token_ids")) if vllm else None
        log_probs = _log_probs(choice.get("logprobs")) if vllm else None
        if (
            log_probs is not None
            and response_ids is not None
            and len(log_probs) != len(response_ids)
        ):
            raise ValueError("every token of the response must have a log-probability")
        prompt_tokens = _count(usage.get("prompt_tokens"))
        response_tokens = _count(usage.get("completion_tokens"))
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise Trouble("HTTP 200 with a body that is no chat completion") from error
    if reasoning:
        raise UserError(
            "the server takes the reasoning out of responses; start it without "
            "--reasoning-parser, so that the task sees what the model wrote"
        )
    if finish_reason == "abort":
        raise Trouble("the server dropped the request")
    if finish_reason not in ("stop", "length"):
        raise EngineError(f"the response ended early: finish_reason {str(finish_reason)[:50]}")
    if not isinstance(content, str):
        raise EngineError("the response has no content")
    if len(content) > MAX_TEXT:
        raise EngineError(f"the response is longer than {MAX_TEXT} characters")
    return Generation(
        text=without_surrogates(content),
        finish_reason=finish_reason,
        prompt_tokens=prompt_tokens,
        response_tokens=response_tokens,
        log_prob=None if log_probs is None else math.fsum(log_probs),
        prompt_ids=prompt_ids,
        response_ids=response_ids,
        token_log_probs=log_probs,
    )


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can carry and UTF-8 cannot, by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _count(value: Any) -> int | None:
    if value is None or (type(value) is int and value >= 0):
        return value
    raise ValueError("a token count must be a non-negative number")


def _ids(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    if not set(map(type, value)) <= {int}:
        raise ValueError("token ids must be numbers")
    return tuple(value)


def _log_probs(value: Any) -> tuple[float, ...] | None:
    if value is None or value["content"] is None:
        return None
    log_probs = tuple(float(token["logprob"]) for token in value["content"])
    if not all(map(math.isfinite, log_probs)):
        raise ValueError("log-probabilities must be finite")
    return log_probs
