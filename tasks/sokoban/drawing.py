"""How the task is shown: its name, the look of levels in the report, the keys."""

from tasks.presentation import Presentation, Tile

_FLOOR, _WALL, _TARGET = "#efe9dd", "#5d5a56", "#f6d58e"
TILES = {
    "#": Tile("wall", _WALL),
    "_": Tile("floor", _FLOOR),
    ".": Tile("target", _TARGET, "dot"),
    "$": Tile("box", _FLOOR, "box"),
    "*": Tile("box on a target", _TARGET, "box"),
    "@": Tile("player", _FLOOR, "player"),
    "+": Tile("player on a target", _TARGET, "dot player"),
}
KEYS = {
    "w": "up",
    "s": "down",
    "a": "left",
    "d": "right",
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1b[D": "left",
    "\x1b[C": "right",
}
PRESENTATION = Presentation(
    title="Sokoban",
    summary="Push every box onto a target; one move a turn.",
    category_name="optimal length",
    tiles=TILES,
    keys=KEYS,
)
