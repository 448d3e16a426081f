"""The task `sokoban`: levels in play, training levels and scripted players."""

import json
import random
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Final

from tasks.base import Setting, TaskInfo, Worst
from tasks.episode import Episode
from tasks.panels import Panel, PanelEntry
from tasks.prompts import Prompt, read_prompt
from tasks.response import format_response
from tasks.seeding import stable_seed
from tasks.sokoban.beeline import beeline
from tasks.sokoban.drawing import PRESENTATION
from tasks.sokoban.env import TURN_REWARD
from tasks.sokoban.generator import TRAINING_LENGTHS, TRAINING_SIZE, generate
from tasks.sokoban.play import Level
from tasks.sokoban.positions import positions_text
from tasks.sokoban.symmetry import room_key
from tasks.text_task import TextTask

_VIEW: Final = "view"
_PIXELS: Final = "pixels"
PIXELS_PROMPT: Final = "prompt_pixels.md"
PIXELS_TRACES: Final = "pixels.json"
"""Of each panel, the hash of what the scripted players saw, as `tasks.trace` has it."""


class SokobanTask(TextTask[Level]):
    """Push every box onto a target, one move a turn."""

    # No history: the board says everything; past turns would double the length of every prompt.
    info = TaskInfo(
        name="sokoban",
        version="2",
        presentation=PRESENTATION,
        settings={
            _VIEW: Setting(
                "text",
                "how the board is shown: as text, or as an image for vision-language models",
                ("text", _PIXELS),
                joined_later=True,
            )
        },
    )
    folder = Path(__file__).parent

    def world(self, entry: PanelEntry) -> Level:
        """The level as it starts."""
        return Level(tuple(entry.data["board"]), self._sees_pixels)

    def own_prompt(self) -> Prompt:
        """`prompt.md`, or `prompt_pixels.md` where the board is an image."""
        return self._pixels_prompt if self._sees_pixels else super().own_prompt()

    @cached_property
    def _pixels_prompt(self) -> Prompt:
        return read_prompt(self.folder, PIXELS_PROMPT)

    def panel(self, name: str) -> Panel:
        """Read a panel; images have a trace of their own, in `pixels.json`."""
        panel = super().panel(name)
        if not self._sees_pixels:
            return panel
        traces = json.loads((self.folder / PIXELS_TRACES).read_text("utf-8"))
        return replace(panel, info=replace(panel.info, trace_sha256=traces[name]))

    @property
    def _sees_pixels(self) -> bool:
        return self._chosen.get(_VIEW) == _PIXELS

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        """A level in a room that no panel has, in any rotation or reflection."""
        rng = random.Random(stable_seed("sokoban-training", seed, index))
        length = TRAINING_LENGTHS[int(rng.random() * len(TRAINING_LENGTHS))]
        while True:
            board = generate(TRAINING_SIZE, length, rng)
            if board is not None and room_key(board) not in self.panel_problems():
                data = {"board": list(board), "optimal_length": length}
                return PanelEntry(f"train-{seed}-{index}", str(length), data)

    def identity(self, entry: PanelEntry) -> str:
        """The room (walls and targets) up to rotation and reflection: stricter than the level."""
        return room_key(entry.data["board"])

    def expert(self, world: Level) -> tuple[str, str]:
        """The next move of a shortest solution."""
        return world.solver.turn(world.board)

    def demonstration_response(self, episode: Episode) -> str:
        """The expert; of an image, it first tells what it sees.

        So a clone of it learns to see, cell by cell, before it learns to plan.
        """
        return self._telling(episode, *self.expert(self.in_play(episode).world))

    def careless_response(self, episode: Episode, rng: random.Random) -> str:
        """The next move of a player who heads straight for the target, in the same words."""
        del rng
        return self._telling(episode, *beeline(self.in_play(episode).world.board))

    def _telling(self, episode: Episode, thought: str, action: str) -> str:
        """A response; of an image, what is seen stands before the thought."""
        board = self.in_play(episode).world.board
        return format_response(
            f"{positions_text(board)} {thought}" if self._sees_pixels else thought, action
        )

    def mistaken_response(self, episode: Episode, rng: random.Random) -> str:
        """The next move of a player who makes straight for the target."""
        del rng
        return format_response(*beeline(self.in_play(episode).world.board))

    def worst(self, max_turns: int) -> Worst:
        """Every turn is paid for and nothing is gained: no level starts with a box on a target."""
        return Worst(score=TURN_REWARD * max_turns, reward=TURN_REWARD * max_turns)

    def expected_turns(self, entry: PanelEntry) -> float:
        """The optimal length: harder levels also fail more often, at the turn limit."""
        return float(entry.data["optimal_length"])


TASK = SokobanTask
