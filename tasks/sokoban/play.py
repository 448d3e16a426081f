"""A level in play: observations, and effects of actions."""

from functools import cached_property

from tasks.sokoban.env import DIRECTIONS, SokobanEnv
from tasks.sokoban.expert import Expert
from tasks.text_task import Done, Seen, World


class Level(SokobanEnv, World):
    """One level in play."""

    @cached_property
    def solver(self) -> Expert:
        """The expert for this room, which is solved when it is first asked for."""
        return Expert(self.board)

    def look(self) -> Seen:
        """The board and everything on it."""
        return Seen(self.observation(), DIRECTIONS)

    def act(self, action: str | None) -> Done:
        """Move; without a direction the turn passes."""
        admitted = action in DIRECTIONS
        reward = self.move(action if admitted else None)
        return Done(admitted, reward, success=self.solved)
