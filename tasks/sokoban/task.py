"""The task `sokoban`: panels, prompt, episodes and scripted players."""

import math
import random
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path

from jinja2 import Template

from tasks.base import (
    Episode,
    Message,
    Outcome,
    Panel,
    PanelEntry,
    PanelInfo,
    Step,
    Task,
    TaskInfo,
    Tile,
    View,
    Worst,
)
from tasks.panels import read_index, read_panel
from tasks.prompts import read_prompt
from tasks.response import CONTRACT, format_response, normalize_action, parse_response
from tasks.seeding import stable_seed
from tasks.sokoban.beeline import beeline
from tasks.sokoban.env import DIRECTIONS, TURN_REWARD, SokobanEnv
from tasks.sokoban.expert import Expert
from tasks.sokoban.generator import Size, generate
from tasks.sokoban.symmetry import room_key

_FOLDER = Path(__file__).parent
PANELS = _FOLDER / "panels"
_TRAINING_SIZE = Size(height=6, width=6, boxes=1)
TRAINING_LENGTHS = range(3, 15)
"""Optimal lengths of training levels, drawn evenly; the same as the built-in panel's."""

_FLOOR, _WALL, _TARGET = "#efe9dd", "#5d5a56", "#f6d58e"


class SokobanEpisode(Episode):
    """One level in play.

    Args:
        board: The level's rows.
        max_turns: Turns after which the episode ends.
        template: The prompt.
    """

    def __init__(self, board: tuple[str, ...], max_turns: int, template: Template) -> None:
        self._board = board
        self._max_turns = max_turns
        self._template = template
        self._world: SokobanEnv | None = None
        self._turn = 0
        self._rewards: list[float] = []

    @property
    def board(self) -> tuple[str, ...]:
        """The rows as they are now."""
        return self._running().board

    @cached_property
    def expert(self) -> Expert:
        """The expert for this level; the room is solved when it is first asked for."""
        return Expert(self._board)

    def reset(self) -> View:
        """Set the level up."""
        self._world = SokobanEnv(self._board)
        self._turn = 1
        self._rewards.clear()
        return self._view(self._world)

    def step(self, response: str) -> Step:
        """Move as the response says; a response without a direction lets the turn pass."""
        world = self._running()
        parsed = parse_response(response)
        action = normalize_action(parsed.action) if parsed.action is not None else None
        action_ok = action in DIRECTIONS
        reward = world.move(action if action_ok else None)
        self._rewards.append(reward)
        done = world.solved or self._turn == self._max_turns
        outcome = Outcome(world.solved, math.fsum(self._rewards)) if done else None
        self._turn += 1
        view = View((), world.observation()) if done else self._view(world)
        if done:
            self._turn = 0
        return Step(
            action if action_ok else None, parsed.format_ok, action_ok, reward, view, outcome
        )

    def _running(self) -> SokobanEnv:
        if self._world is None or not self._turn:
            raise RuntimeError("the episode is not running: reset it first")
        return self._world

    def _view(self, world: SokobanEnv) -> View:
        observation = world.observation()
        text = self._template.render(
            turn=self._turn, max_turns=self._max_turns, observation=observation
        )
        return View((Message(role="user", content=text),), observation, DIRECTIONS)


class SokobanTask(Task):
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
        tiles={
            "#": Tile("wall", _WALL),
            "_": Tile("floor", _FLOOR),
            ".": Tile("target", _TARGET, "dot"),
            "$": Tile("box", _FLOOR, "box"),
            "*": Tile("box on a target", _TARGET, "box"),
            "@": Tile("player", _FLOOR, "player"),
            "+": Tile("player on a target", _TARGET, "dot player"),
        },
        keys={
            "w": "up",
            "s": "down",
            "a": "left",
            "d": "right",
            "\x1b[A": "up",
            "\x1b[B": "down",
            "\x1b[D": "left",
            "\x1b[C": "right",
        },
    )

    def __init__(self) -> None:
        self._prompt = read_prompt(_FOLDER)

    def panels(self) -> Mapping[str, PanelInfo]:
        """`builtin` (one box) and `two_boxes`."""
        return read_index(PANELS)

    def panel(self, name: str) -> Panel:
        """Read a panel from its file and check the hash."""
        return read_panel(self.info.name, PANELS, name)

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
        board = tuple(entry.data["board"])
        return SokobanEpisode(board, max_turns, self._prompt.template)

    def expert_response(self, episode: Episode) -> str:
        """The next move of a shortest solution."""
        own = self._own(episode)
        return format_response(*own.expert.turn(own.board))

    def mistaken_response(self, episode: Episode, rng: random.Random) -> str:
        """The next move of a player who makes straight for the target."""
        del rng
        return format_response(*beeline(self._own(episode).board))

    def random_response(self, episode: Episode, rng: random.Random) -> str:
        """One of the four directions."""
        return format_response("", DIRECTIONS[int(rng.random() * len(DIRECTIONS))])

    def worst(self, max_turns: int) -> Worst:
        """Every turn is paid for and nothing is gained: no level starts with a box on a target."""
        return Worst(score=TURN_REWARD * max_turns, reward=TURN_REWARD * max_turns)

    def expected_turns(self, entry: PanelEntry) -> float:
        """The optimal length: harder levels also fail more often, at the turn limit."""
        return float(entry.data["optimal_length"])

    def prompt_template(self) -> str:
        """The text of `prompt.md`."""
        return self._prompt.text

    def contract(self) -> str:
        """The think-action contract."""
        return CONTRACT

    @cache  # noqa: B019 - one instance a process
    def _panel_rooms(self) -> frozenset[str]:
        return frozenset(
            self.identity(entry) for name in self.panels() for entry in self.panel(name).entries
        )

    @staticmethod
    def _own(episode: Episode) -> SokobanEpisode:
        if not isinstance(episode, SokobanEpisode):
            raise TypeError(f"not a Sokoban episode: {episode!r}")
        return episode


TASK = SokobanTask
