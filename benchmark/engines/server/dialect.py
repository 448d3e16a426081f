"""The request format of a run's servers, and the meaning of their refusals."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from benchmark.engines.core.base import (
    PLAIN_CHAT,
    ChatOptions,
    EngineError,
    PromptTooLong,
    Sampling,
)
from benchmark.engines.server.endpoint import Served
from tasks.chat.messages import Message, Part
from tasks.errors import UserError

MAX_TOKENS: Final = "max_tokens"
MAX_COMPLETION_TOKENS: Final = "max_completion_tokens"
"""Limit field that servers of models with hidden reasoning require instead."""
ENOUGH_TO_ANSWER: Final = 16
"""Token limit of a test request to such models: some refuse a limit that reasoning uses up."""

_CONTEXT_COMPLAINT = re.compile(
    r"context.?(length|size|window)|maximum context|max_tokens must be at least 1", re.IGNORECASE
)
_CONTEXT_TOKENS = re.compile(
    r"(?:context.{0,12}(?:length|size)(?: is| of)?|available context size)\D{0,3}(\d+)",
    re.IGNORECASE,
)
_PROMPT_TOKENS = re.compile(
    r"(\d+) (?:tokens )?(?:in|from) the (?:input )?messages"
    r"|request \((\d+) tokens\)"
    r"|(?:prompt contains|messages resulted in)\D{0,12}(\d+) (?:input )?tokens",
    re.IGNORECASE,
)
_LIMIT_REACHED = re.compile(r"could not finish the message|output limit was reached", re.IGNORECASE)
_FIXED = re.compile(r"unsupported (?:value|parameter): '(temperature|top_p)'", re.IGNORECASE)


@dataclass
class Dialect:
    """Writes requests.

    Attributes:
        model: The served model's name.
        served: Facts about the servers; None until they were asked.
        limit_field: Name of the field that limits response tokens.
        opened: The `<think>` that the servers' chat template writes at the end of a prompt, if
            known; it belongs to the response.
    """

    model: str
    served: Served | None = None
    limit_field: str = field(default=MAX_TOKENS, init=False)
    opened: str = field(default="", init=False)

    @property
    def vllm(self) -> bool:
        """Whether the servers are vLLM."""
        return self.served is not None and self.served.server == "vllm"

    def fields(
        self,
        messages: Sequence[Message],
        sampling: Sampling,
        seed: int,
        prompt_ids: tuple[int, ...] | None = None,
        chat: ChatOptions = PLAIN_CHAT,
    ) -> dict[str, Any]:
        """The body of a request.

        Raises:
            EngineError: The prompt is token ids, but there are none or the server is not vLLM.
            PromptTooLong: The context leaves no room for a response.
            UserError: The server lacks a sampling setting.
        """
        prompt: dict[str, Any] = {"messages": [sent_message(message) for message in messages]}
        if prompt_ids is not None:
            if not self.vllm:
                raise EngineError(
                    "token prompts need a vLLM server, and this server is not vLLM; "
                    "serve the model with vLLM"
                )
            if not prompt_ids:
                raise EngineError("the prompt has no tokens")
            prompt = {"prompt": prompt_ids, "add_special_tokens": False}
        fields: dict[str, Any] = {
            "model": self.model,
            **prompt,
            self.limit_field: self._limit(sampling.max_tokens, prompt_ids),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": seed,
        }
        if self.vllm:
            # Omitted settings would come from the model folder's generation_config.json.
            fields |= {
                "top_k": sampling.top_k,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
                "presence_penalty": 0.0,
                "frequency_penalty": 0.0,
                "return_token_ids": True,
                # The completions API takes the number of alternatives besides the chosen token.
                "logprobs": True if prompt_ids is None else 0,
            }
        elif sampling.top_k:
            raise UserError(
                "top_k is not a standard setting and this server is not vLLM; "
                "remove top_k or serve the model with vLLM"
            )
        if chat.template_kwargs and prompt_ids is None:
            fields["chat_template_kwargs"] = dict(chat.template_kwargs)
        return {**fields, **chat.extra_body}

    def _limit(self, max_tokens: int, prompt_ids: tuple[int, ...] | None) -> int:
        """Limit `max_tokens` to the room known before asking the server."""
        context = self.served.context if self.served else None
        if not context:
            return max_tokens
        if prompt_ids is None:
            return max(1, min(max_tokens, context - 1))
        if len(prompt_ids) >= context:
            raise PromptTooLong(len(prompt_ids), context)
        return min(max_tokens, context - len(prompt_ids))

    def limited(self, fields: dict[str, Any], tokens: int) -> dict[str, Any]:
        """A request with a different response limit."""
        return {**fields, self.limit_field: tokens}

    def learn_limit(self, complaint: str) -> bool:
        """Use the other limit field if a server asks for it; return whether that is new."""
        wanted = MAX_COMPLETION_TOKENS in complaint and self.limit_field == MAX_TOKENS
        if wanted:
            self.limit_field = MAX_COMPLETION_TOKENS
        return wanted


def sent_message(message: Message) -> dict[str, Any]:
    """A message in the servers' format, with images as data URLs."""
    content = message["content"]
    if isinstance(content, str):
        return dict(message)
    return {"role": message["role"], "content": [_sent_part(part) for part in content]}


def _sent_part(part: Part) -> dict[str, Any]:
    if part["type"] == "text":
        return dict(part)
    return {"type": "image_url", "image_url": {"url": part["image"].data_url}}


def is_about_context(text: str) -> bool:
    """Whether a server's refusal is about its context length."""
    return bool(_CONTEXT_COMPLAINT.search(text))


def context_in(text: str) -> int | None:
    """The context length in a refusal, in tokens."""
    return _number(_CONTEXT_TOKENS, text)


def prompt_in(text: str) -> int | None:
    """The prompt length in a refusal, in tokens."""
    return _number(_PROMPT_TOKENS, text)


def is_limit_reached(text: str) -> bool:
    """Whether a server refuses only because reasoning used up all tokens, and otherwise works."""
    return bool(_LIMIT_REACHED.search(text))


def advice(text: str) -> str:
    """Advice on a refused test request, if known, with its separator."""
    if found := _FIXED.search(text):
        name = found[1].lower()
        return (
            f"; the server does not let requests change {name}: use --temperature 1 --top-p 1 (a "
            "different protocol)"
        )
    return ""


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(next(group for group in found.groups() if group)) if found else None
