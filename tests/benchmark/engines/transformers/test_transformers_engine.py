"""The transformers engine with a real, tiny model, compared with transformers itself."""

import asyncio
import json
import shutil
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from benchmark.engines.core.base import EngineDown, Generation, PromptTooLong, Request, Sampling
from benchmark.engines.core.chat import Chat
from benchmark.engines.core.devices import cpu_name
from benchmark.engines.transformers.decoding import draw, uniforms
from benchmark.engines.transformers.engine import TransformersEngine
from tasks.errors import UserError
from tests.support.engines.steps import counted_steps
from tests.support.engines.tiny_model import (
    answer_all,
    ask,
    fill_with_nan,
    make_tiny_model,
    mixed_prompts,
)

CONTEXT = 512
# About one in three greedy responses contains one of these within 40 tokens.
STOPS = range(100, 104)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "tiny"
    return make_tiny_model(path, context=CONTEXT, extra_stop_ids=tuple(STOPS))


@pytest.fixture(scope="module")
def reference(folder: Path) -> PreTrainedModel:
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model


async def one_by_one(
    engine: TransformersEngine, prompts: list[str], sampling: Sampling
) -> list[Generation]:
    """Responses to all prompts, each with its number as the seed."""
    return [await engine.generate(ask(each, sampling, n)) for n, each in enumerate(prompts)]


def logits_of_the_first_difference(
    reference: PreTrainedModel, prompt: Sequence[int], one: Sequence[int], other: Sequence[int]
) -> tuple[int, torch.Tensor]:
    """First position where two responses differ, and the reference's logits there."""
    at = next(i for i, pair in enumerate(zip(one, other, strict=False)) if len(set(pair)) == 2)
    with torch.inference_mode():
        return at, reference(torch.tensor([[*prompt, *one[:at]]])).logits[0, -1]


def first_difference_is_a_tie(
    reference: PreTrainedModel, prompt: list[int], one: list[int], other: list[int]
) -> bool:
    """Whether two greedy responses diverge at a token where the reference has a tie within 1e-5."""
    at, logits = logits_of_the_first_difference(reference, prompt, one, other)
    return abs(float(logits[one[at]] - logits[other[at]])) < 1e-5


def rounding_decides(
    reference: PreTrainedModel, sampling: Sampling, seed: int, one: Generation, other: Generation
) -> bool:
    """Whether noise of 1e-5 in the reference's logits can explain two diverging samples."""
    ids, others = one.response_ids, other.response_ids
    assert one.prompt_ids is not None and ids is not None and others is not None
    at, logits = logits_of_the_first_difference(reference, one.prompt_ids, ids, others)
    noise = torch.randn(256, len(logits), generator=torch.Generator().manual_seed(0))
    number = uniforms(seed, sampling.max_tokens)[at]
    drawn = draw(logits + 1e-5 * noise, sampling, [number] * len(noise))
    return {ids[at], others[at]} <= set(drawn.tolist())


@pytest.mark.slow
async def test_greedy_equals_generate(folder: Path, reference: PreTrainedModel) -> None:
    prompts = mixed_prompts(8, seed=1)
    async with TransformersEngine(folder) as engine:
        found = await one_by_one(engine, prompts, Sampling(max_tokens=40))
    chat, ties = Chat.load(folder), 0
    for prompt, generation in zip(prompts, found, strict=True):
        ids = chat.render([{"role": "user", "content": prompt}])
        generated: torch.Tensor = reference.generate(  # type: ignore[operator]
            torch.tensor([ids]), do_sample=False, max_new_tokens=40
        )
        expected = generated[0, len(ids) :].tolist()
        assert generation.prompt_ids == tuple(ids)
        assert generation.response_ids is not None
        if list(generation.response_ids) != expected:
            found_ids = list(generation.response_ids)
            assert first_difference_is_a_tie(reference, ids, found_ids, expected)
            ties += 1
            continue
        assert generation.text == chat.decode(expected)
        assert generation.prompt_tokens == len(ids)
        assert generation.response_tokens == len(expected)
        assert generation.finish_reason == ("stop" if expected[-1] in chat.stop_ids else "length")
    assert ties <= 1
    assert {generation.finish_reason for generation in found} == {"stop", "length"}


@pytest.mark.slow
async def test_a_batch_of_mixed_lengths_equals_singles(folder: Path) -> None:
    prompts = mixed_prompts(64, seed=2)
    sampling = Sampling(max_tokens=24)
    async with TransformersEngine(folder, max_batch=1) as engine:
        singles = await answer_all(engine, prompts, sampling)
    async with TransformersEngine(folder, max_batch=64) as engine:
        batch = await answer_all(engine, prompts, sampling)
    async with TransformersEngine(folder, max_batch=7) as engine:
        sevens = await answer_all(engine, prompts, sampling)
    assert [g.response_ids for g in batch] == [g.response_ids for g in singles]
    assert [g.response_ids for g in sevens] == [g.response_ids for g in singles]
    assert len({g.response_ids for g in singles}) > 32


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.5])
async def test_log_probs_equal_a_teacher_forced_forward(
    folder: Path, reference: PreTrainedModel, temperature: float
) -> None:
    async with TransformersEngine(folder) as engine:
        sampling = Sampling(temperature=temperature, top_k=50, top_p=0.9, max_tokens=30)
        found = await answer_all(engine, mixed_prompts(24, seed=3), sampling)
    for generation in found:
        assert generation.prompt_ids is not None and generation.response_ids is not None
        ids = torch.tensor([[*generation.prompt_ids, *generation.response_ids]])
        with torch.inference_mode():
            logits = reference(ids).logits[0, len(generation.prompt_ids) - 1 : -1]
        chosen = torch.tensor(generation.response_ids)[:, None]
        expected = logits.log_softmax(-1).gather(-1, chosen).squeeze(-1)
        assert generation.token_log_probs == pytest.approx(expected.tolist(), abs=1e-4)
        assert generation.log_prob == pytest.approx(expected.sum().item(), abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0, max_tokens=24),
        Sampling(temperature=0.8, top_p=0.9, top_k=20, max_tokens=24),
    ],
)
async def test_a_draw_depends_on_its_seed_and_not_on_the_batch(
    folder: Path, reference: PreTrainedModel, sampling: Sampling
) -> None:
    prompts = mixed_prompts(32, seed=4)
    async with TransformersEngine(folder) as engine:
        singles = await one_by_one(engine, prompts, sampling)
        batch = await answer_all(engine, prompts, sampling)
        crowd, mixed = await asyncio.gather(
            answer_all(engine, prompts, Sampling(max_tokens=10)),
            answer_all(engine, prompts, sampling),
        )
        seeds = await asyncio.gather(
            *(engine.generate(ask(prompts[0], sampling, seed)) for seed in range(16))
        )
    for together in (batch, mixed):
        for seed, (alone, one) in enumerate(zip(singles, together, strict=True)):
            same = one.response_ids == alone.response_ids
            assert same or rounding_decides(reference, sampling, seed, alone, one)
    assert len({g.response_ids for g in seeds}) > 12
    assert all(g.response_tokens is not None and g.response_tokens <= 10 for g in crowd)


async def test_the_context_limits_responses_and_prompts(folder: Path) -> None:
    chat = Chat.load(folder)

    def prompt_of(tokens: int) -> str:
        empty = len(chat.render([{"role": "user", "content": ""}]))
        missing = tokens - empty
        text = "\u00e9" * (missing // 2) + "#" * (missing % 2)  # two bytes that never merge
        assert len(chat.render([{"role": "user", "content": text}])) == tokens
        return text

    sampling = Sampling(temperature=1.0, max_tokens=50)
    async with TransformersEngine(folder) as engine:
        for room in (1, 3):
            found = await engine.generate(ask(prompt_of(CONTEXT - room), sampling, seed=5))
            assert found.finish_reason == "length"
            assert found.response_tokens == room
        for tokens in (CONTEXT, CONTEXT + 40):
            with pytest.raises(PromptTooLong, match=f"has {tokens} tokens .* context {CONTEXT}"):
                await engine.generate(ask(prompt_of(tokens), sampling))
        assert (await engine.generate(ask("up", sampling))).response_tokens is not None


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_rendered_token_prompts_are_answered_like_messages(
    folder: Path, temperature: float
) -> None:
    chat, sampling = Chat.load(folder), Sampling(temperature=temperature, max_tokens=24)
    asked = [ask(text, sampling, seed) for seed, text in enumerate(mixed_prompts(12, seed=6))]
    as_tokens = [
        replace(request, prompt_ids=tuple(chat.render(request.messages))) for request in asked
    ]

    async def answers(requests: list[Request]) -> list[Generation]:
        # A separate engine, since prefixes shared with earlier prompts change the last digits.
        async with TransformersEngine(folder, max_batch=1) as engine:
            return [await engine.generate(request) for request in requests]

    by_tokens = await answers(as_tokens)
    assert by_tokens == await answers(asked)
    assert [found.prompt_ids for found in by_tokens] == [asked.prompt_ids for asked in as_tokens]
    assert len({found.response_ids for found in by_tokens}) > 6


async def test_the_token_prompt_counts_and_not_the_messages(
    folder: Path, reference: PreTrainedModel
) -> None:
    chat, sampling = Chat.load(folder), Sampling(max_tokens=24)
    # The same text as one word of the prompt, but with one token per character.
    ids = tuple(chat.tokenizer.convert_tokens_to_ids(list("push")))
    assert chat.tokenizer.decode(ids) == "push"
    assert chat.tokenizer("push", add_special_tokens=False)["input_ids"] != list(ids)
    async with TransformersEngine(folder) as engine:
        found = await engine.generate(replace(ask("Go up.", sampling), prompt_ids=ids))
        by_messages = await engine.generate(ask("Go up.", sampling))
        for tokens in (CONTEXT, CONTEXT + 1):
            with pytest.raises(PromptTooLong, match=f"has {tokens} tokens"):
                await engine.generate(replace(ask("up", sampling), prompt_ids=(70,) * tokens))
    generated: torch.Tensor = reference.generate(  # type: ignore[operator]
        torch.tensor([ids]), do_sample=False, max_new_tokens=24
    )
    assert (found.prompt_ids, found.prompt_tokens) == (ids, 4)
    assert found.response_ids == tuple(generated[0, 4:].tolist()) != by_messages.response_ids


async def test_requests_join_a_running_batch(folder: Path) -> None:
    async with TransformersEngine(folder, max_batch=4) as engine:
        ended: list[str] = []

        async def play(name: str, most: int, seed: int) -> None:
            found = await engine.generate(
                ask(name, Sampling(temperature=2.0, max_tokens=most), seed)
            )
            assert found.response_tokens is not None
            ended.append(name)

        # The six do not all fit in the first batch, and none waits for the long one.
        await asyncio.gather(play("Go on.", 400, 0), *(play("Short.", 3, n) for n in range(6)))
        assert ended == ["Short."] * 6 + ["Go on."]


async def test_a_cancelled_request_gives_its_place_up(folder: Path) -> None:
    async with TransformersEngine(folder, max_batch=1) as engine:
        sampling = Sampling(temperature=2.0, max_tokens=450)
        steps = counted_steps(engine)
        await engine.generate(ask("Go on.", sampling, 0))
        alone = len(steps)
        long = [asyncio.create_task(engine.generate(ask("Go on.", sampling, 0))) for _ in range(20)]
        while len(steps) == alone:
            await asyncio.sleep(0.01)
        before = len(steps)
        for task in long:
            task.cancel()
        await engine.generate(ask("Short.", Sampling(max_tokens=2)))
        assert len(steps) - before < 20 < alone


async def test_others_go_on_when_a_request_is_cancelled(folder: Path) -> None:
    async with TransformersEngine(folder) as engine:
        sampling = Sampling(temperature=2.0, max_tokens=60)
        steps = counted_steps(engine)
        advance, cancelled = engine._advance, threading.Event()

        def held(arrived: Any) -> Any:
            if len(steps) == 3:
                cancelled.wait(timeout=60)
            return advance(arrived)

        engine._advance = held  # type: ignore[method-assign]
        tasks = [asyncio.create_task(engine.generate(ask("Go.", sampling, s))) for s in range(8)]
        while len(steps) < 3:
            await asyncio.sleep(0.001)
        tasks[0].cancel()  # the last row moves to its place
        cancelled.set()
        first, *others = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert all(isinstance(answer, Generation) for answer in others)


async def test_leaving_stops_at_once_and_tells_those_who_wait(folder: Path) -> None:
    async with TransformersEngine(folder) as engine:
        sampling = Sampling(temperature=2.0, max_tokens=450)
        steps = counted_steps(engine)
        waiting = [asyncio.create_task(engine.generate(ask("Go.", sampling, s))) for s in range(64)]
        while not steps:
            await asyncio.sleep(0.01)
        before = len(steps)
    assert len(steps) <= before + 2  # of 450
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    unfinished = [o for o in outcomes if isinstance(o, BaseException)]
    assert unfinished
    assert all(isinstance(o, EngineDown) and "stopped" in str(o) for o in unfinished)
    with pytest.raises(EngineDown, match="the engine was stopped"):
        await engine.generate(ask("up", sampling))


async def test_a_dying_worker_fails_everybody_with_the_cause(folder: Path) -> None:
    async with TransformersEngine(folder, max_batch=8) as engine:
        sampling = Sampling(temperature=2.0, max_tokens=450)
        steps = counted_steps(engine)
        waiting = [asyncio.create_task(engine.generate(ask("Go.", sampling, s))) for s in range(24)]
        while not steps:
            await asyncio.sleep(0.01)
        assert engine._decoder is not None
        # Weights with a wrong shape, so the thread's next matrix product fails.
        engine._decoder.model.get_output_embeddings().weight = torch.nn.Parameter(torch.zeros(3, 5))
        outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 120)
        down = [o for o in outcomes if isinstance(o, BaseException)]
        assert down
        assert all(isinstance(o, EngineDown) for o in down)
        assert "the transformers engine died: RuntimeError: " in str(down[0])
        assert "\n" not in str(down[0])
        assert isinstance(down[0].__cause__, RuntimeError)
        with pytest.raises(EngineDown, match="died: RuntimeError"):
            await engine.generate(ask("up", sampling))


async def test_generate_needs_a_started_engine(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await TransformersEngine(folder).generate(ask("up", Sampling()))


@pytest.mark.parametrize("dtype", ["auto", "float32", "bfloat16"])
async def test_describe(folder: Path, dtype: str) -> None:
    async with TransformersEngine(folder, dtype=dtype, device="cpu", max_batch=3) as engine:
        generation = await engine.generate(ask("up", Sampling(max_tokens=4)))
        facts = engine.describe()
    assert generation.log_prob is not None and generation.log_prob <= 0
    assert facts.pop("versions").keys() == {"torch", "transformers", "tokenizers"}
    assert facts == {
        "kind": "transformers",
        "dtype": "float32" if dtype == "auto" else dtype,
        "device": "cpu",
        "device_name": cpu_name(),
        "context": CONTEXT,
        "max_batch": 3,
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "int8"}, "unknown dtype 'int8'; choose from auto, float32"),
        ({"device": "tpu"}, "unknown device 'tpu'; choose from auto, cpu, cuda"),
        ({"max_batch": 0}, "max_batch must be at least 1, not 0"),
    ],
)
def test_unknown_settings(folder: Path, settings: dict[str, str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        TransformersEngine(folder, **settings)  # type: ignore[arg-type]


async def _start_error(folder: Path) -> str:
    with pytest.raises(UserError) as caught:
        async with TransformersEngine(folder):
            pass
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def test_missing_tensors_are_an_error_and_not_random_weights(
    folder: Path, tmp_path: Path
) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "model"))
    tensors = load_file(broken / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"], tensors["model.norm.weight"]
    save_file(tensors, broken / "model.safetensors", metadata={"format": "pt"})
    message = await _start_error(broken)
    assert "lack 2 tensors of Qwen3ForCausalLM (model.layers.1.mlp.up_proj.weight, ...)" in message


async def test_broken_files(folder: Path, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "model"))
    (broken / "model.safetensors").write_bytes(b"\xff" * 100)
    assert "cannot be loaded" in await _start_error(broken)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_weights_that_are_not_finite(tmp_path: Path, temperature: float) -> None:
    broken = fill_with_nan(make_tiny_model(tmp_path, context=CONTEXT))
    async with TransformersEngine(broken) as engine:
        with pytest.raises(UserError, match="the model's logits are not finite"):
            await answer_all(engine, ["Which way?"], Sampling(temperature, max_tokens=2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "no_such_model"}, "cannot be loaded"),
        ({"max_position_embeddings": None}, "max_position_embeddings"),
        (
            {
                "model_type": "remote",
                "auto_map": {
                    "AutoConfig": "configuration_remote.RemoteConfig",
                    "AutoModelForCausalLM": "modeling_remote.RemoteModel",
                },
            },
            "brings code of its own, which is never run here",
        ),
    ],
)
async def test_unusable_configurations(
    folder: Path, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    broken = Path(shutil.copytree(folder, tmp_path / "model"))
    config = json.loads((broken / "config.json").read_text("utf-8"))
    (broken / "config.json").write_text(json.dumps({**config, **change}), "utf-8")
    # Code included in a folder must not run.
    (broken / "configuration_remote.py").write_text("raise SystemExit('remote code ran')", "utf-8")
    assert message in await _start_error(broken)
