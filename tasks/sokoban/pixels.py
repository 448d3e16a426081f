"""Draws a board: our own sprites, pixel for pixel the same everywhere.

Only rectangles with whole coordinates are filled, which all versions of Pillow do alike. A cell has
64 pixels: two by two merged patches of Qwen3-VL (16 pixels, merged 2 x 2), and an image of any
board is large enough that its processor does not enlarge it.
"""

import math
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Final

from tasks.chat.images import Image

if TYPE_CHECKING:
    from PIL.Image import Image as Picture
    from PIL.ImageDraw import ImageDraw

CELL: Final = 64
"""Side of a cell, in pixels."""
_KEPT: Final = 512
"""Boards whose images are kept: groups of episodes begin alike, and replays draw everything again.
An image has about 3 KB once it is encoded."""

_FLOOR, _GRID = (239, 233, 221), (221, 213, 197)
_WALL, _MORTAR = (110, 104, 98), (70, 66, 62)
_TARGET, _HOLE = (214, 64, 48), (250, 222, 150)
_WOOD, _EDGE = (196, 140, 72), (120, 78, 32)
_DONE, _DONE_EDGE = (96, 168, 84), (44, 98, 40)
_HEAD, _BODY = (244, 196, 150), (40, 98, 190)
_HALF: Final = CELL // 2


@lru_cache(_KEPT)
def draw_board(board: tuple[str, ...]) -> Image:
    """A board in standard notation as an image, `CELL` pixels a cell."""
    return Image.drawn(partial(_drawing, board))


def _drawing(board: tuple[str, ...]) -> "Picture":
    from PIL import Image as pillow

    picture = pillow.new("RGB", (CELL * len(board[0]), CELL * len(board)))
    for row, cells in enumerate(board):
        for column, symbol in enumerate(cells):
            picture.paste(sprite(symbol), (CELL * column, CELL * row))
    return picture


@cache
def sprite(symbol: str) -> "Picture":
    """The picture of one cell.

    Args:
        symbol: Of standard notation.
    """
    from PIL import Image as pillow
    from PIL import ImageDraw

    picture = pillow.new("RGB", (CELL, CELL), _GRID)
    draw = ImageDraw.Draw(picture)
    if symbol == "#":
        _wall(draw)
        return picture
    draw.rectangle((1, 1, CELL - 2, CELL - 2), fill=_FLOOR)
    if symbol in ".+":
        _disk(draw, _HALF, _HALF, 20, _TARGET)
        _disk(draw, _HALF, _HALF, 12, _HOLE)
    if symbol in "$*":
        _box(draw, done=symbol == "*")
    if symbol in "@+":
        draw.rectangle((_HALF - 10, 30, _HALF + 9, 54), fill=_BODY)
        _disk(draw, _HALF, 20, 11, _HEAD)
    return picture


def _wall(draw: "ImageDraw") -> None:
    """Four courses of bricks, every second one shifted by half a brick."""
    draw.rectangle((0, 0, CELL - 1, CELL - 1), fill=_MORTAR)
    for course in range(4):
        top = 16 * course + 1
        for brick in range(-1, 2):
            left = 32 * brick + (16 if course % 2 else 0)
            begin, end = max(left + 1, 0), min(left + 30, CELL - 1)
            if begin < end:
                draw.rectangle((begin, top, end, top + 13), fill=_WALL)


def _box(draw: "ImageDraw", done: bool) -> None:
    """A crate with a frame and a plank across; of another color on a target."""
    wood, edge = (_DONE, _DONE_EDGE) if done else (_WOOD, _EDGE)
    draw.rectangle((8, 8, CELL - 9, CELL - 9), fill=edge)
    draw.rectangle((14, 14, CELL - 15, CELL - 15), fill=wood)
    draw.rectangle((14, _HALF - 4, CELL - 15, _HALF + 3), fill=edge)


def _disk(draw: "ImageDraw", x: int, y: int, radius: int, color: tuple[int, int, int]) -> None:
    """A disk, one row after the other."""
    for row in range(-radius, radius):
        # Distances are from the centers of pixels: twice them are odd whole numbers.
        half = (math.isqrt(4 * radius * radius - (2 * row + 1) ** 2) + 1) // 2
        if half:
            draw.rectangle((x - half, y + row, x + half - 1, y + row), fill=color)
