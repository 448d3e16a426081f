"""The routes of a vLLM server that change its weights.

A server has them with `VLLM_SERVER_DEV_MODE=1` in its environment. Then anyone who reaches its
address can stop it or change its weights, so run such a server only in a trusted network.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from benchmark.engines.core.base import EngineDown
from benchmark.engines.server.endpoint import Endpoint
from benchmark.engines.server.exchange import BodyTooLong, Reply, RetryableError
from tasks.errors import UserError

NO_UPDATE = "default"
"""vLLM's name of the weights that a server was started with."""

T = TypeVar("T")
log = logging.getLogger(__name__)


class VllmControl:
    """Stops, updates and resumes one server.

    Args:
        endpoint: The server.
        session: The HTTP session.
        timeout: Seconds for one exchange, such as a reload.

    Every method but `check` and `version` raises `EngineDown` if the server does not do what it
    is asked: after that its weights are unknown.
    """

    def __init__(self, endpoint: Endpoint, session: aiohttp.ClientSession, timeout: float) -> None:
        self._endpoint = endpoint
        self._session = session
        self._timeout = timeout

    @property
    def label(self) -> str:
        """The address, for messages to the user."""
        return self._endpoint.label

    async def check(self) -> str:
        """Check that the server accepts new weights at all.

        Returns:
            The name of its current weights.

        Raises:
            UserError: It does not, or does not answer.
        """
        try:
            return await self.version()
        except RetryableError as error:
            raise UserError(
                f"{self.label} does not accept new weights ({error}); start it as "
                "vLLM 0.32 or later with VLLM_SERVER_DEV_MODE=1 in its environment"
            ) from error

    async def version(self, limit: float | None = None) -> str:
        """Name of the server's weights; `NO_UPDATE` for those that it was started with.

        Args:
            limit: Seconds to wait; None for `timeout`.

        Raises:
            RetryableError: The server does not report it.
        """
        reply = await self._ask("weight_info", None, limit or self._timeout)
        value = reply.json() if reply.status == 200 else None
        name = value.get("weight_version") if isinstance(value, dict) else None
        if not isinstance(name, str):
            raise RetryableError(f"GET /weight_info: HTTP {reply.status}")
        return name[:100]

    async def pause(self) -> None:
        """Freeze all requests, running and new, until `resume`.

        vLLM 0.32 also drops the keys and values of running ones, and recomputes them afterward.
        """
        await self.post("pause?mode=keep")

    async def resume(self) -> None:
        """Resume requests."""
        await self.post("resume")

    async def reload(self, folder: Path) -> None:
        """Load weights from a folder that the server sees under the same path."""
        fields = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
        await self.post("collective_rpc", fields)

    async def commit(self, name: str) -> None:
        """Name the new weights, and drop cached keys and values of older ones.

        Blocks of running requests stay; requests with another cache salt never use them.
        """
        await self.post("update_weight_version", {"new_version": name})
        value = await self.post("reset_prefix_cache")
        if not (isinstance(value, dict) and value.get("success") is True):
            log.debug("%s did not reset its prefix cache: requests are running", self.label)

    async def checksums(self) -> dict[str, str]:
        """SHA-256 of every tensor, from vLLM's own checker."""
        value = await self.post("weight_checker", {"action": "checksum"})
        found = value.get("checksums") if isinstance(value, dict) else None
        if not isinstance(found, dict) or not all(type(one) is str for one in found.values()):
            raise EngineDown(f"{self.label} does not report checksums: {value!r:.100}")
        return found

    async def world_size(self) -> int:
        """Number of the server's workers."""
        value = await self._done("get_world_size", None, "GET")
        size = value.get("world_size") if isinstance(value, dict) else None
        if type(size) is not int or size < 1:
            raise EngineDown(f"{self.label} does not report its number of workers: {value!r:.100}")
        return size

    async def post(self, path: str, fields: dict[str, Any] | None = None) -> Any:
        """Send a command; return the JSON value of the answer."""
        return await self._done(path, fields, "POST")

    async def _done(self, path: str, fields: dict[str, Any] | None, method: str) -> Any:
        try:
            reply = await self._ask(path, fields, self._timeout, method)
            if reply.status == 200:
                return reply.json() if reply.body else None
            cause = f"HTTP {reply.status}: {self._endpoint.message(reply)}"
        except RetryableError as error:
            cause = str(error)
        raise EngineDown(
            f"{self.label} failed while its weights were being replaced ({method} "
            f"/{path}: {cause}); check its log and restart it"
        )

    async def _ask(
        self, path: str, fields: dict[str, Any] | None, limit: float, method: str = "GET"
    ) -> Reply:
        body = None if fields is None else json.dumps(fields).encode()
        try:
            return await self._endpoint.ask(self._session, method, path, body, limit)
        except BodyTooLong:
            raise RetryableError("the response is too long") from None


async def all_done(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all coroutines; return their results, or raise the first error."""
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    results: list[T] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results


@asynccontextmanager
async def paused(controls: Sequence[VllmControl]) -> AsyncIterator[None]:
    """Freeze all servers during a block; they resume whatever happens in it."""
    try:
        await all_done([control.pause() for control in controls])
        yield
    except BaseException:
        outcomes = await asyncio.gather(
            *(control.resume() for control in controls), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                log.debug("not resumed: %s", outcome)
        raise
    await all_done([control.resume() for control in controls])
