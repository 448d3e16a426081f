"""Weight updates of in-process vLLM, compared with transformers with the same weights."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio

from benchmark.engines.choose import has_gpu
from benchmark.engines.core.base import EngineError, Sampling
from benchmark.engines.vllm.build import build_engine
from benchmark.engines.vllm.engine import VllmEngine
from tasks.errors import UserError
from tests.benchmark.engines.server.weight_updates import (
    TINY_SOKOBAN,
    Trainee,
    answer_ids,
    random_prompt,
    sokoban_responses,
)
from tests.support.engines.tiny_model import ask, make_tiny_model

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed"),
]
in_module_loop = pytest.mark.asyncio(loop_scope="module")

LONG = random_prompt(700)
"""More than 500 tokens: vLLM caches whole blocks, which a short prompt does not fill."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny", context=1024)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(folder: Path) -> AsyncIterator[VllmEngine]:
    async with VllmEngine(folder) as started:
        yield started


@pytest.fixture(scope="module")
def trainee(folder: Path) -> Trainee:
    """The model with the engine's weights; every test keeps them in sync."""
    return Trainee.load(folder)


@in_module_loop
@pytest.mark.parametrize("without_tied", [False, True])
async def test_a_long_prompt_meets_nothing_of_the_old_weights(
    engine: VllmEngine, trainee: Trainee, without_tied: bool
) -> None:
    sampling = Sampling(max_tokens=12)
    before = await answer_ids(engine, LONG, sampling)  # fills the prefix cache
    assert trainee.gap(before) < 1e-5
    trainee.perturb()
    assert trainee.gap(before) > 0.1
    weights = dict(trainee.model.state_dict())
    if without_tied:
        del weights["lm_head.weight"]
    await engine.load_weights(weights.items(), trainee.version)
    after = await answer_ids(engine, LONG, sampling)
    assert trainee.gap(after) < 1e-5
    versions = trainee.version - 1, trainee.version
    assert before.weights_versions == (versions[0],) * 2
    assert after.weights_versions == (versions[1],) * 2


@in_module_loop
async def test_an_engine_sleeps_until_new_weights(
    engine: VllmEngine, trainee: Trainee, monkeypatch: pytest.MonkeyPatch
) -> None:
    # vLLM frees nothing on a CPU, but its scheduler and the order of the calls are the same.
    monkeypatch.setattr(engine, "_sleeps", True)
    await engine.sleep()
    assert engine._llm.is_sleeping()
    with pytest.raises(EngineError, match="sleeps until it gets new weights"):
        await answer_ids(engine, LONG, Sampling(max_tokens=2))
    await engine.sleep()
    trainee.perturb()
    await trainee.hand_over(engine)
    assert not engine._llm.is_sleeping()
    assert trainee.gap(await answer_ids(engine, LONG, Sampling(max_tokens=12))) < 1e-5


@pytest.mark.skipif(has_gpu(), reason="this is what vLLM says without a GPU")
def test_sleep_mode_is_an_argument_of_vllm_and_needs_a_gpu(folder: Path) -> None:
    with pytest.raises(UserError, match="Sleep mode is not supported on current platform"):
        build_engine(folder, "float32", False, {"enable_sleep_mode": True})


@in_module_loop
async def test_requests_under_way_go_on_and_new_ones_do_not_see_their_cache(
    engine: VllmEngine, trainee: Trainee
) -> None:
    endless = Sampling(temperature=2.0, max_tokens=300)
    running = [asyncio.create_task(answer_ids(engine, LONG, endless, s)) for s in range(4)]
    await answer_ids(engine, LONG, Sampling(max_tokens=2))
    assert len(engine._running) >= 3  # which prevents a reset of the cache
    trainee.perturb()
    await trainee.hand_over(engine)
    late = await answer_ids(engine, LONG, Sampling(max_tokens=12))
    assert trainee.gap(late) < 1e-5
    assert late.weights_versions == (trainee.version,) * 2
    assert sum(not task.done() for task in running) >= 3
    versions = [one.weights_versions for one in await asyncio.gather(*running)]
    assert versions.count((trainee.version - 1, trainee.version)) >= 3


@in_module_loop
async def test_weights_wait_for_requests_where_vllm_schedules_asynchronously(
    engine: VllmEngine, trainee: Trainee, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The default on CUDA; on CPUs vLLM turns it off.
    scheduler = engine._llm.vllm_config.scheduler_config
    monkeypatch.setattr(scheduler, "async_scheduling", True)
    task = asyncio.create_task(engine.generate(ask("Go on.", Sampling(max_tokens=300))))
    while not engine._running:
        await asyncio.sleep(0.002)
    trainee.perturb()
    with pytest.raises(UserError, match="tokens in flight would be labeled with the new weights"):
        await trainee.hand_over(engine)
    assert (await task).weights_versions == (trainee.version - 1,) * 2
    await trainee.hand_over(engine)


@in_module_loop
async def test_weights_that_do_not_fit_change_nothing(engine: VllmEngine, trainee: Trainee) -> None:
    weights = list(trainee.model.state_dict().items())
    with pytest.raises(UserError, match="have more, which the model does not have"):
        await engine.load_weights([*weights, ("more", weights[0][1])], 77)
    with pytest.raises(UserError, match="lack 2 of the model's 36 tensors"):
        await engine.load_weights(weights[:-3], 77)
    found = await answer_ids(engine, LONG, Sampling(max_tokens=4))
    assert found.weights_versions == (trainee.version,) * 2
    assert trainee.gap(found) < 1e-5


@in_module_loop
async def test_a_cancelled_request_does_not_hinder_an_update(
    engine: VllmEngine, trainee: Trainee
) -> None:
    endless = Sampling(temperature=2.0, max_tokens=600)
    task = asyncio.create_task(engine.generate(ask("Go on.", endless)))
    while not engine._running:
        await asyncio.sleep(0.002)
    task.cancel()
    trainee.perturb()
    await trainee.hand_over(engine)
    assert not engine._running
    assert trainee.gap(await answer_ids(engine, LONG, Sampling(max_tokens=4))) < 1e-5


@in_module_loop
async def test_a_trainer_sees_the_engines_log_probs() -> None:
    """Three updates, whose k3 between engine and model stays far below the effect of an update."""
    trainee = Trainee.load(TINY_SOKOBAN)
    async with VllmEngine(TINY_SOKOBAN) as engine:
        for _ in range(4):
            responses = await sokoban_responses(engine, 32)
            assert trainee.mean_k3(responses) < 1e-6  # far below the limit of 1e-4
            assert {one.weights_versions for one in responses} == {(trainee.version,) * 2}
            trainee.perturb(0.05)
            assert trainee.mean_k3(responses) > 1e-4
            await trainee.hand_over(engine)


def left_over(folder: Path) -> list[Path]:
    return list(folder.glob("arlarena-weights-*"))


@pytest.mark.slow
async def test_workers_of_another_process_read_a_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    # A socket's address has at most 107 characters.
    monkeypatch.setenv("VLLM_RPC_BASE_PATH", tempfile.gettempdir())
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    trainee = Trainee.load(folder)
    async with VllmEngine(folder) as engine:
        assert trainee.gap(await answer_ids(engine, LONG, Sampling(max_tokens=4))) < 1e-5
        for _ in range(2):
            trainee.perturb()
            await trainee.hand_over(engine)
            found = await answer_ids(engine, LONG, Sampling(max_tokens=12))
            assert trainee.gap(found) < 1e-5
            assert found.weights_versions == (trainee.version,) * 2
    assert not left_over(tmp_path)
