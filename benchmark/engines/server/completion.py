"""Parses the body of a completion, which is untrusted."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict

from benchmark.engines.core.base import EngineError, Generation
from benchmark.engines.server.exchange import Reply, RetryableError
from benchmark.fields import MAX_TOKENS
from tasks.errors import UserError
from tasks.texts import on_one_line

MAX_TEXT = 1_000_000
"""Maximum length of a response text in characters, which is the limit of a record."""


def read_completion(
    reply: Reply, vllm: bool, join_reasoning: bool = False, opened: str = ""
) -> Generation:
    """Turn the answer to a chat completion request into a generation.

    Args:
        reply: A reply with status 200.
        vllm: Whether the server is vLLM. Only then are log-probabilities used, because only vLLM's
            are known to be of the full, untempered distribution (its default `--logprobs-mode
            raw_logprobs`).
        join_reasoning: See `ChatOptions`.
        opened: The `<think>` at the end of the prompt, with which the response begins; empty if
            there is none.

    Raises:
        RetryableError: The body is not a chat completion, or the server dropped the request.
        EngineError: The response has no text, is too long, or ended for another reason than a stop
            token or the token limit.
        UserError: The server removes the reasoning from the response without `join_reasoning`.
    """
    with _expecting("chat completion"):
        value = reply.json()
        choice = value["choices"][0]
        message, finish_reason = choice["message"], choice["finish_reason"]
        reasoning, content = _parts(message)
        tokens = _tokens(
            value.get("usage"),
            _ids(value.get("prompt_token_ids")) if vllm else None,
            _ids(choice.get("token_ids")) if vllm else None,
            _chat_log_probs(choice.get("logprobs")) if vllm else None,
        )
    # An immediately closed reasoning block is empty. Without a parser, its end is in the answer.
    closed = isinstance(content, str) and "</think>" in content
    apart = bool(reasoning) or (opened != "" and reasoning == "" and not closed)
    if apart and not join_reasoning:
        raise UserError(
            "the server removes the reasoning from responses; start it without "
            "--reasoning-parser so that the task sees the full response, or choose "
            "--protocol thinking, which joins reasoning and answer"
        )
    if apart:
        end = "" if content is None and finish_reason == "length" else "</think>"
        content = f"{opened or '<think>'}{reasoning}{end}{content or ''}"
    elif opened and isinstance(content, str):
        content = opened + content
    return _generation(content, finish_reason, tokens)


def _parts(message: Any) -> tuple[str | None, Any]:
    """Reasoning and answer of a message.

    Servers return the reasoning as `reasoning_content` (SGLang, llama.cpp, DeepSeek), `reasoning`
    (vLLM, OpenRouter), as content parts of type `thinking` (Mistral), or only as
    `reasoning_details` (OpenRouter's structured form: texts or, if a model hides them, summaries;
    encrypted parts cannot be read).
    """
    content = message.get("content")
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if reasoning is None:
        reasoning = message.get("reasoning_content")  # empty beside no other
    if isinstance(content, list):
        thoughts = [
            one for part in content if part["type"] == "thinking" for one in part["thinking"]
        ]
        reasoning = reasoning or "".join(thought["text"] for thought in thoughts)
        texts = [part["text"] for part in content if part["type"] == "text"]
        content = "".join(texts) if texts else None
    if not reasoning and (details := message.get("reasoning_details")):
        reasoning = "".join(part.get("text") or part.get("summary") or "" for part in details)
    if reasoning is not None and not isinstance(reasoning, str):
        raise ValueError("reasoning must be a text")
    return reasoning, content


def read_token_completion(reply: Reply, prompt_ids: Sequence[int]) -> Generation:
    """Turn vLLM's answer to a completion request whose prompt is token ids into a generation.

    Args:
        reply: A reply with status 200.
        prompt_ids: The prompt.

    Raises:
        RetryableError: The body is not a completion, or the server dropped the request.
        EngineError: The response has no text, is too long, ended for another reason than a stop
            token or the token limit, or answers another prompt.
    """
    with _expecting("completion"):
        value = reply.json()
        choice = value["choices"][0]
        content, finish_reason = choice["text"], choice["finish_reason"]
        answered = _ids(choice.get("prompt_token_ids"))
        tokens = _tokens(
            value.get("usage"),
            tuple(prompt_ids),
            _ids(choice.get("token_ids")),
            _log_probs((choice.get("logprobs") or {}).get("token_logprobs")),
        )
    prompt_tokens = tokens["prompt_tokens"]
    if answered not in (None, tokens["prompt_ids"]) or prompt_tokens not in (None, len(prompt_ids)):
        raise EngineError("the server answered a different prompt from the token ids sent")
    return _generation(content, finish_reason, tokens)


class _Tokens(TypedDict):
    """The fields of a `Generation` besides its text and finish reason."""

    prompt_tokens: int | None
    response_tokens: int | None
    log_prob: float | None
    prompt_ids: tuple[int, ...] | None
    response_ids: tuple[int, ...] | None
    token_log_probs: tuple[float, ...] | None


@contextmanager
def _expecting(what: str) -> Iterator[None]:
    """Turn errors from an unexpected body format into `RetryableError`."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise RetryableError(f"HTTP 200 with a body that is not a {what}") from error


def _tokens(
    usage: Any,
    prompt_ids: tuple[int, ...] | None,
    response_ids: tuple[int, ...] | None,
    log_probs: tuple[float, ...] | None,
) -> _Tokens:
    if log_probs is not None and response_ids is not None and len(log_probs) != len(response_ids):
        raise ValueError("every token of the response must have a log-probability")
    counts = usage or {}
    return {
        "prompt_tokens": _count(counts.get("prompt_tokens")),
        "response_tokens": _count(counts.get("completion_tokens")),
        "log_prob": None if log_probs is None else math.fsum(log_probs),
        "prompt_ids": prompt_ids,
        "response_ids": response_ids,
        "token_log_probs": log_probs,
    }


def _generation(text: Any, finish_reason: Any, tokens: _Tokens) -> Generation:
    if finish_reason == "abort":
        raise RetryableError("the server dropped the request")
    if finish_reason not in ("stop", "length"):
        # Deeply nested JSON cannot be converted to text.
        named = finish_reason if isinstance(finish_reason, str) else type(finish_reason).__name__
        raise EngineError(f"the response ended early: finish_reason {on_one_line(named[:50])}")
    if not isinstance(text, str):
        raise EngineError("the response has no content")
    if len(text) > MAX_TEXT:
        raise EngineError(f"the response is longer than {MAX_TEXT} characters")
    return Generation(without_surrogates(text), finish_reason, **tokens)


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which JSON can contain but UTF-8 cannot, with U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _count(value: Any) -> int | None:
    if value is None or (type(value) is int and 0 <= value <= MAX_TOKENS):
        return value
    raise ValueError(f"a token count must be a number from 0 to {MAX_TOKENS}")


def _ids(value: Any) -> tuple[int, ...] | None:
    if value is None:
        return None
    # This excludes booleans, and numbers too large for a token (`TokenId`).
    if not all(type(one) is int and 0 <= one < 2**31 for one in value):
        raise ValueError("token ids must be numbers that a record can hold")
    return tuple(value)


def _chat_log_probs(value: Any) -> tuple[float, ...] | None:
    if value is None or value["content"] is None:
        return None
    return _log_probs([token["logprob"] for token in value["content"]])


def _log_probs(value: Any) -> tuple[float, ...] | None:
    if value is None:
        return None
    if not set(map(type, value)) <= {int, float}:
        raise ValueError("log-probabilities must be numbers")
    log_probs = tuple(map(float, value))
    if not all(map(math.isfinite, log_probs)):
        raise ValueError("log-probabilities must be finite")
    return log_probs
