"""A player without a plan: pushes a box straight at a target and ignores obstacles."""

from collections.abc import Sequence

from tasks.sokoban.solver import Cell, Room, state_of


def beeline(board: Sequence[str]) -> tuple[str, str]:
    """Thought and action, in the expert's words.

    The first box without a target is pushed along the longer way to the nearest free target, and
    the cell to push from is reached likewise; walls, boxes in the way and corners are not looked
    at. Of equals the first counts: rows before columns, cells in reading order.

    Raises:
        ValueError: The board is solved.
    """
    room = Room.of(board)
    player, boxes = state_of(board)
    loose = [box for box in boxes if box not in room.targets]
    if not loose:
        raise ValueError("the board is solved already")
    box = loose[0]
    free = [target for target in room.targets if target not in boxes]
    target = min(free, key=lambda cell: _far(room, box, cell))
    push = _toward(room, box, target)
    stand = box - room.offset(push)
    step = push if player == stand else _toward(room, player, stand)
    row, column = divmod(stand, room.width)
    return f"Push {push} from r{row}c{column}, so go {step}", step


def _gap(room: Room, start: Cell, goal: Cell) -> tuple[int, int]:
    """Rows down and columns right from a cell to another."""
    (row, column), (to_row, to_column) = divmod(start, room.width), divmod(goal, room.width)
    return to_row - row, to_column - column


def _far(room: Room, start: Cell, goal: Cell) -> int:
    down, right = _gap(room, start, goal)
    return abs(down) + abs(right)


def _toward(room: Room, start: Cell, goal: Cell) -> str:
    """The direction of the longer way."""
    down, right = _gap(room, start, goal)
    if abs(down) >= abs(right):
        return "down" if down > 0 else "up"
    return "right" if right > 0 else "left"
