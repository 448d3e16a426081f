"""Commands to servers for a weight update, and what happens if one does not follow.

`test_server_weights.py` tests the same with real servers.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from aiohttp import web
from safetensors.torch import load_file

from benchmark.engines.core.base import EngineDown, Sampling
from benchmark.engines.server.exchange import RetryableError
from benchmark.engines.server.nccl_transfer import FanOut, NcclTransfer, worker_counts
from benchmark.engines.server.openai import OpenAIEngine
from benchmark.engines.server.weight_transfer import FolderTransfer
from tasks.errors import UserError
from tests.benchmark.engines.server.weight_updates import TINY_SOKOBAN, Trainee
from tests.support.engines.loopback import Loopback, loopback, says
from tests.support.engines.tiny_model import ask


@dataclass
class Updatable:
    """Implements vLLM's weight update routes in front of a `Loopback` that acts as vLLM otherwise.

    Attributes:
        server: Its port is used as the address.
        workers: Response to `/get_world_size`.
        commands: The routes called, in order, with their bodies.
        weights: Tensors of the file that the server was told to load.
        weight_version: Version of the weights.
        refuses: Routes that return an error.
        hangs: Routes that never return.
    """

    server: Loopback
    workers: int = 1
    commands: list[tuple[str, Any]] = field(default_factory=list)
    weights: dict[str, torch.Tensor] = field(default_factory=dict)
    weight_version: str = "default"
    refuses: set[str] = field(default_factory=set)
    hangs: set[str] = field(default_factory=set)

    @property
    def url(self) -> str:
        return self.server.url

    @property
    def routes(self) -> list[str]:
        return [route for route, _ in self.commands]

    def add_to(self, app: web.Application) -> None:
        app.router.add_get("/weight_info", self._info)
        app.router.add_get("/get_world_size", self._size)
        for route in (
            *("pause", "resume", "collective_rpc", "update_weight_version", "reset_prefix_cache"),
            *("init_weight_transfer_engine", "start_weight_update", "update_weights"),
            "finish_weight_update",
        ):
            app.router.add_post(f"/{route}", self._command)

    async def _info(self, request: web.Request) -> web.Response:
        return web.json_response({"weight_version": self.weight_version})

    async def _size(self, request: web.Request) -> web.Response:
        return web.json_response({"world_size": self.workers})

    async def _command(self, request: web.Request) -> web.Response:
        route = request.path.lstrip("/")
        body: Any = await request.json() if request.can_read_body else dict(request.query)
        self.commands.append((route, body))
        if route in self.hangs:
            await asyncio.Event().wait()
        if route in self.refuses:
            raise web.HTTPInternalServerError(text='{"error": {"message": "out of order"}}')
        if route == "collective_rpc":
            path = Path(body["kwargs"]["weights_path"])
            self.weights = await asyncio.to_thread(load_file, path / "model.safetensors")
        if route == "update_weight_version":
            self.weight_version = body["new_version"]
        return web.json_response({"success": True})


@asynccontextmanager
async def updatable(**settings: Any) -> AsyncIterator[Updatable]:
    """Run a server until the block ends."""
    found = Updatable(Loopback(), **settings)
    made: list[web.Application] = []
    original = web.AppRunner

    def runner(app: web.Application, **options: Any) -> web.AppRunner:
        found.add_to(app)
        made.append(app)
        return original(app, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.engines.loopback.web.AppRunner", runner)
        await found.server.start()
    assert made
    try:
        yield found
    finally:
        await found.server.stop()


def engine_of(*servers: Updatable | Loopback, folder: Path, **settings: Any) -> OpenAIEngine:
    chosen = {"retries": 0, "patience": 0.3, "connect_timeout": 2.0, **settings}
    transfer = FolderTransfer(TINY_SOKOBAN, folder)
    return OpenAIEngine([one.url for one in servers], "tiny", transfer=transfer, **chosen)


def files(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


@pytest.fixture
def trainee() -> Trainee:
    found = Trainee.load(TINY_SOKOBAN)
    found.perturb()
    return found


UPDATE = ["pause", "collective_rpc", "update_weight_version", "reset_prefix_cache", "resume"]


async def test_an_update_is_complete_before_anything_is_answered(
    trainee: Trainee, tmp_path: Path
) -> None:
    async with updatable() as one, updatable() as two:
        async with engine_of(one, two, folder=tmp_path / "exchange") as engine:
            first = await engine.generate(ask("up", Sampling()))
            await trainee.hand_over(engine)
            second = await engine.generate(ask("up", Sampling()))
        for server in (one, two):
            assert server.routes == UPDATE
            assert server.commands[0] == ("pause", {"mode": "keep"})
            assert server.commands[2] == ("update_weight_version", {"new_version": "1"})
            expected = trainee.model.state_dict()
            assert {*server.weights} == {*expected}
            assert all(torch.equal(server.weights[name], expected[name]) for name in expected)
        old, new = one.server.requests + two.server.requests
        assert "cache_salt" not in old
        assert new["cache_salt"] == "weights-1"
    assert (first.weights_versions, second.weights_versions) == ((0, 0), (1, 1))
    assert files(tmp_path / "exchange") == []


async def test_an_answer_tells_the_versions_at_both_its_ends(
    trainee: Trainee, tmp_path: Path
) -> None:
    gate = asyncio.Event()

    async def waits(request: web.Request) -> web.StreamResponse:
        await gate.wait()
        return await says()(request)

    async with updatable() as server, engine_of(server, folder=tmp_path) as engine:
        server.server.script = [waits]
        task = asyncio.create_task(engine.generate(ask("up", Sampling())))
        while not server.server.open:
            await asyncio.sleep(0.005)
        trainee.version = 4
        await trainee.hand_over(engine)
        gate.set()
        assert (await task).weights_versions == (0, 4)


async def test_a_server_that_refuses_stops_the_engine_until_all_agree(
    trainee: Trainee, tmp_path: Path
) -> None:
    async with (
        updatable() as good,
        updatable(refuses={"collective_rpc"}) as bad,
        engine_of(good, bad, folder=tmp_path) as engine,
    ):
        message = f"{bad.url}.* failed .* /collective_rpc: HTTP 500: out of order"
        with pytest.raises(EngineDown, match=message):
            await trainee.hand_over(engine)
        with pytest.raises(EngineDown, match=message):
            await engine.generate(ask("up", Sampling()))
        assert good.routes == bad.routes == ["pause", "collective_rpc", "resume"]
        assert files(tmp_path) == []
        bad.refuses.clear()
        await trainee.hand_over(engine)
        found = await engine.generate(ask("up", Sampling()))
        assert found.weights_versions == (1, 1)
        assert good.weight_version == bad.weight_version == "1"


async def test_a_server_that_does_not_stop_gets_no_weights(
    trainee: Trainee, tmp_path: Path
) -> None:
    async with (
        updatable() as good,
        updatable(refuses={"pause"}) as bad,
        engine_of(good, bad, folder=tmp_path) as engine,
    ):
        with pytest.raises(EngineDown, match=f"{bad.url}.* failed .*/pause"):
            await trainee.hand_over(engine)
        assert good.routes == bad.routes == ["pause", "resume"]
        assert files(tmp_path) == []


async def test_a_server_that_comes_back_without_the_weights_gets_no_requests(
    trainee: Trainee, tmp_path: Path
) -> None:
    async with updatable() as server, engine_of(server, folder=tmp_path) as engine:
        await trainee.hand_over(engine)
        endpoint = engine._pool.endpoints[0]
        await engine._probe(endpoint)
        server.weight_version = "default"  # as after a restart
        with pytest.raises(RetryableError, match=r"came back with different weights \('default'\)"):
            await engine._probe(endpoint)


async def test_servers_that_hold_weights_of_another_training(
    trainee: Trainee, tmp_path: Path
) -> None:
    async with (
        updatable(weight_version="37") as server,
        engine_of(server, folder=tmp_path) as engine,
    ):
        with pytest.raises(UserError, match="holds the weights '37' of another training"):
            await engine.generate(ask("up", Sampling()))
        await trainee.hand_over(engine)
        assert (await engine.generate(ask("up", Sampling()))).weights_versions == (1, 1)


async def test_weights_that_do_not_fit_reach_no_server(trainee: Trainee, tmp_path: Path) -> None:
    async with updatable() as server, engine_of(server, folder=tmp_path / "e") as engine:
        weights = list(trainee.model.state_dict().items())
        with pytest.raises(UserError, match=r"lack 1 of the model's 36 tensors"):
            await engine.load_weights(weights[:10] + weights[11:], 1)
        with pytest.raises(UserError, match="integer"):
            await engine.load_weights(weights, -1)
        (tmp_path / "e").write_text("a file where the folder should be", "utf-8")
        with pytest.raises(UserError, match="cannot be written to .*weights-1") as caught:
            await engine.load_weights(weights, 1)
        assert "\n" not in str(caught.value)
        assert server.commands == []
        assert (await engine.generate(ask("up", Sampling()))).weights_versions == (0, 0)


async def test_servers_that_take_no_weights(trainee: Trainee, tmp_path: Path) -> None:
    async with loopback() as server:  # vLLM without its development mode
        with pytest.raises(
            UserError, match=r"does not accept new weights .*VLLM_SERVER_DEV_MODE=1"
        ):
            await engine_of(server, folder=tmp_path).__aenter__()
        async with OpenAIEngine([server.url], "tiny") as engine:
            with pytest.raises(UserError, match="no weight transfer is set up"):
                await trainee.hand_over(engine)
    async with loopback(vllm=False) as server:
        with pytest.raises(UserError, match="only vLLM servers accept new weights"):
            await engine_of(server, folder=tmp_path).__aenter__()


async def test_every_worker_has_its_rank_in_the_nccl_group() -> None:
    async with updatable(workers=2) as one, updatable(workers=3) as two:
        transfer = NcclTransfer(TINY_SOKOBAN, "trainer", 29_500)
        urls = [one.url, two.url]
        async with OpenAIEngine(urls, "tiny", transfer=transfer) as engine:
            controls = engine._controls()
            client = FanOut(controls, await worker_counts(controls))
            assert client.workers == (2, 3)
            info = {"master_address": "trainer", "rank_offset": 1, "world_size": 6}
            await asyncio.to_thread(client.init_weight_transfer_engine, info)
            await asyncio.to_thread(client.start_weight_update)
            await asyncio.to_thread(client.update_weights, {"names": ["a"]})
            await asyncio.to_thread(client.finish_weight_update)
        for server, offset in ((one, 1), (two, 3)):
            assert server.commands == [
                ("init_weight_transfer_engine", {"init_info": {**info, "rank_offset": offset}}),
                ("start_weight_update", {}),
                ("update_weights", {"update_info": {"names": ["a"]}}),
                ("finish_weight_update", {}),
            ]


def test_vllm_in_the_trainer_writes_no_notes_unless_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The previous state is restored.
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    NcclTransfer(TINY_SOKOBAN, "127.0.0.1", 29_500)
    assert os.environ["VLLM_LOGGING_LEVEL"] == "DEBUG"
    monkeypatch.delenv("VLLM_LOGGING_LEVEL")
    NcclTransfer(TINY_SOKOBAN, "127.0.0.1", 29_500)
    assert os.environ["VLLM_LOGGING_LEVEL"] == "ERROR"


async def test_nccl_wants_weights_on_a_gpu(trainee: Trainee) -> None:
    async with updatable() as server:
        transfer = NcclTransfer(TINY_SOKOBAN, "127.0.0.1", 29_500)
        async with OpenAIEngine([server.url], "tiny", transfer=transfer) as engine:
            with pytest.raises(UserError, match="on one GPU, but these are on cpu"):
                await trainee.hand_over(engine)
        assert server.commands == []


async def test_a_broadcast_ends_with_its_first_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a worker fails, the broadcast hangs, but the update still ends."""
    async with updatable(refuses={"update_weights"}) as server:
        transfer = NcclTransfer(TINY_SOKOBAN, "127.0.0.1", 29_500)
        async with OpenAIEngine([server.url], "tiny", transfer=transfer) as engine:
            hangs = threading.Event()

            def broadcast(client: FanOut) -> None:
                with pytest.raises(EngineDown):
                    client.update_weights({})
                hangs.wait()

            monkeypatch.setattr(transfer, "_broadcast", broadcast)
            weights = {"model.norm.weight": torch.zeros(96)}
            with pytest.raises(EngineDown, match="/update_weights: HTTP 500: out of order"):
                await asyncio.wait_for(transfer.send(engine._controls(), weights, 1), 20)
            hangs.set()


async def test_a_failed_receiver_is_told_although_another_one_hangs() -> None:
    async with (
        updatable(refuses={"update_weights"}) as one,
        updatable(hangs={"update_weights"}) as other,
    ):
        transfer = NcclTransfer(TINY_SOKOBAN, "127.0.0.1", 29_500)
        async with OpenAIEngine([one.url, other.url], "tiny", transfer=transfer) as engine:
            client = FanOut(engine._controls(), [1, 1])
            sent = asyncio.create_task(client._send("update_weights", [{}, {}]))
            with pytest.raises(EngineDown, match=f"^{one.url}.*HTTP 500: out of order"):
                await asyncio.wait_for(client.failure, 20)
            assert not sent.done()
            sent.cancel()
