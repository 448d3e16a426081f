"""Rows with images: a policy computes the same for them packed, padded and alone."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache

from baselines.learning.critic import ValueNetwork
from baselines.learning.images import ImageReader
from baselines.learning.microbatches import PackedBatch, collate, filler, pack_rows, split
from baselines.learning.policy import evaluate_tokens
from baselines.rollouts.rows import Row
from benchmark.engines.core.base import Sampling
from benchmark.engines.core.chat import Chat
from benchmark.engines.transformers.engine import load_model
from benchmark.engines.transformers.images import image_inputs
from benchmark.engines.transformers.prefix_tree import IMAGES, shared_tokens
from benchmark.engines.transformers.tree_attention import TREE_ATTENTION, use_tree_attention
from benchmark.submissions.token_scores import EXACT, TokenPart, token_scores
from tasks.chat.images import Image
from tasks.chat.messages import user_message
from tasks.sokoban.pixels import draw_board
from tests.support.engines.tiny_vision import tiny_vision_model

SMALL = draw_board(("####", "#@$#", "#._#", "####"))
SOLVED = draw_board(("####", "#_@#", "#*_#", "####"))
WIDE = draw_board(("#####", "#@$.#", "#####"))
ASKED = "Push the box onto the target, one move a turn, and say why you move so."
SHOWN: list[tuple[str, tuple[Image, ...], list[int]]] = [
    (ASKED, (SMALL,), [40, 41, 42]),
    # The same prompt, so that its image is shared.
    (ASKED, (SMALL,), [40, 50]),
    (ASKED, (SOLVED,), [40, 41, 42]),
    ("Again, after a turn. " + ASKED, (SMALL, WIDE), [60]),
    (ASKED, (WIDE,), [61, 62, 63, 64]),
    ("No image at all.", (), [65, 66]),
]


@pytest.fixture(scope="module", params=["qwen3_vl", "qwen2_5_vl"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_vision_model(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture
def rows(folder: Path) -> list[Row]:
    chat = Chat.load(folder)
    found = []
    for number, (text, images, response) in enumerate(SHOWN):
        prompt = chat.render([user_message(text, images)])
        found.append(
            Row(
                task="sokoban",
                group=0,
                member=number,
                turn=0,
                prompt_ids=np.array(prompt, np.int32),
                response_ids=np.array(response, np.int32),
                response_mask=np.ones(len(response), np.int32),
                engine_log_probs=np.zeros(len(response), np.float32),
                versions=(0, 0),
                reward=0.0,
                penalty=0.0,
                step_reward=0.0,
                anchor="",
                success=False,
                images=images,
            )
        )
    return found


def alone(folder: Path, model: Any, row: Row) -> torch.Tensor:
    """(T,) log-probabilities from the model's own forward pass."""
    prompt, prompt_images = Chat.load(folder).read([user_message(SHOWN[row.member][0], row.images)])
    assert prompt == row.prompt_ids.tolist()
    ids = torch.tensor([[*prompt, *row.response_ids.tolist()]])
    inputs = (
        {"input_ids": ids} if prompt_images is None else image_inputs(model, ids, [prompt_images])
    )
    logits: torch.Tensor = model(**inputs).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
    return logits.gather(1, ids[0, len(prompt) :, None])[:, 0]


def loss(values: torch.Tensor) -> torch.Tensor:
    """A weighted sum of (rows, T) log-probabilities in which each has a different weight."""
    return (values * torch.arange(1, values.numel() + 1).view_as(values)).sum()


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [1, 130, 10_000])
@pytest.mark.parametrize("way", ["padded", "packed"])
def test_values_are_those_of_the_models_own_forward(
    folder: Path, rows: list[Row], way: str, tokens: int
) -> None:
    model = load_model(folder, "float32", "cpu")
    reader, everything = ImageReader(folder, model), range(len(rows))
    with torch.no_grad():
        expected = [alone(folder, model, row) for row in rows]
        use_tree_attention(model)
        assert model.config._attn_implementation == TREE_ATTENTION
        deal: Callable[..., Any] = pack_rows if way == "packed" else split
        extra = (reader,) if way == "packed" else (True, reader)
        batches = deal(rows, everything, tokens, *extra)
        assert sorted(row for batch in batches for row in batch.rows) == list(everything)
        for batch in batches:
            values = evaluate_tokens(model, batch).log_probs
            for place, number in enumerate(batch.rows):
                own = expected[number]
                torch.testing.assert_close(values[place, : len(own)], own, rtol=1e-4, atol=1e-5)
        nothing = filler(rows, reader)
        assert evaluate_tokens(model, nothing).log_probs.abs().sum() == 0


@pytest.mark.slow
def test_gradients_reach_the_image_side_and_are_the_same(folder: Path, rows: list[Row]) -> None:
    chosen, found = [0, 1, 2, 3, 4], []
    for packed in (False, True):
        model = load_model(folder, "float32", "cpu")
        reader = ImageReader(folder, model)
        if packed:
            use_tree_attention(model)
            (batch,) = pack_rows(rows, chosen, 10_000, reader)
            # No duplicates: the second row shares the first one's image.
            assert batch.image_grid_thw is not None
            assert len(batch.image_grid_thw) == 5
            assert len(batch.ids) < sum(rows[row].length for row in chosen) - 40
            values = evaluate_tokens(model, batch).log_probs
            values = values[[batch.rows.index(row) for row in chosen]]
        else:
            values = evaluate_tokens(model, collate(rows, chosen, False, reader)).log_probs
        loss(values).backward()
        found.append({name: weight.grad for name, weight in model.named_parameters()})
    embedding = found[0]["model.visual.patch_embed.proj.weight"]
    assert embedding is not None and embedding.abs().sum() > 0
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, rtol=1e-3, atol=2e-3)


def token_by_token(folder: Path, model: Any, row: Row) -> torch.Tensor:
    """(T,) log-probabilities as an engine computes them, feeding one response token at a time."""
    _, prompt_images = Chat.load(folder).read([user_message(SHOWN[row.member][0], row.images)])
    assert prompt_images is not None
    ids = torch.from_numpy(row.prompt_ids)[None].long()
    cache = DynamicCache()
    found = model(**image_inputs(model, ids, [prompt_images]), past_key_values=cache)
    log_probs = []
    for token in row.response_ids.tolist():
        log_probs.append(found.logits[0, -1].log_softmax(-1)[token])
        found = model(input_ids=torch.tensor([[token]]), past_key_values=cache)
    return torch.stack(log_probs)


@pytest.mark.slow
def test_a_sampled_placeholder_is_not_an_image(folder: Path, rows: list[Row]) -> None:
    model = load_model(folder, "float32", "cpu")
    reader, token = ImageReader(folder, model), Chat.load(folder).vision().image_token
    for number, response in ((0, [40, token, 42]), (1, [40, token, token]), (4, [token, 62])):
        rows[number] = replace(
            rows[number],
            response_ids=np.array(response, np.int32),
            response_mask=np.ones(len(response), np.int32),
        )
    chosen = [0, 1, 4]
    with torch.no_grad():
        expected = [token_by_token(folder, model, rows[number]) for number in chosen]
        padded = collate(rows, chosen, False, reader)
        padded_values = evaluate_tokens(model, padded).log_probs
        values = ValueNetwork(folder)
        assert (
            values(padded.input_ids, position_ids=padded.positions, **padded.seen).isfinite().all()
        )
        for number, own in zip(chosen, expected, strict=True):
            row = rows[number]
            ids, images = Chat.load(folder).read([user_message(SHOWN[number][0], row.images)])
            ends = range(len(ids), row.length)
            part = TokenPart([*ids, *row.response_ids.tolist()], [*ends], (), (), images)
            audited = token_scores(part, model, Sampling(), EXACT).log_probs
            torch.testing.assert_close(audited.float(), own, rtol=1e-4, atol=1e-5)
        use_tree_attention(model)
        (packed,) = pack_rows(rows, chosen, 10_000, reader)
        packed_values = evaluate_tokens(model, packed).log_probs
    for batch, log_probs in ((padded, padded_values), (packed, packed_values)):
        for place, number in enumerate(batch.rows):
            own = expected[chosen.index(number)]
            torch.testing.assert_close(log_probs[place, : len(own)], own, rtol=1e-4, atol=1e-5)


def test_rows_of_another_image_share_what_stands_before_it(folder: Path, rows: list[Row]) -> None:
    reader = ImageReader(folder, load_model(folder, "float32", "cpu"))
    numbers: dict[str, int] = {}
    first, same, other = (reader.tree_ids(rows[row], numbers) for row in (0, 1, 2))
    begin = int(np.flatnonzero(first >= IMAGES)[0])
    assert (first[begin : begin + 16] == IMAGES).all()
    assert (other[begin : begin + 16] == IMAGES + 1).all()
    assert shared_tokens(first, other) == begin // 16 * 16
    assert shared_tokens(first, same) >= begin + 16


def test_an_image_is_never_cut() -> None:
    image = [IMAGES] * 10
    # They share 25 tokens: a cut at 16 would be in the middle of the image.
    first = np.array([*range(12), *image, 1, 2, 3, 4])
    second = np.array([*range(12), *image, 1, 2, 3, 5])
    assert shared_tokens(first, second) == 22
    # With another image they share 12, less than a block.
    third = np.array([*range(12), *[IMAGES + 1] * 10, 1, 2, 3])
    assert shared_tokens(first, third) == 0
    # Texts are cut as before.
    assert shared_tokens(np.arange(40), np.array([*range(25), 99])) == 16


def test_text_rows_need_no_eyes(rows: list[Row]) -> None:
    (batch,) = pack_rows([rows[5]], [0], 100)
    assert isinstance(batch, PackedBatch)
    assert batch.seen == {}
    assert batch.positions.tolist() == list(range(rows[5].length))
