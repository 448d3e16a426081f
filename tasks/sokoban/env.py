"""The environment: rules and rewards of gym-sokoban, in standard Sokoban notation.

The notation is that of published level collections, with `_` for an empty floor so that columns
stay visible in text: `#` wall, `_` floor, `.` target, `@` player, `+` player on a target, `$` box,
`*` box on a target.

Rewards per turn, as in gym-sokoban 0.0.6: -0.1 for the turn, +1 for a box pushed onto a target,
-1 for a box pushed off one, +10 when the last box reaches a target.
"""

from collections.abc import Sequence

DIRECTIONS = ("up", "down", "left", "right")
SYMBOLS = "#_.@+$*"

TURN_REWARD = -0.1
BOX_ON_TARGET_REWARD = 1.0
BOX_OFF_TARGET_REWARD = -1.0
SOLVED_REWARD = 10.0

_FLOOR, _TARGET, _PLAYER, _PLAYER_ON_TARGET, _BOX, _BOX_ON_TARGET = b"_.@+$*"


class SokobanEnv:
    """One Sokoban board in play.

    The board is one byte string with a line break after each row, so that one index addresses a
    cell, a row below is a constant offset away, and the text needs no assembly.

    Args:
        board: Rows of one level: equally long, walled in, one player, as many boxes as targets.

    Raises:
        ValueError: The rows are not such a level.
    """

    def __init__(self, board: Sequence[str]) -> None:
        check_board(board)
        stride = len(board[0]) + 1
        self._cells = bytearray("\n".join(board).encode("ascii"))
        self._offsets = {"up": -stride, "down": stride, "left": -1, "right": 1}
        self._name = [f"r{i // stride}c{i % stride}" for i in range(len(self._cells))]
        self._player = next(i for i, c in enumerate(self._cells) if c in b"@+")
        self._boxes = [i for i, c in enumerate(self._cells) if c in b"$*"]
        self._boxes_off_target = self._cells.count(_BOX)
        targets = [i for i, c in enumerate(self._cells) if c in b".+*"]
        inner = [
            i
            for i, c in enumerate(self._cells)
            if c in b"#" and 0 < i // stride < len(board) - 1 and 0 < i % stride < stride - 2
        ]
        self._fixed = f"Inner walls: {self._names(inner)}\nTargets: {self._names(targets)}"

    @property
    def solved(self) -> bool:
        """Whether every box is on a target."""
        return not self._boxes_off_target

    @property
    def board(self) -> tuple[str, ...]:
        """The rows as they are now."""
        return tuple(self._cells.decode("ascii").split("\n"))

    def move(self, direction: str | None) -> float:
        """Play one turn and return its reward.

        A direction moves the player one cell and pushes the box that is there, if the cell behind
        the box is free; a blocked move changes nothing. None lets the turn pass.

        Raises:
            KeyError: Not one of `DIRECTIONS`.
        """
        if direction is None:
            return TURN_REWARD
        offset = self._offsets[direction]
        cells = self._cells
        ahead = self._player + offset
        cell = cells[ahead]
        reward = TURN_REWARD
        if cell in (_BOX, _BOX_ON_TARGET):
            beyond = ahead + offset
            if cells[beyond] == _FLOOR:
                cells[beyond] = _BOX
                if cell == _BOX_ON_TARGET:
                    self._boxes_off_target += 1
                    reward += BOX_OFF_TARGET_REWARD
            elif cells[beyond] == _TARGET:
                cells[beyond] = _BOX_ON_TARGET
                if cell == _BOX:
                    self._boxes_off_target -= 1
                    reward += BOX_ON_TARGET_REWARD
                    if not self._boxes_off_target:
                        reward += SOLVED_REWARD
            else:
                return reward
            boxes = self._boxes
            boxes[boxes.index(ahead)] = beyond
            cell = _FLOOR if cell == _BOX else _TARGET
        if cell == _FLOOR:
            cells[ahead] = _PLAYER
        elif cell == _TARGET:
            cells[ahead] = _PLAYER_ON_TARGET
        else:
            return reward
        player = self._player
        cells[player] = _FLOOR if cells[player] == _PLAYER else _TARGET
        self._player = ahead
        return reward

    def pieces(self) -> str:
        """Coordinates of what moves: `Boxes: r3c4` and `Player: r1c2`, on two lines."""
        return f"Boxes: {self._names(self._boxes)}\nPlayer: {self._name[self._player]}"

    def observation(self) -> str:
        """The board and the coordinates of everything on it, as text.

        What changes stands last, so that its distance from the end does not depend on the room.
        """
        return f"{self._cells.decode('ascii')}\n{self._fixed}\n{self.pieces()}"

    def _names(self, cells: list[int]) -> str:
        if len(cells) == 1:
            return self._name[cells[0]]
        return ", ".join([self._name[i] for i in sorted(cells)]) or "none"


def check_board(board: Sequence[str]) -> None:
    """Check that rows form a level that can be played.

    Raises:
        ValueError: Unknown symbols, ragged or unwalled rows, not exactly one player, no box, or
            other than one target per box.
    """
    text = "".join(board)
    if not board or {len(row) for row in board} != {len(board[0])} or set(text) - set(SYMBOLS):
        raise ValueError(f"not a board of equally long rows of {SYMBOLS!r}: {board!r}")
    rim = board[0] + board[-1] + "".join(row[0] + row[-1] for row in board)
    if set(rim) != {"#"}:
        raise ValueError(f"the board is not walled in: {board!r}")
    boxes = sum(map(text.count, "$*"))
    targets = sum(map(text.count, ".+*"))
    if sum(map(text.count, "@+")) != 1 or not boxes or boxes != targets:
        raise ValueError(f"a level has one player and a target for each of its boxes: {board!r}")
