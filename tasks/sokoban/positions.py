"""What a player tells of the board that it sees, before it thinks."""

from collections.abc import Sequence


def positions_text(board: Sequence[str]) -> str:
    """Where things are, in a sentence: "I am at r2c1, the box at r2c3, the target at r1c1.".

    Args:
        board: In standard notation.
    """
    boxes, targets = _places(board, "$*"), _places(board, ".+*")
    (player,) = _places(board, "@+")
    return f"I am at {player}, the {_at('box', 'es', boxes)}, the {_at('target', 's', targets)}."


def _at(name: str, plural: str, places: Sequence[str]) -> str:
    return f"{name}{plural if len(places) > 1 else ''} at {' and '.join(places)}"


def _places(board: Sequence[str], symbols: str) -> list[str]:
    """Names of the cells with one of some symbols, in reading order."""
    return [
        f"r{row}c{column}"
        for row, cells in enumerate(board)
        for column, symbol in enumerate(cells)
        if symbol in symbols
    ]
