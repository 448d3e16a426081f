"""Sends weights from the trainer's GPU to the servers' GPUs with vLLM's NCCL weight transfer.

Start every server with `VLLM_SERVER_DEV_MODE=1` and `--weight-transfer-config
'{"backend": "nccl"}'`. The trainer's process is rank 0 of one NCCL group with all workers of all
servers; it needs its own GPU, because NCCL does not support two ranks on one GPU.

Written against vLLM 0.32.0 and not run on CUDA: only the requests to the servers are tested.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from benchmark.engines.core.base import EngineDown
from benchmark.engines.server.vllm_control import VllmControl, all_done
from benchmark.engines.server.weight_transfer import WeightTransfer
from tasks.errors import UserError
from tasks.texts import first_line


class NcclTransfer(WeightTransfer):
    """Broadcasts weights from GPU to GPU.

    In a multi-process trainer only the main process has an engine, and gathers the weights.

    Args:
        model: See `WeightTransfer`.
        address: Host name or address under which the servers reach this machine.
        port: A free TCP port on it, for the rendezvous.
        timeout: Seconds for one update, including the rendezvous of the first one.
    """

    def __init__(self, model: Path, address: str, port: int, timeout: float = 600.0) -> None:
        super().__init__(model)
        # vLLM is imported at the first update, and its log messages would mix with the output.
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        self._address = address
        self._port = port
        self._timeout = timeout
        self._source = WeightSource()
        self._engine: Any = None

    async def prepare(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Check that the weights are on one GPU.

        Raises:
            UserError: They are not.
        """
        devices = {tensor.device for tensor in weights.values()}
        if len(devices) != 1 or next(iter(devices)).type != "cuda":
            found = ", ".join(sorted(map(str, devices)))
            raise UserError(
                f"NCCL needs all weights on one GPU, but these are on {found}; use a "
                "folder transfer"
            )

    async def send(
        self, servers: Sequence[VllmControl], weights: Mapping[str, torch.Tensor], version: int
    ) -> None:
        """Broadcast the weights to all workers of all servers."""
        tied = self.layout().tied
        self._source.weights = {n: tensor for n, tensor in weights.items() if n not in tied}
        client = FanOut(servers, await worker_counts(servers))
        work = in_thread(lambda: self._broadcast(client))
        for future in (work, client.failure):
            future.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        # A broadcast never ends if its receiver failed, so wait for the failure as well.
        done, _ = await asyncio.wait(
            {work, client.failure}, timeout=self._timeout, return_when=asyncio.FIRST_COMPLETED
        )
        self._source.weights = {}
        errors = [found for one in done if (found := one.exception()) is not None]
        if done and not errors:
            return
        self._engine = None  # its group hangs
        down = next((error for error in errors if isinstance(error, EngineDown)), None)
        cause = f"{type(errors[0]).__name__}: {first_line(errors[0])}" if errors else "no end"
        raise down or EngineDown(
            f"the NCCL transfer of weights failed ({cause} after at most {self._timeout:g} s)"
        )

    def _broadcast(self, client: "FanOut") -> None:
        torch.cuda.set_device(next(iter(self._source.weights.values())).device)
        # vLLM packs on its own streams, which do not wait for the stream that made the weights.
        torch.cuda.synchronize()
        if self._engine is None:
            from vllm.distributed.weight_transfer import WeightTransferTrainerFactory
            from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

            info = NCCLTrainerInitInfo(
                rank=0,
                master_address=self._address,
                master_port=self._port,
                world_size=1 + sum(client.workers),
            )
            factory: Any = WeightTransferTrainerFactory
            self._engine = factory.trainer_init(info, client=client, source=self._source)
        self._engine.client = client
        self._engine.send_weights()

    async def close(self) -> None:
        """Leave the group."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await in_thread(engine.shutdown)


class WeightSource:
    """Provides weights to vLLM's trainer side: their metadata, and the tensors in order.

    Attributes:
        weights: The tensors of this update.
    """

    def __init__(self) -> None:
        self.weights: Mapping[str, torch.Tensor] = {}

    def metadata(self) -> list[Any]:
        """Name, type and shape of every tensor, in order."""
        from vllm.distributed.weight_transfer import ParamMeta

        return [ParamMeta(n, one.dtype, tuple(one.shape)) for n, one in self.weights.items()]

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Names and tensors, in the same order."""
        return iter(self.weights.items())


class FanOut:
    """Sends vLLM's four calls of an update to all servers at once.

    vLLM's trainer side makes the calls from its own threads; the exchanges run in the event loop.

    Args:
        servers: All servers.
        workers: Number of workers of each, from `worker_counts`.

    Attributes:
        failure: Receives the exception of the first call that fails on a server.
    """

    def __init__(
        self,
        servers: Sequence[VllmControl],
        workers: Sequence[int],
    ) -> None:
        self.workers = tuple(workers)
        self._servers = servers
        self._loop = asyncio.get_running_loop()
        self.failure: asyncio.Future[None] = self._loop.create_future()

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Have every worker join the group; ranks follow the order of the servers."""
        infos = []
        rank = 1
        for count in self.workers:
            infos.append({"init_info": {**init_info, "rank_offset": rank}})
            rank += count
        self._post("init_weight_transfer_engine", infos)

    def start_weight_update(self) -> None:
        """Announce an update."""
        self._post("start_weight_update", [None] * len(self._servers))

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Have every worker receive weights; return when all have."""
        self._post("update_weights", [{"update_info": update_info}] * len(self._servers))

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """End an update; `VllmControl.commit` names the weights."""
        self._post("finish_weight_update", [None] * len(self._servers))

    def _post(self, path: str, bodies: Sequence[dict[str, Any] | None]) -> None:
        asyncio.run_coroutine_threadsafe(self._send(path, bodies), self._loop).result()

    async def _send(self, path: str, bodies: Sequence[dict[str, Any] | None]) -> None:
        pairs = zip(self._servers, bodies, strict=True)
        await all_done([self._told(server.post(path, body)) for server, body in pairs])

    async def _told(self, call: Awaitable[object]) -> None:
        """Report a failure immediately: the other servers may hang until they time out."""
        try:
            await call
        except EngineDown as error:
            if not self.failure.done():
                self.failure.set_exception(error)
            raise


async def worker_counts(servers: Sequence[VllmControl]) -> list[int]:
    """Number of workers of every server.

    Raises:
        EngineDown: A server does not report it.
    """
    return await all_done([server.world_size() for server in servers])


def in_thread(function: Callable[[], None]) -> "asyncio.Future[None]":
    """Run a function in a thread that does not keep the process alive if it hangs."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            function()
        except BaseException as caught:
            error = caught
        with suppress(RuntimeError):  # the loop was closed, so nothing waits for this
            loop.call_soon_threadsafe(settle, error)

    threading.Thread(target=run, name="nccl transfer", daemon=True).start()
    return future
