"""The task `sokoban`: levels in play, training levels and scripted players."""

import random
from functools import cache, cached_property
from pathlib import Path

from jinja2 import Template

from tasks.base import Episode, PanelEntry, TaskInfo, Worst
from tasks.response import format_response
from tasks.seeding import stable_seed
from tasks.sokoban.beeline import beeline
from tasks.sokoban.drawing import KEYS, TILES
from tasks.sokoban.env import DIRECTIONS, TURN_REWARD, SokobanEnv
from tasks.sokoban.expert import Expert
from tasks.sokoban.generator import Size, generate
from tasks.sokoban.symmetry import room_key
from tasks.text_task import Done, Seen, TextEpisode, TextTask

PANELS = Path(__file__).parent / "panels"
_TRAINING_SIZE = Size(height=6, width=6, boxes=1)
TRAINING_LENGTHS = range(3, 15)
"""Optimal lengths of training levels, drawn evenly; the same as the built-in panel's."""


class SokobanEpisode(TextEpisode):
    """One level in play.

    Args:
        board: The level's rows.
        max_turns: Turns after which the episode ends.
        template: The prompt.
    """

    def __init__(self, board: tuple[str, ...], max_turns: int, template: Template) -> None:
        super().__init__(max_turns, template)
        self._board = board
        self._world = SokobanEnv(board)

    @property
    def board(self) -> tuple[str, ...]:
        """The rows as they are now."""
        return self._world.board

    @cached_property
    def expert(self) -> Expert:
        """The expert for this level; the room is solved when it is first asked for."""
        return Expert(self._board)

    def start(self) -> Seen:
        """Set the level up."""
        self._world = SokobanEnv(self._board)
        return Seen(self._world.observation(), DIRECTIONS)

    def act(self, action: str | None) -> Done:
        """Move; without a direction the turn passes."""
        admitted = action in DIRECTIONS
        reward = self._world.move(action if admitted else None)
        seen = Seen(self._world.observation(), DIRECTIONS)
        return Done(admitted, seen, reward, self._world.solved)


class SokobanTask(TextTask[SokobanEpisode]):
    """Push every box onto a target, one move a turn."""

    info = TaskInfo(
        name="sokoban",
        title="Sokoban",
        version="2",
        summary="Push every box onto a target; one move a turn.",
        # The board says everything; past turns would double the length of every prompt.
        history_turns=0,
        format_penalty=0.1,
        score_name="reward",
        score_unit="points",
        category_name="optimal length",
        tiles=TILES,
        keys=KEYS,
    )
    folder = Path(__file__).parent
    episodes = SokobanEpisode

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        """A level in a room that no panel has, in any rotation or reflection."""
        rng = random.Random(stable_seed("sokoban-training", seed, index))
        length = TRAINING_LENGTHS[int(rng.random() * len(TRAINING_LENGTHS))]
        while True:
            board = generate(_TRAINING_SIZE, length, rng)
            if board is not None and room_key(board) not in self._panel_rooms():
                data = {"board": list(board), "optimal_length": length}
                return PanelEntry(f"train-{seed}-{index}", str(length), data)

    def identity(self, entry: PanelEntry) -> str:
        """The room (walls and targets) up to rotation and reflection: stricter than the level."""
        return room_key(entry.data["board"])

    def episode(self, entry: PanelEntry, max_turns: int) -> SokobanEpisode:
        """Open a level."""
        return SokobanEpisode(tuple(entry.data["board"]), max_turns, self._prompt.template)

    def expert_response(self, episode: Episode) -> str:
        """The next move of a shortest solution."""
        own = self.own(episode)
        return format_response(*own.expert.turn(own.board))

    def mistaken_response(self, episode: Episode, rng: random.Random) -> str:
        """The next move of a player who makes straight for the target."""
        del rng
        return format_response(*beeline(self.own(episode).board))

    def random_response(self, episode: Episode, rng: random.Random) -> str:
        """One of the four directions."""
        return format_response("", DIRECTIONS[int(rng.random() * len(DIRECTIONS))])

    def worst(self, max_turns: int) -> Worst:
        """Every turn is paid for and nothing is gained: no level starts with a box on a target."""
        return Worst(score=TURN_REWARD * max_turns, reward=TURN_REWARD * max_turns)

    def expected_turns(self, entry: PanelEntry) -> float:
        """The optimal length: harder levels also fail more often, at the turn limit."""
        return float(entry.data["optimal_length"])

    @cache  # noqa: B019 - one instance a process
    def _panel_rooms(self) -> frozenset[str]:
        return frozenset(
            self.identity(entry) for name in self.panels() for entry in self.panel(name).entries
        )


TASK = SokobanTask
