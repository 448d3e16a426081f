"""Several endpoints as one: routes requests, and tracks endpoints out of service."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from benchmark.engines.core.base import EngineDown
from benchmark.engines.core.homes import Homes
from benchmark.engines.server.endpoint import Endpoint
from benchmark.engines.server.exchange import RetryableError
from tasks.errors import UserError

PROBE_FIRST_WAIT = 0.25
PROBE_LONGEST_WAIT = 10.0

log = logging.getLogger(__name__)


class Pool:
    """Chooses endpoints and monitors those that fail.

    An episode stays with its endpoint, whose prefix cache holds most of the next prompt. An
    endpoint that fails is probed; if it fails the probe, it is out of service until it passes one.

    Args:
        endpoints: The endpoints, at least one.
        probe: Raises `RetryableError` or `UserError` if the endpoint cannot be used.
        patience: Seconds to wait for any endpoint to come back when all are out of service.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        probe: Callable[[Endpoint], Awaitable[None]],
        patience: float,
    ) -> None:
        self.endpoints = tuple(endpoints)
        self._probe = probe
        self._patience = patience
        self._homes: Homes[Endpoint] = Homes()
        self._watches: dict[Endpoint, asyncio.Task[None]] = {}
        self._revived = asyncio.Event()

    async def choose(self, affinity: int, avoid: Endpoint | None = None) -> Endpoint:
        """Find the endpoint for a request; waits while all are out of service.

        Args:
            affinity: The episode.
            avoid: Endpoint that just failed the same request; used only if there is no other.

        Raises:
            EngineDown: None came back within `patience`.
        """
        while not (well := [one for one in self.endpoints if one.down is None]):
            await self._wait_for_any()
        return self._homes.choose(affinity, [one for one in well if one is not avoid] or well)

    def report(self, endpoint: Endpoint) -> None:
        """Have an endpoint probed after a failure that it may have caused."""
        if endpoint not in self._watches:
            watch = asyncio.create_task(self._watch(endpoint))
            self._watches[endpoint] = watch
            watch.add_done_callback(lambda _: self._watches.pop(endpoint, None))

    async def close(self) -> None:
        """End all probes."""
        watches = list(self._watches.values())
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    def causes(self) -> str:
        """Why endpoints are out of service."""
        return "; ".join(f"{one.label}: {one.down}" for one in self.endpoints if one.down)

    async def _wait_for_any(self) -> None:
        deadline = max(one.down_since for one in self.endpoints) + self._patience
        self._revived.clear()
        try:
            async with asyncio.timeout_at(deadline):
                await self._revived.wait()
        except TimeoutError:
            if all(one.down is not None for one in self.endpoints):
                raise EngineDown(f"no endpoint answers ({self.causes()})") from None

    async def _watch(self, endpoint: Endpoint) -> None:
        wait = PROBE_FIRST_WAIT
        while (cause := await self._check(endpoint)) is not None:
            if endpoint.down is None:
                log.warning("endpoint %s is out of service: %s", endpoint.label, cause)
                endpoint.down_since = asyncio.get_running_loop().time()
            endpoint.down = cause
            await asyncio.sleep(wait)
            wait = min(2 * wait, PROBE_LONGEST_WAIT)
        if endpoint.down is not None:
            log.warning("endpoint %s is back in service", endpoint.label)
        endpoint.down = None
        self._revived.set()

    async def _check(self, endpoint: Endpoint) -> str | None:
        try:
            await self._probe(endpoint)
        except (RetryableError, UserError) as error:
            return str(error)
        return None
