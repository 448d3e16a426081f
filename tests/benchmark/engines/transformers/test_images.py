"""Prompts with images in the transformers engine, against the model's own `forward`."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from baselines.inits.registry import find_model
from benchmark.engines.core.base import Generation, Request, Sampling
from benchmark.engines.core.chat import Chat
from benchmark.engines.transformers.engine import TransformersEngine, load_model
from benchmark.engines.transformers.images import by_shape, image_inputs
from tasks.chat.images import Image
from tasks.chat.messages import user_message
from tasks.errors import UserError
from tasks.sokoban.pixels import draw_board
from tests.support.engines.tiny_vision import tiny_vision_model

SMALL = draw_board(("####", "#@$#", "#._#", "####"))
SOLVED = draw_board(("####", "#_@#", "#*_#", "####"))
WIDE = draw_board(("#####", "#@$.#", "#####"))


@pytest.fixture(scope="module", params=["qwen3_vl", "qwen2_5_vl"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_vision_model(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def qwen3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_vision_model(tmp_path_factory.mktemp("one"))


def request(text: str, *images: Image, seed: int = 1, temperature: float = 0.0) -> Request:
    sampling = Sampling(temperature=temperature, max_tokens=12)
    return Request((user_message(text, images),), sampling, seed, 0, cast("Any", None))


def answers(folder: Path, requests: list[Request], **settings: Any) -> list[Generation]:
    async def ask() -> list[Generation]:
        async with TransformersEngine(folder, **settings) as engine:
            return list(await asyncio.gather(*map(engine.generate, requests)))

    return asyncio.run(ask())


def own_log_probs(folder: Path, one: Request, answer: Generation) -> list[float]:
    """The result of the model's own `forward` for a response, including positions."""
    chat, model = Chat.load(folder), load_model(folder, "auto", "cpu")
    prompt, prompt_images = chat.read(one.messages)
    assert answer.prompt_ids == tuple(prompt)
    assert answer.response_ids is not None
    ids = torch.tensor([[*prompt, *answer.response_ids]])
    inputs: dict[str, torch.Tensor] = {"input_ids": ids}
    if prompt_images is not None:
        inputs = image_inputs(model, ids, [prompt_images])
    with torch.inference_mode():
        logits = model(**inputs).logits[0, len(prompt) - 1 : -1]
    chosen = torch.tensor(answer.response_ids)[:, None]
    found: list[float] = logits.log_softmax(-1).gather(-1, chosen)[:, 0].tolist()
    return found


@pytest.mark.slow
def test_answers_have_the_log_probabilities_of_the_whole_model(folder: Path) -> None:
    asked = [
        request("look", SMALL),
        request("look", SOLVED),
        request("look at all of it", WIDE, SMALL),
        request("no image"),
        request("look", WIDE, seed=7, temperature=1.0),
    ]
    for one, answer in zip(asked, answers(folder, asked), strict=True):
        assert answer.token_log_probs == pytest.approx(own_log_probs(folder, one, answer), abs=2e-4)


@pytest.mark.slow
def test_company_changes_no_answer(qwen3: Path) -> None:
    asked = [request("look", image) for image in (SMALL, WIDE, SOLVED)] + [request("look")]
    together, alone = answers(qwen3, asked), answers(qwen3, asked, max_batch=1)
    assert [one.response_ids for one in together] == [one.response_ids for one in alone]


def test_the_image_is_seen(qwen3: Path) -> None:
    small, solved = answers(qwen3, [request("look", SMALL), request("look", SOLVED)])
    assert small.prompt_ids == solved.prompt_ids
    assert small.token_log_probs != pytest.approx(solved.token_log_probs, abs=1e-3)


def test_a_cell_is_a_token(qwen3: Path) -> None:
    chat = Chat.load(qwen3)
    ids, prompt_images = chat.read(request("look", SMALL, WIDE).messages)
    assert prompt_images is not None
    assert ids.count(prompt_images.image_token) == 4 * 4 + 3 * 5
    assert prompt_images.bare_ids.count(prompt_images.image_token) == 2
    assert prompt_images.inputs["image_grid_thw"].tolist() == [[1, 8, 8], [1, 6, 10]]
    assert chat.render(request("look", SMALL, WIDE).messages) == ids


def test_prompts_of_one_form_are_fed_together(qwen3: Path) -> None:
    chat = Chat.load(qwen3)
    images = ((SMALL,), (WIDE,), (SOLVED,))
    read = [chat.read(request("look", *shown).messages) for shown in images]
    prompt_images = [prompt_images for _, prompt_images in read if prompt_images is not None]
    assert by_shape([ids for ids, _ in read], prompt_images) == [[0, 2], [1]]


def refusal(folder: Path, *images: Image) -> str:
    with pytest.raises(UserError) as caught:
        answers(folder, [request("look", *images)])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_model_of_texts_alone_refuses_images() -> None:
    init = find_model("tiny-sokoban").path
    assert init is not None
    assert "reads only text; use a vision-language model" in refusal(init, SMALL)


@pytest.fixture
def copy(qwen3: Path, tmp_path: Path) -> Path:
    return shutil.copytree(qwen3, tmp_path / "model")


def test_a_missing_image_processor_is_named(copy: Path) -> None:
    (copy / "preprocessor_config.json").unlink()
    assert "has no preprocessor_config.json" in refusal(copy, SMALL)
    # Prompts without images need no processor.
    (answer,) = answers(copy, [request("no image")])
    assert answer.response_tokens == 12 or answer.finish_reason == "stop"


def test_a_broken_image_processor_is_named(copy: Path) -> None:
    (copy / "preprocessor_config.json").write_text('{"image_processor_type": 3}')
    assert "the image processor in" in refusal(copy, SMALL)


def processor_with(folder: Path, **changes: object) -> None:
    """Change the settings of a folder's image processor."""
    path = folder / "preprocessor_config.json"
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes))


def test_a_processor_that_would_fail_at_the_first_image_is_named(copy: Path) -> None:
    processor_with(copy, size={"height": 64, "width": 64})
    assert "must contain 'shortest_edge' and 'longest_edge'" in refusal(copy, SMALL)


@pytest.mark.parametrize(
    ("limit", "changes", "image"),
    [
        (256 * 256 - 1, {}, "256 x 256 pixels"),
        # With tokens of 44 pixels, a side has 264 pixels, which the processor would scale down.
        (256 * 256, {"patch_size": 22}, "256 x 256 pixels (264 x 264 in whole tokens)"),
    ],
)
def test_an_image_that_would_be_shrunk_is_refused(
    copy: Path, limit: int, changes: dict[str, int], image: str
) -> None:
    processor_with(copy, size={"shortest_edge": 4096, "longest_edge": limit}, **changes)
    assert f"{image} is larger than the model's limit of {limit:,}" in refusal(copy, SMALL)


def test_a_template_that_drops_images_is_named(copy: Path) -> None:
    (copy / "chat_template.jinja").write_text("{{ messages[0]['content'][0]['text'] }}")
    assert "shows 0 of the 1 images" in refusal(copy, SMALL)


def test_another_family_is_sent_to_a_server(copy: Path) -> None:
    path = copy / "config.json"
    config = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**config, "model_type": "mllama"}))
    with pytest.raises(UserError, match="images for mllama models are not supported"):
        Chat.load(copy).read(request("look", SMALL).messages)
