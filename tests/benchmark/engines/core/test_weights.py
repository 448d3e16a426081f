"""Layouts of weights, and weight updates of the transformers engine."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from benchmark.engines.core.base import Sampling
from benchmark.engines.core.metered import MeteredEngine
from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.engines.core.weights import WeightLayout, layout_of, read_layout, write_weights
from benchmark.engines.transformers.engine import TransformersEngine
from tasks.errors import UserError
from tests.benchmark.engines.server.weight_updates import (
    TINY_SOKOBAN,
    Trainee,
    answer_ids,
    random_prompt,
    sokoban_responses,
)
from tests.support.engines.tiny_model import ask, make_tiny_model

LAYOUT = WeightLayout({"a": (2,), "b": (2, 3), "head": (2, 3)}, {"head": "b"})
in_module_loop = pytest.mark.asyncio(loop_scope="module")


def tensors(**changes: torch.Tensor | None) -> dict[str, torch.Tensor]:
    found = {"a": torch.zeros(2), "b": torch.ones(2, 3), **changes}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def test_one_of_two_tied_names_is_enough() -> None:
    complete = LAYOUT.complete(tensors().items())
    assert list(complete) == ["a", "b", "head"]
    assert complete["head"] is complete["b"]
    other = LAYOUT.complete(tensors(b=None, head=torch.full((2, 3), 5.0)).items())
    assert other["b"][1, 2].item() == 5.0
    same = LAYOUT.complete(tensors(head=torch.ones(2, 3)).items())
    assert torch.equal(same["head"], same["b"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"a": None}, r"lack 1 of the model's 3 tensors \(a\)"),
        ({"b": None}, r"lack 2 of the model's 3 tensors \(b, \.\.\.\)"),
        ({"c": torch.zeros(1)}, "have c, which the model does not have"),
        ({"a": torch.zeros(3)}, r"have a with shape \(3,\); the model has \(2,\)"),
        ({"head": torch.zeros(2, 3)}, "head and b are one tensor in this model"),
    ],
)
def test_weights_of_another_model(changes: dict[str, torch.Tensor | None], message: str) -> None:
    with pytest.raises(UserError, match=message):
        LAYOUT.complete(tensors(**changes).items())


def test_a_name_given_twice() -> None:
    with pytest.raises(UserError, match="have a twice"):
        LAYOUT.complete([*tensors().items(), ("a", torch.zeros(2))])


@given(st.permutations(["a", "b", "head"]))
def test_the_order_of_names_does_not_matter(order: list[str]) -> None:
    given_tensors = tensors(head=torch.ones(2, 3))
    complete = LAYOUT.complete([(name, given_tensors[name]) for name in order])
    assert list(complete) == ["a", "b", "head"]
    for name in ("a", "b"):
        assert complete[name].data_ptr() == given_tensors[name].data_ptr()


def test_the_layout_of_a_folder_is_that_of_its_model() -> None:
    layout = read_layout(TINY_SOKOBAN)
    assert layout == layout_of(AutoModelForCausalLM.from_pretrained(TINY_SOKOBAN))
    assert layout.tied == {"lm_head.weight": "model.embed_tokens.weight"}
    assert layout.shapes["lm_head.weight"] == (854, 96)
    stored = load_file(TINY_SOKOBAN / "model.safetensors")
    assert {*layout.shapes} - {*layout.tied} == {*stored}


def test_a_folder_of_no_model(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "nothing"}', "utf-8")
    with pytest.raises(UserError, match="cannot be built") as caught:
        read_layout(tmp_path)
    assert "\n" not in str(caught.value)


def test_files_hold_every_name(tmp_path: Path) -> None:
    flat = torch.arange(12.0)
    weights = {"a": flat[:2], "b": flat[2:8].view(2, 3), "head": flat[2:8].view(2, 3), "t": flat}
    weights["t"] = flat[8:].view(2, 2).T
    write_weights(tmp_path, weights)
    stored = load_file(tmp_path / "model.safetensors")
    assert {name: tensor.tolist() for name, tensor in stored.items()} == {
        "a": [0, 1],
        "b": [[2, 3, 4], [5, 6, 7]],
        "head": [[2, 3, 4], [5, 6, 7]],
        "t": [[8, 10], [9, 11]],
    }
    assert (tmp_path / "model.safetensors").stat().st_size < 1000  # no view shares its whole base


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be written to .*gone") as caught:
        write_weights(tmp_path / "gone", tensors())
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny", context=1024)


@pytest_asyncio.fixture(loop_scope="module")
async def engine(folder: Path) -> AsyncIterator[TransformersEngine]:
    async with TransformersEngine(folder, max_batch=16) as started:
        yield started


@in_module_loop
async def test_responses_are_those_of_the_new_weights(
    engine: TransformersEngine, folder: Path
) -> None:
    trainee, sampling = Trainee.load(folder), Sampling(max_tokens=12)
    prompt = random_prompt(600)
    before = await answer_ids(engine, prompt, sampling)
    assert trainee.gap(before) < 1e-5
    trainee.perturb()
    assert trainee.gap(before) > 0.1
    await trainee.hand_over(engine)
    after = await answer_ids(engine, prompt, sampling)
    assert trainee.gap(after) < 1e-5
    assert (before.weights_versions, after.weights_versions) == ((0, 0), (1, 1))


@pytest.mark.slow
@in_module_loop
async def test_responses_under_way_go_on_under_the_new_weights(
    engine: TransformersEngine, folder: Path
) -> None:
    trainee = Trainee.load(folder)
    long = Sampling(temperature=2.0, max_tokens=300)
    running = [asyncio.create_task(engine.generate(ask("Go.", long, s))) for s in range(20)]
    while engine._decoder is None or not any(row.response for row in engine._decoder.rows):
        await asyncio.sleep(0.002)
    old = trainee.model.state_dict()["model.norm.weight"].clone()
    trainee.perturb()
    await trainee.hand_over(engine)
    assert not torch.equal(old, trainee.model.state_dict()["model.norm.weight"])
    late = await engine.generate(ask("Go.", Sampling(temperature=2.0, max_tokens=5), 99))
    assert late.weights_versions == (1, 1)
    assert trainee.gap(late) < 1e-5
    versions = [one.weights_versions for one in await asyncio.gather(*running)]
    # On a busy machine, some responses have already ended, each making its slot available.
    ended = versions[:16].count((0, 0))
    assert ended <= 8 and versions[:16].count((0, 1)) == 16 - ended
    assert versions[16:].count((1, 1)) >= 4 - ended  # had to wait for a slot


@in_module_loop
async def test_weights_that_do_not_fit_change_nothing(
    engine: TransformersEngine, folder: Path
) -> None:
    trainee = Trainee.load(folder)
    trainee.perturb()
    short = list(trainee.model.state_dict().items())[:-3]
    with pytest.raises(UserError, match="lack 2 of the model's 36 tensors"):
        await engine.load_weights(short, 5)
    for version in (-1, True, 1.0):
        with pytest.raises(UserError, match="integer of at least 0"):
            await engine.load_weights(trainee.model.state_dict().items(), version)  # type: ignore[arg-type]
    found = await answer_ids(engine, random_prompt(40), Sampling(max_tokens=8))
    assert found.weights_versions == (0, 0)
    assert Trainee.load(folder).gap(found) < 1e-5


@in_module_loop
async def test_a_meter_passes_weights_and_versions_on(
    engine: TransformersEngine, folder: Path
) -> None:
    meter, trainee = MeteredEngine(engine), Trainee.load(folder)
    trainee.version = 6
    trainee.perturb()
    await trainee.hand_over(meter)
    found = await answer_ids(meter, random_prompt(40), Sampling(max_tokens=8))
    assert found.weights_versions == (7, 7)
    assert trainee.gap(found) < 1e-5


async def test_other_precision_is_rounded(folder: Path) -> None:
    trainee = Trainee.load(folder)
    trainee.perturb()
    async with TransformersEngine(folder, dtype="bfloat16") as engine:
        await trainee.hand_over(engine)
        found = await answer_ids(engine, random_prompt(40), Sampling(max_tokens=4))
    assert 1e-6 < trainee.gap(found) < 0.1


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
async def test_prompts_that_share_a_beginning_are_answered_in_half_precision(dtype: str) -> None:
    async with TransformersEngine(TINY_SOKOBAN, dtype=dtype) as engine:
        responses = await sokoban_responses(engine, 8)
    assert len(responses) == 8
    assert all(one.response_ids for one in responses)


async def test_engines_without_weights() -> None:
    with pytest.raises(UserError, match="the weights of the expert engine cannot be replaced"):
        await ScriptedEngine("expert").load_weights([], 1)


@pytest.mark.slow
async def test_a_trainer_sees_the_engines_log_probs() -> None:
    """Three updates, whose k3 between engine and model stays far below the effect of an update."""
    trainee = Trainee.load(TINY_SOKOBAN)
    async with TransformersEngine(TINY_SOKOBAN) as engine:
        for _ in range(4):
            responses = await sokoban_responses(engine, 32)
            assert trainee.mean_k3(responses) < 1e-6
            assert {one.weights_versions for one in responses} == {(trainee.version,) * 2}
            trainee.perturb(0.1)
            assert trainee.mean_k3(responses) > 1e-4
            await trainee.hand_over(engine)
