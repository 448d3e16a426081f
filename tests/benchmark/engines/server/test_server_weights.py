"""Weight updates of real vLLM servers."""

import asyncio
import json
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmark.engines.core.base import EngineDown, Sampling
from benchmark.engines.server.nccl_transfer import FanOut, NcclTransfer, worker_counts
from benchmark.engines.server.openai import OpenAIEngine
from benchmark.engines.server.weight_transfer import FolderTransfer
from tests.benchmark.engines.server.weight_updates import (
    Trainee,
    answer_ids,
    random_prompt,
)
from tests.support.engines.servers import EAGER, VllmServer, vllm_server
from tests.support.engines.tiny_model import answer_all, ask, make_tiny_model, mixed_prompts

# A server takes minutes to start on a busy machine.
pytestmark = [pytest.mark.vllm, pytest.mark.slow, pytest.mark.timeout(900)]

LONG = random_prompt(700)
ARGUMENTS = (*EAGER, "--weight-transfer-config", json.dumps({"backend": "nccl"}))
DEV_MODE = {"VLLM_SERVER_DEV_MODE": "1"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny", context=2048)


@pytest.fixture(scope="module")
def servers(folder: Path) -> Iterator[list[VllmServer]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(vllm_server(folder, arguments=ARGUMENTS, environment=DEV_MODE))
            for _ in range(2)
        ]


@pytest.fixture(scope="module")
def trainee(folder: Path) -> Trainee:
    """The model with the servers' weights; every test keeps them in sync."""
    return Trainee.load(folder)


def engine_of(servers: list[VllmServer], folder: Path, exchange: Path) -> OpenAIEngine:
    transfer = FolderTransfer(folder, exchange)
    urls = [server.url for server in servers]
    return OpenAIEngine(urls, "tiny", retries=1, patience=2.0, transfer=transfer)


def get(server: VllmServer, path: str) -> Any:
    with urllib.request.urlopen(f"{server.url}/{path}", timeout=30) as reply:
        return json.load(reply)


def files(folder: Path) -> list[Path]:
    return list(folder.rglob("*"))


async def test_every_server_gets_the_weights(
    servers: list[VllmServer], folder: Path, trainee: Trainee, tmp_path: Path
) -> None:
    sampling = Sampling(max_tokens=12)
    async with engine_of(servers, folder, tmp_path) as engine:
        for _ in range(2):
            single = [engine_of([server], folder, tmp_path) for server in servers]
            for server, one in zip(servers, single, strict=True):
                async with one:  # fills the prefix caches of both
                    one._weights._refusal = None
                    assert trainee.gap(await answer_ids(one, LONG, sampling)) < 1e-5
                assert get(server, "is_paused") == {"is_paused": False}
            trainee.perturb()
            await trainee.hand_over(engine)
            assert files(tmp_path) == []
            for server in servers:
                assert get(server, "weight_info") == {"weight_version": str(trainee.version)}
            responses = await answer_all(engine, mixed_prompts(16, seed=2), sampling)
            responses += [await answer_ids(engine, LONG, sampling) for _ in range(4)]
            assert max(map(trainee.gap, responses)) < 1e-5
            assert {one.weights_versions for one in responses} == {(trainee.version,) * 2}
    async with OpenAIEngine([servers[1].url], "tiny") as other:  # without salt: caches are empty
        assert trainee.gap(await answer_ids(other, LONG, sampling)) < 1e-5


async def test_requests_under_way_go_on_and_new_ones_do_not_see_their_cache(
    servers: list[VllmServer], folder: Path, trainee: Trainee, tmp_path: Path
) -> None:
    async with engine_of(servers[:1], folder, tmp_path) as engine:
        await trainee.hand_over(engine)
        # Longer than a weight update takes.
        endless = Sampling(temperature=2.0, max_tokens=1300)
        running = [asyncio.create_task(answer_ids(engine, LONG, endless, s)) for s in range(4)]
        await answer_ids(engine, LONG, Sampling(max_tokens=2))
        trainee.perturb()
        await trainee.hand_over(engine)
        late = await answer_ids(engine, LONG, Sampling(max_tokens=12))
        assert sum(not task.done() for task in running) >= 3
        assert trainee.gap(late) < 1e-5
        assert late.weights_versions == (trainee.version,) * 2
        versions = [one.weights_versions for one in await asyncio.gather(*running)]
        assert versions.count((trainee.version - 1, trainee.version)) >= 3
    async with engine_of(servers, folder, tmp_path) as engine:
        await trainee.hand_over(engine)  # both are identical again


async def test_a_file_that_the_server_cannot_read(
    servers: list[VllmServer], folder: Path, trainee: Trainee, tmp_path: Path
) -> None:
    class Elsewhere(FolderTransfer):
        """Deletes the file before the servers read it, as if they did not share the folder."""

        async def prepare(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
            await super().prepare(weights, version)
            await self.clear(version)

    elsewhere, here = Elsewhere(folder, tmp_path), FolderTransfer(folder, tmp_path)
    async with OpenAIEngine([servers[0].url], "tiny", retries=0, transfer=elsewhere) as engine:
        with pytest.raises(EngineDown, match=r"failed while .* \(POST /collective_rpc: HTTP 500"):
            await trainee.hand_over(engine)
        with pytest.raises(EngineDown, match="failed while its weights were being replaced"):
            await engine.generate(ask("up", Sampling(max_tokens=2)))
        assert get(servers[0], "is_paused") == {"is_paused": False}
        engine._weights._transfer = here
        await trainee.hand_over(engine)
        assert trainee.gap(await answer_ids(engine, LONG, Sampling(max_tokens=4))) < 1e-5


async def test_vllms_nccl_routes_answer_the_fan_out(
    servers: list[VllmServer], folder: Path
) -> None:
    """NCCL itself needs GPUs; this tests the exchange until the servers would join a group."""
    transfer = NcclTransfer(folder, "127.0.0.1", 1)
    urls = [server.url for server in servers]
    async with OpenAIEngine(urls, "tiny", transfer=transfer) as engine:
        controls = engine._controls()
        assert await worker_counts(controls) == [1, 1]
        client = FanOut(controls, [1, 1])
        await asyncio.to_thread(client.start_weight_update)
        await asyncio.to_thread(client.finish_weight_update)
        with pytest.raises(EngineDown, match="POST /update_weights: HTTP 500"):
            await asyncio.to_thread(client.update_weights, {})
        assert isinstance(client.failure.exception(), EngineDown)


async def test_a_server_that_dies_stops_the_update_and_frees_the_others(
    servers: list[VllmServer], folder: Path, trainee: Trainee, tmp_path: Path
) -> None:
    async with engine_of(servers, folder, tmp_path) as engine:
        await trainee.hand_over(engine)
        servers[1].kill()
        with pytest.raises(EngineDown, match=f"^{servers[1].url}.* failed while its weights"):
            await trainee.hand_over(engine)
        assert get(servers[0], "is_paused") == {"is_paused": False}
        with pytest.raises(EngineDown, match="failed while its weights"):
            await engine.generate(ask("up", Sampling(max_tokens=2)))
    assert files(tmp_path) == []
