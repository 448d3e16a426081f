"""The scripted expert: plays a shortest solution and says which push it is heading for."""

from collections.abc import Sequence

from tasks.sokoban.env import DIRECTIONS
from tasks.sokoban.solver import Room, State, after, distances, state_of


def expert_turn(board: Sequence[str]) -> tuple[str, str]:
    """Thought and action on a board.

    Of several best moves the first in the order up, down, left, right is taken, so that equal
    boards always get the same answer. On a board that cannot be solved any more the thought says
    so and the action is the first direction.
    """
    room = Room.of(board)
    best = distances(room)
    state = state_of(board)
    if state not in best:
        return "No solution is left", DIRECTIONS[0]
    direction = _best_move(room, best, state)
    ahead = direction
    while state[1] == (following := after(room, state, ahead))[1]:
        state = following
        ahead = _best_move(room, best, state)
    row, column = divmod(state[0], room.width)
    return f"Push {ahead} from {row} {column}, so go {direction}", direction


def _best_move(room: Room, best: dict[State, int], state: State) -> str:
    for direction in DIRECTIONS:
        if best.get(after(room, state, direction), best[state]) < best[state]:
            return direction
    raise ValueError("the board is solved already")
