"""Behavior cloning on a task that shows images."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from baselines.cloning.bc import LOG, CloningProgress, _start, clone
from baselines.cloning.demonstrations import Demonstration, demonstrate
from baselines.cloning.examples import encode
from baselines.cloning.passes import IGNORED, collate, image_inputs
from baselines.cloning.recipe import BCRecipe
from baselines.cloning.tiny_models import train_tokenizer
from baselines.cloning.tiny_vision import add_image_tokens, new_vision, new_vision_model
from benchmark.engines.core.chat import Chat
from benchmark.engines.core.vision import Vision
from benchmark.engines.transformers.engine import load_model
from benchmark.engines.transformers.patches import PatchProduct
from tasks.chat.messages import images_of
from tasks.errors import UserError
from tasks.registry import load_task

FIELDS: dict[str, Any] = {
    "task": "sokoban",
    "settings": {"view": "pixels"},
    "seed": 3,
    "demonstrations": {"episodes": 4, "stream": 7},
    "model": {
        "vocab_size": 400,
        "symbol_runs": True,
        "hidden_size": 32,
        "layers": 1,
        "heads": 1,
        "kv_heads": 1,
        "head_dim": 32,
        "intermediate_size": 32,
        "context": 512,
        "vision": {
            "patch": 32,
            "merge": 2,
            "side": 12,
            "hidden_size": 32,
            "layers": 1,
            "heads": 1,
            "intermediate_size": 32,
        },
    },
    "training": {
        "stages": [{"steps": 2, "prompt_tokens": 48}, {"steps": 2}],
        "batch_size": 4,
        "learning_rate": 1e-3,
        "warmup_steps": 2,
        "final_learning_rate": 1e-4,
        "weight_decay": 0.01,
        "max_grad_norm": 1.0,
        "checkpoint_every": 2,
    },
}
RECIPE = BCRecipe.model_validate(FIELDS)
TASK = load_task("sokoban").configured(RECIPE.settings)


class Stopped(Exception):
    """Simulates a kill."""


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.mark.slow
def test_a_clone_is_a_vision_language_model_and_resumes(tmp_path: Path) -> None:
    def stop(progress: CloningProgress) -> None:
        if progress.step == 3:
            raise Stopped

    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    cloned = clone(RECIPE, whole)
    assert cloned.architecture == "Qwen3VLForConditionalGeneration"
    losses = [json.loads(line)["loss"] for line in (whole / LOG).read_text().splitlines()]
    assert losses[-1] < losses[0]
    with pytest.raises(Stopped):
        clone(RECIPE, stopped, on_step=stop)
    clone(RECIPE, stopped)
    first, second = (load_file(folder / "model.safetensors") for folder in (whole, stopped))
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    # The saved processor produces the prompts used in training.
    view = TASK.episode(TASK.training_entry(0, 7), 15).reset()
    ids, prompt_images = Chat.load(whole).read(view.messages)
    assert prompt_images is not None
    # Six by six cells with one token each, which covers two by two patches.
    assert ids.count(prompt_images.image_token) == 36
    assert prompt_images.inputs["pixel_values"].shape == (144, 3 * 32 * 32)
    assert prompt_images.inputs["pixel_values"].max() <= 1.0
    model = load_model(whole, "auto", "cpu")
    assert isinstance(model.model.visual.patch_embed.proj, PatchProduct)


@pytest.mark.slow
def test_padding_and_neighbors_change_nothing() -> None:
    turns = demonstrate(TASK, 8, 7)
    vision, model = _new(turns)
    chat = Chat(vision_tokenizer(turns), frozenset(), new_vision=vision)
    # The tenth turn's prompt has one more digit.
    whole = RECIPE.training.model_copy(update={"stages": RECIPE.training.stages[1:]})
    examples = encode(chat, [turns[0], turns[9], turns[1]], 2048, whole)
    assert examples[0].images == images_of(turns[0].messages)

    def losses(batch: list[Any]) -> list[float]:
        ids, mask, labels = collate(batch)
        with torch.no_grad():
            seen = image_inputs(chat, batch, ids)
            logits = model(input_ids=ids, attention_mask=mask, **seen).logits
        each = cross_entropy(
            logits[:, :-1].transpose(1, 2), labels[:, 1:], reduction="none", ignore_index=IGNORED
        )
        return each.sum(1).tolist()

    alone = [losses([example])[0] for example in examples]
    assert losses(examples) == pytest.approx(alone, rel=1e-4)
    # Images matter: if they are swapped, the losses change.
    swapped = [
        replace(example, images=other.images)
        for example, other in zip(examples, examples[::-1], strict=True)
    ]
    assert abs(losses(swapped)[0] - alone[0]) > 1e-3


@pytest.mark.slow
def test_what_is_seen_is_told_apart_and_so_is_where_it_stands() -> None:
    turns = demonstrate(TASK, 8, 7)
    vision, model = _new(turns)
    pixels = vision.patches([images_of(turns[0].messages)[0].picture()])["pixel_values"]
    distinct = torch.from_numpy(np.unique(pixels, axis=0))
    shown = model.model.visual.patch_embed(distinct).detach()
    # Pixel vectors are similar; their embeddings are not.
    assert _likeness(distinct) > 0.8
    assert abs(_likeness(shown)) < 0.2
    assert 0.3 < shown.std().item() < 3.0
    assert model.model.visual.pos_embed.weight.std().item() == pytest.approx(1.0, abs=0.1)


def _likeness(vectors: torch.Tensor) -> float:
    """Mean cosine similarity of all pairs."""
    unit = torch.nn.functional.normalize(vectors, dim=1)
    count = len(unit)
    return float(((unit @ unit.T).sum() - count) / (count * (count - 1)))


@pytest.mark.slow
def test_a_frozen_image_side_stays_as_it_was_made(tmp_path: Path) -> None:
    shape = {**FIELDS["model"], "vision": {**FIELDS["model"]["vision"], "frozen": True}}
    recipe = BCRecipe.model_validate({**FIELDS, "model": shape})
    turns = demonstrate(TASK, 4, 7)
    clone(recipe, tmp_path)
    trained = load_file(tmp_path / "model.safetensors")
    made = dict(_start(recipe, turns)[0].named_parameters())
    moved = {name for name, weight in made.items() if not torch.equal(trained[name], weight)}
    assert moved
    assert not any("visual" in name for name in moved)
    assert all("visual" in name for name, weight in made.items() if not weight.requires_grad)


def test_a_product_is_the_convolution() -> None:
    torch.manual_seed(0)
    convolution = torch.nn.Conv3d(3, 5, (1, 4, 4), stride=(1, 4, 4))
    pixels = torch.randn(7, 3, 1, 4, 4)
    expected = convolution(pixels)
    convolution.__class__ = PatchProduct
    torch.testing.assert_close(convolution(pixels), expected)


@pytest.mark.slow
def test_a_stage_cannot_cut_an_image(tmp_path: Path) -> None:
    stages = [{"steps": 1, "prompt_tokens": 30}, {"steps": 1}]
    cut = {**FIELDS, "training": {**FIELDS["training"], "stages": stages}}
    with pytest.raises(UserError, match="prompt_tokens=30 cuts off an image"):
        clone(BCRecipe.model_validate(cut), tmp_path)


def test_recipes_of_texts_are_written_as_before() -> None:
    texts = {**FIELDS, "model": {**FIELDS["model"], "vision": None}}
    del texts["settings"]
    dumped = BCRecipe.model_validate(texts).model_dump()
    assert "settings" not in dumped
    assert "vision" not in dumped["model"]


def vision_tokenizer(turns: list[Demonstration]) -> Any:
    assert RECIPE.model is not None
    tokenizer = train_tokenizer([turn.response for turn in turns], RECIPE.model)
    add_image_tokens(tokenizer)
    return tokenizer


def _new(turns: list[Demonstration]) -> tuple[Vision, Any]:
    """The image processor and the model from which cloning would start."""
    assert RECIPE.model is not None and RECIPE.model.vision is not None
    tokenizer = vision_tokenizer(turns)
    vision = new_vision(RECIPE.model.vision, tokenizer)
    images = [image for turn in turns for image in images_of(turn.messages)]
    return vision, new_vision_model(RECIPE.model, tokenizer, 0, vision, images)
