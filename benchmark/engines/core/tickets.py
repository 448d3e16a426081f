"""What goes to the worker's thread and comes back: requests, jobs, completions, their futures."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from benchmark.engines.core.base import EngineError, Sampling
from benchmark.engines.core.vision import PromptImages

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Completion:
    """The tokens of one response.

    Attributes:
        response_ids: All tokens, the end-of-turn token included.
        log_probs: Their log-probabilities under the full, untempered distribution.
        stopped: It ended by itself; False if it was cut.
        weights_versions: Weights that drew the first and the last token.
    """

    response_ids: tuple[int, ...]
    log_probs: tuple[float, ...]
    stopped: bool
    weights_versions: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """A request on its way through the worker.

    Attributes:
        prompt_ids: Token ids of the prompt.
        sampling: How to draw.
        max_tokens: Longest response, limited to the room in the context; at least 1.
        seed: Seed of the draws.
        future: Where the event loop waits.
        prompt_images: The prompt's images; None for text only.
    """

    prompt_ids: list[int]
    sampling: Sampling
    max_tokens: int
    seed: int
    future: "asyncio.Future[Completion]"
    prompt_images: PromptImages | None = None

    @property
    def wanted(self) -> bool:
        """False once nobody waits for the response any more."""
        return not self.future.done()


@dataclass(frozen=True, slots=True, eq=False)
class EngineJob:
    """Work on the model between two steps (new weights, say) on its way to the worker.

    Attributes:
        work: Does it, in the worker's thread.
        future: Where the event loop waits for what it returns.
    """

    work: Callable[[], Any]
    future: "asyncio.Future[Any]"


Result: TypeAlias = tuple[Ticket, Completion | EngineError]


def deliver(results: Iterable[Result]) -> None:
    """Hand out what ended, to those who still wait. Runs in the event loop, as do the others."""
    for ticket, result in results:
        if isinstance(result, EngineError):
            fail_future(ticket.future, result)
        elif ticket.wanted:
            ticket.future.set_result(result)


def finish_future(future: "asyncio.Future[T]", result: T) -> None:
    """Answer with a value, unless nobody waits any more."""
    if not future.done():
        future.set_result(result)


def fail_future(future: "asyncio.Future[T]", error: BaseException) -> None:
    """Answer with an error, unless nobody waits any more."""
    if not future.done():
        future.set_exception(error)
