"""An engine without a model that supports everything training needs: one token per byte of text."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from benchmark.engines.core.base import Engine, Generation, Request
from tasks.chat.messages import text_of

if TYPE_CHECKING:
    import torch

Policy = Callable[[Request], Awaitable[str]]

WAIT = "<think>No.</think><action>wait</action>"
"""A valid response without a direction: the turn passes."""


async def expert(request: Request) -> str:
    """The task's scripted expert."""
    return await request.episode.scripted("expert", request.seed)


async def wait(request: Request) -> str:
    """Lets every turn pass."""
    del request
    return WAIT


def log_probs(response: str) -> tuple[float, ...]:
    """This engine's log-probabilities for a response: minus a thousandth of each token."""
    return tuple(-token / 1000 for token in response.encode())


class ByteEngine(Engine):
    """Answers with a scripted policy.

    Args:
        policy: Returns the text of a response.
        seconds: Time that a response takes.

    Attributes:
        version: Version of the weights, which do not exist.
        under_way: Requests in flight.
        requests: All requests received.
    """

    name = "bytes"

    def __init__(self, policy: Policy = expert, seconds: float = 0.0) -> None:
        self.version = 0
        self.under_way = 0
        self.requests: list[Request] = []
        self._policy = policy
        self._seconds = seconds

    async def generate(self, request: Request) -> Generation:
        """Answer with the policy."""
        self.requests.append(request)
        began = self.version
        self.under_way += 1
        try:
            await asyncio.sleep(self._seconds)
            text = await self._policy(request)
        finally:
            self.under_way -= 1
        prompt, past = request.messages, request.previous
        ids: tuple[int, ...] = ()
        if past is not None:
            assert past.prompt_ids is not None and past.response_ids is not None
            ids, prompt = past.prompt_ids + past.response_ids, prompt[-1:]
        ids += tuple("".join(map(text_of, prompt)).encode())
        return Generation(
            text=text,
            finish_reason="stop",
            prompt_tokens=len(ids),
            response_tokens=len(text.encode()),
            log_prob=sum(log_probs(text)),
            prompt_ids=ids,
            response_ids=tuple(text.encode()),
            token_log_probs=log_probs(text),
            weights_versions=(began, self.version),
        )

    async def load_weights(
        self, weights: "Iterable[tuple[str, torch.Tensor]]", version: int
    ) -> None:
        """Store the version."""
        del weights
        self.version = version

    def describe(self) -> dict[str, Any]:
        """Name the kind of engine."""
        return {"kind": self.name}
