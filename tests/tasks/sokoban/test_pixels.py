"""Sokoban as images: the rendering, the prompt, and the view's effect on the protocol."""

import pytest

from benchmark.evaluation.protocol import PanelProtocol
from tasks.errors import UserError
from tasks.options import chosen_task
from tasks.panels import PanelEntry
from tasks.response import format_response
from tasks.sokoban.pixels import CELL, draw_board, sprite
from tasks.sokoban.task import SokobanTask

TEXT = SokobanTask()
PIXELS = chosen_task("sokoban", ["sokoban.view=pixels"])
ENTRY = PanelEntry("x", "2", {"board": ["######", "#@$_.#", "#____#", "######"]})
SPRITES = "743bc880"


def test_a_board_is_made_of_sprites() -> None:
    board = ("####", "#@$#", "#._#", "####")
    image = draw_board(board)
    assert (image.width, image.height) == (4 * CELL, 4 * CELL)
    picture = image.picture()
    for row, cells in enumerate(board):
        for column, symbol in enumerate(cells):
            left, top = CELL * column, CELL * row
            cell = picture.crop((left, top, left + CELL, top + CELL))
            assert cell.tobytes() == sprite(symbol).tobytes()


def test_every_symbol_looks_different() -> None:
    assert len({sprite(symbol).tobytes() for symbol in "#_.$*@+"}) == 7


def test_the_drawing_is_pinned() -> None:
    """All sprites side by side: a changed rendering is another protocol, and needs new traces."""
    assert draw_board(("#_.$*@+",)).sha256[:8] == SPRITES


def test_the_prompt_shows_the_image_and_no_board() -> None:
    view = PIXELS.episode(ENTRY, 15).reset()
    (message,) = view.messages
    content = message["content"]
    assert not isinstance(content, str)
    text, shown = content
    assert text["type"] == "text"
    assert text["text"].endswith("\n\nTurn 1 of 15.")
    assert "#@$_.#" not in text["text"]
    assert shown["type"] == "image"
    assert (shown["image"],) == view.images == (draw_board(tuple(ENTRY.data["board"])),)
    assert view.observation == TEXT.episode(ENTRY, 15).reset().observation


def test_both_views_play_alike_up_to_the_last_image() -> None:
    episodes = [task.episode(ENTRY, 15) for task in (TEXT, PIXELS)]
    for episode in episodes:
        episode.reset()
    for move in ("right", "right"):
        steps = [episode.step(format_response("", move)) for episode in episodes]
        assert steps[0].reward == steps[1].reward
        assert steps[0].view.observation == steps[1].view.observation
    assert steps[1].outcome is not None
    assert steps[1].outcome.success
    assert steps[1].view.messages == ()
    assert steps[1].view.images == (draw_board(("######", "#__@*#", "#____#", "######")),)


def test_the_text_protocol_does_not_know_the_view() -> None:
    protocol = PanelProtocol.of(TEXT, TEXT.panel("builtin"))
    assert protocol.settings == {}
    assert TEXT.configured({"view": "text"}) is TEXT


def test_pixels_are_another_protocol() -> None:
    text = PanelProtocol.of(TEXT, TEXT.panel("builtin"))
    pixels = PanelProtocol.of(PIXELS, PIXELS.panel("builtin"))
    assert pixels.settings == {"view": "pixels"}
    assert (pixels.public_name, pixels.overrides) == ("pixels-1", {})
    assert pixels.panel_sha256 == text.panel_sha256
    assert pixels.contract == text.contract
    for name in ("fingerprint", "prompt_sha256", "trace_sha256"):
        assert getattr(pixels, name) != getattr(text, name)


def test_a_view_that_is_none() -> None:
    with pytest.raises(UserError, match=r"sokoban\.view must be text or pixels, not 'sound'"):
        chosen_task("sokoban", ["sokoban.view=sound"])
