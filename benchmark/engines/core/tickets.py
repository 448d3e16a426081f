"""Messages to and from the worker thread: requests, jobs, completions and their futures."""

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
        response_ids: All tokens, including the end-of-turn token.
        log_probs: Their log-probabilities under the full, untempered distribution.
        stopped: It ended by itself; False if it was truncated.
        weights_versions: Versions of the weights that sampled the first and the last token.
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
        sampling: Sampling settings.
        max_tokens: Maximum response length, limited by the context; at least 1.
        seed: Sampling seed.
        future: The future on which the event loop waits.
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
        """False once nothing waits for the response any more."""
        return not self.future.done()


@dataclass(frozen=True, slots=True, eq=False)
class EngineJob:
    """Work on the model between two steps (such as new weights) on its way to the worker.

    Attributes:
        work: The function to run in the worker thread.
        future: The future for its result.
    """

    work: Callable[[], Any]
    future: "asyncio.Future[Any]"


Result: TypeAlias = tuple[Ticket, Completion | EngineError]


def deliver(results: Iterable[Result]) -> None:
    """Deliver results to futures that still wait. Like the functions below, runs in the loop."""
    for ticket, result in results:
        if isinstance(result, EngineError):
            fail_future(ticket.future, result)
        elif ticket.wanted:
            ticket.future.set_result(result)


def finish_future(future: "asyncio.Future[T]", result: T) -> None:
    """Set a future's result, unless nothing waits for it any more."""
    if not future.done():
        future.set_result(result)


def fail_future(future: "asyncio.Future[T]", error: BaseException) -> None:
    """Set a future's exception, unless nothing waits for it any more."""
    if not future.done():
        future.set_exception(error)
