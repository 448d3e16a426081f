"""The weights of a set of vLLM servers: their version, and replacing them everywhere at once."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from benchmark.engines.core.base import EngineDown, checked_version
from benchmark.engines.server.exchange import RetryableError
from benchmark.engines.server.vllm_control import NO_UPDATE, VllmControl, all_done, paused
from tasks.errors import UserError

if TYPE_CHECKING:
    import torch

    from benchmark.engines.server.weight_transfer import WeightTransfer


class ServerWeights:
    """Keeps the weights of all servers the same.

    Args:
        transfer: How new weights reach the servers; None for fixed weights.

    Attributes:
        version: Version of the current weights.
    """

    def __init__(self, transfer: "WeightTransfer | None") -> None:
        self.version = 0
        self._transfer = transfer
        self._lock = asyncio.Lock()
        self._updates = 0
        self._refusal: Exception | None = None

    @property
    def cache_salt(self) -> str | None:
        """Cache salt that separates cached keys and values of different weights."""
        return f"weights-{self._updates}" if self._updates else None

    def check_usable(self) -> None:
        """Refuse requests while it is unknown which weights would answer.

        Raises:
            UserError: A server has the weights of another training run.
            EngineDown: An update failed.
        """
        if self._refusal is not None:
            raise self._refusal

    async def first_look(self, servers: Sequence[VllmControl], vllm: bool) -> None:
        """Check that all servers accept new weights, if they will have to.

        Args:
            servers: All servers.
            vllm: Whether they are vLLM.

        Raises:
            UserError: One does not.
        """
        if self._transfer is None:
            return
        if not vllm:
            raise UserError("only vLLM servers accept new weights, and these servers are not vLLM")
        names = await all_done([server.check() for server in servers])
        for server, name in zip(servers, names, strict=True):
            if name != NO_UPDATE:
                self._refusal = UserError(
                    f"{server.label} holds the weights {name!r} of another training "
                    "run; restart it, or load weights first"
                )

    async def load(
        self,
        servers: Sequence[VllmControl],
        weights: "Iterable[tuple[str, torch.Tensor]]",
        version: int,
    ) -> None:
        """Replace the weights of all servers; see `OpenAIEngine.load_weights`."""
        if self._transfer is None:
            raise UserError("the servers' weights cannot be replaced: no weight transfer is set up")
        given = tuple(weights)
        async with self._lock:
            layout = await asyncio.to_thread(self._transfer.layout)
            complete = layout.complete(given)
            checked_version(version)
            try:
                await self._transfer.prepare(complete, version)
                await self._replace(self._transfer, servers, complete, version)
            finally:
                await self._transfer.clear(version)

    async def _replace(
        self,
        transfer: "WeightTransfer",
        servers: Sequence[VllmControl],
        complete: "Mapping[str, torch.Tensor]",
        version: int,
    ) -> None:
        try:
            async with paused(servers):
                # Requests sent from here on wait, and start under the new weights.
                self._updates += 1
                self.version = version
                await transfer.send(servers, complete, version)
                await all_done([server.commit(str(version)) for server in servers])
        except BaseException as error:
            broke_off = EngineDown("an update of the servers' weights was interrupted")
            self._refusal = error if isinstance(error, EngineDown) else broke_off
            raise
        self._refusal = None

    async def verify(self, server: VllmControl, limit: float) -> None:
        """Check that a server that failed still has the current weights.

        Args:
            server: The server to check.
            limit: Seconds to wait.

        Raises:
            RetryableError: It has others, or does not report them.
        """
        if self._updates:
            name = await server.version(limit)
            if name != str(self.version):
                raise RetryableError(f"it came back with different weights ({name!r})")

    async def close(self) -> None:
        """Free the transfer's resources."""
        if self._transfer is not None:
            await self._transfer.close()
