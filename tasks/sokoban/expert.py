"""The scripted expert: plays a shortest solution and names its next push."""

from collections.abc import Sequence

from tasks.sokoban.env import DIRECTIONS
from tasks.sokoban.solver import Room, State, after, distances, state_of


class Expert:
    """An expert for one room; solves it once, when it is made.

    Args:
        board: Rows of any state of the room, in standard notation.
    """

    def __init__(self, board: Sequence[str]) -> None:
        self._room = Room.of(board)
        self._lengths = distances(self._room)

    def turn(self, board: Sequence[str]) -> tuple[str, str]:
        """Thought and action on a board of the room.

        Of several best moves the first in the order up, down, left, right is taken, so that equal
        boards always get the same answer. On a board that cannot be solved any more the thought
        says so and the action is the first direction.

        Raises:
            ValueError: The board is solved.
        """
        state = state_of(board)
        if state not in self._lengths:
            return "No solution is left", DIRECTIONS[0]
        direction = self._best_move(state)
        ahead = direction
        while state[1] == (following := after(self._room, state, ahead))[1]:
            state = following
            ahead = self._best_move(state)
        row, column = divmod(state[0], self._room.width)
        return f"Push {ahead} from r{row}c{column}, so go {direction}", direction

    def _best_move(self, state: State) -> str:
        length = self._lengths[state]
        for direction in DIRECTIONS:
            if self._lengths.get(after(self._room, state, direction), length) < length:
                return direction
        raise ValueError("the board is solved already")
