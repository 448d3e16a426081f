"""Counts an engine's requests, tokens and idle time."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from benchmark.engines.core.base import Engine, Generation, Request

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Usage:
    """An engine's usage so far.

    Attributes:
        requests: Number of answered requests.
        failed: Number of requests that failed or were cancelled.
        prompt_tokens: Sum over the answered requests, if the engine counts tokens.
        response_tokens: Likewise.
        seconds: Time since the first request.
        idle_seconds: Time of that without any request in flight.
    """

    requests: int
    failed: int
    prompt_tokens: int
    response_tokens: int
    seconds: float
    idle_seconds: float

    @property
    def idle_share(self) -> float:
        """Share of the time without any request in flight; 0 before any time has passed."""
        return self.idle_seconds / self.seconds if self.seconds else 0.0


class MeteredEngine(Engine):
    """Passes requests on to another engine and counts them.

    Args:
        engine: Answers the requests; entered and left together with this one.
        clock: Monotonic clock in seconds.
    """

    def __init__(self, engine: Engine, clock: Callable[[], float] = time.monotonic) -> None:
        self.name = engine.name
        self._engine = engine
        self._clock = clock
        self._requests = self._failed = self._in_flight = 0
        self._prompt_tokens = self._response_tokens = 0
        self._first: float | None = None
        self._idle_since = 0.0
        self._idle = 0.0

    async def __aenter__(self) -> Self:
        """Start the engine; see `Engine.__aenter__`."""
        await self._engine.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Stop the engine."""
        await self._engine.__aexit__(*exc)

    async def generate(self, request: Request) -> Generation:
        """Pass a request on; see `Engine.generate`."""
        self._begin()
        try:
            generation = await self._engine.generate(request)
        except BaseException:
            self._failed += 1
            raise
        finally:
            self._end()
        self._requests += 1
        self._prompt_tokens += generation.prompt_tokens or 0
        self._response_tokens += generation.response_tokens or 0
        return generation

    def client(self) -> AbstractContextManager[None]:
        """A client of the other engine; see `Engine.client`."""
        return self._engine.client()

    def step_with(self, other: Engine) -> None:
        """Pass the call on; see `Engine.step_with`."""
        self._engine.step_with(other)

    async def load_weights(
        self, weights: "Iterable[tuple[str, torch.Tensor]]", version: int
    ) -> None:
        """Pass new weights on; see `Engine.load_weights`."""
        await self._engine.load_weights(weights, version)

    async def sleep(self) -> None:
        """Pass the call on; see `Engine.sleep`."""
        await self._engine.sleep()

    async def weight_checksums(self) -> Mapping[str, str]:
        """Pass the call on; see `Engine.weight_checksums`."""
        return await self._engine.weight_checksums()

    def describe(self) -> dict[str, Any]:
        """The engine's own facts."""
        return self._engine.describe()

    def usage(self) -> Usage:
        """The usage so far."""
        now = self._clock()
        idle = self._idle
        if self._first is not None and not self._in_flight:
            idle += now - self._idle_since
        return Usage(
            requests=self._requests,
            failed=self._failed,
            prompt_tokens=self._prompt_tokens,
            response_tokens=self._response_tokens,
            seconds=0.0 if self._first is None else now - self._first,
            idle_seconds=idle,
        )

    def _begin(self) -> None:
        if not self._in_flight:
            now = self._clock()
            if self._first is None:
                self._first = self._idle_since = now
            self._idle += now - self._idle_since
        self._in_flight += 1

    def _end(self) -> None:
        self._in_flight -= 1
        if not self._in_flight:
            self._idle_since = self._clock()
