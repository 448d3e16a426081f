"""Players' descriptions of an image before they think."""

import random

from tasks.registry import load_task
from tasks.sokoban.positions import positions_text


def test_everything_is_named_where_it_stands() -> None:
    board = ("######", "#.___#", "#@_$_#", "######")
    assert positions_text(board) == "I am at r2c1, the box at r2c3, the target at r1c1."
    # A player or box on a target is listed together with the target.
    assert positions_text(("#+$#", "#*_#")) == (
        "I am at r0c1, the boxes at r0c2 and r1c1, the targets at r0c1 and r1c1."
    )


def test_only_who_sees_an_image_tells_of_it() -> None:
    text = load_task("sokoban")
    pixels = text.configured({"view": "pixels"})
    entry = text.training_entry(0, 7)
    rng = random.Random(0)
    read, seen = text.episode(entry, 15), pixels.episode(entry, 15)
    read.reset(), seen.reset()
    plan = text.demonstration_response(read)
    assert plan == text.expert_response(read) == pixels.expert_response(seen)
    telling = f"<think>{positions_text(entry.data['board'])} "
    assert pixels.demonstration_response(seen) == plan.replace("<think>", telling)
    careless = text.careless_response(read, rng)
    assert careless == text.mistaken_response(read, rng)
    assert pixels.careless_response(seen, rng) == careless.replace("<think>", telling)
