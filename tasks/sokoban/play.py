"""A level in play: observations, and effects of actions."""

from collections.abc import Sequence
from functools import cached_property

from tasks.sokoban.env import DIRECTIONS, SokobanEnv
from tasks.sokoban.expert import Expert
from tasks.sokoban.pixels import draw_board
from tasks.text_task import Done, Seen, World


class Level(SokobanEnv, World):
    """One level in play.

    Args:
        board: See `SokobanEnv`.
        pixels: The model is shown an image of the board.
    """

    def __init__(self, board: Sequence[str], pixels: bool = False) -> None:
        super().__init__(board)
        self._pixels = pixels

    @cached_property
    def solver(self) -> Expert:
        """The expert for this room, which is solved when it is first asked for."""
        return Expert(self.board)

    def look(self) -> Seen:
        """The board and everything on it."""
        images = (draw_board(self.board),) if self._pixels else ()
        return Seen(self.observation(), DIRECTIONS, images=images)

    def act(self, action: str | None) -> Done:
        """Move; without a direction the turn passes."""
        admitted = action in DIRECTIONS
        reward = self.move(action if admitted else None)
        return Done(admitted, reward, success=self.solved)
