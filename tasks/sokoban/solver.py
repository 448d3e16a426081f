"""Exact distances by reverse play: backward from all solved states, over pulls and steps."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.sokoban.env import DIRECTIONS

Cell = int
State = tuple[Cell, tuple[Cell, ...]]
"""The player's cell and the boxes' cells in ascending order; cells count row by row from 0."""


@dataclass(frozen=True, slots=True)
class Room:
    """What never moves on a board: its floor (targets included) and targets."""

    width: int
    height: int
    floor: frozenset[Cell]
    targets: tuple[Cell, ...]

    @classmethod
    def of(cls, board: Sequence[str]) -> "Room":
        """The room of a board in standard notation."""
        text = "".join(board)
        floor = frozenset(i for i, symbol in enumerate(text) if symbol != "#")
        targets = tuple(i for i, symbol in enumerate(text) if symbol in ".+*")
        return cls(len(board[0]), len(board), floor, targets)

    def offset(self, direction: str) -> int:
        """Difference between neighboring cells in a direction."""
        return {"up": -self.width, "down": self.width, "left": -1, "right": 1}[direction]

    def board(self, state: State) -> tuple[str, ...]:
        """Draw a state in standard notation."""
        player, boxes = state
        symbols = []
        for cell in range(self.width * self.height):
            on_target = cell in self.targets
            if cell not in self.floor:
                symbols.append("#")
            elif cell == player:
                symbols.append("+" if on_target else "@")
            elif cell in boxes:
                symbols.append("*" if on_target else "$")
            else:
                symbols.append("." if on_target else "_")
        text = "".join(symbols)
        return tuple(text[i : i + self.width] for i in range(0, len(text), self.width))


def state_of(board: Sequence[str]) -> State:
    """Where the player and the boxes are on a board."""
    text = "".join(board)
    player = next(i for i, symbol in enumerate(text) if symbol in "@+")
    return player, tuple(i for i, symbol in enumerate(text) if symbol in "$*")


def distances(room: Room) -> dict[State, int]:
    """Fewest moves to a solved state, for every state of the room that can be solved.

    Breadth-first from all solved states at once. A move in direction d that ends in state s began
    either with the player one cell back, or also with a box where the player is now that the move
    pushed one cell ahead. The number of states is bounded by the room (one box in 4 x 4 cells:
    240; two boxes in 6 x 6: 21,420), so the search is exhaustive and the lengths are exact.
    """
    offsets = [room.offset(direction) for direction in DIRECTIONS]
    solved = [(cell, room.targets) for cell in sorted(room.floor - set(room.targets))]
    found: dict[State, int] = dict.fromkeys(solved, 0)
    queue = deque(solved)
    while queue:
        state = queue.popleft()
        player, boxes = state
        length = found[state] + 1
        for offset in offsets:
            before = player - offset
            if before not in room.floor or before in boxes:
                continue
            earlier = [(before, boxes)]
            pushed = player + offset
            if pushed in boxes:
                pulled = tuple(sorted(player if box == pushed else box for box in boxes))
                earlier.append((before, pulled))
            for previous in earlier:
                if previous not in found:
                    found[previous] = length
                    queue.append(previous)
    return found


def after(room: Room, state: State, direction: str) -> State:
    """The state that a move leads to; the same state if the move is blocked."""
    player, boxes = state
    offset = room.offset(direction)
    ahead = player + offset
    if ahead not in room.floor:
        return state
    if ahead not in boxes:
        return ahead, boxes
    beyond = ahead + offset
    if beyond not in room.floor or beyond in boxes:
        return state
    return ahead, tuple(sorted(beyond if box == ahead else box for box in boxes))
