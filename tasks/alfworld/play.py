"""A game in play: observations, effects of commands, and the scripted players."""

import json
import random
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from tasks.alfworld.engine.game import Game
from tasks.alfworld.engine.pddl import PddlError
from tasks.alfworld.env import NOTHING_HAPPENS, AlfworldEnv, Shown
from tasks.alfworld.expert import Expert
from tasks.alfworld.games import RealGame, is_real, read_game
from tasks.alfworld.goals import Goal, task_texts
from tasks.alfworld.household import Household
from tasks.alfworld.problem import problem_text
from tasks.alfworld.searcher import Searcher
from tasks.errors import UserError
from tasks.panels import PanelEntry
from tasks.seeding import canonical_json
from tasks.text_task import Done, Seen, World

REWARD = 10.0
"""For a solved game, as in the field's environment; nothing else is paid."""

_HELP = "help"
_THING = re.compile(r"([a-z]+) ([0-9]+)$")
_LAST = "~"
"""Sorts behind all names."""
_LISTED_MISTAKES = 0.3
"""Share of the mistakes in demonstrations that are listed commands, which do something."""
_GAMES_KEPT = 32
"""Games that stay ready in memory: the episodes of a training group share theirs."""


class GameInPlay(World):
    """One game in play.

    Args:
        entry: What is played.
    """

    def __init__(self, entry: PanelEntry) -> None:
        self._env = AlfworldEnv(game_of(entry))
        self._now = self._env.reset()
        self._commands: list[str] = []
        self._goal = goal_of(entry)
        self._expert = Expert(self._env, self._goal, entry.data.get("walkthrough", ()))

    def look(self) -> Seen:
        """What the last command did, and the commands that can be given."""
        return Seen(self._now.text, _listed(self._now), {"task": self._env.game.task})

    def act(self, action: str | None) -> Done:
        """Do what is admissible; else the turn passes."""
        admitted = action in self._now.admissible
        now = Shown(NOTHING_HAPPENS, self._now.admissible, won=False)
        if action is not None and admitted:
            now = self._env.step(action)
            self._commands.append(action)
        self._now = now
        return Done(admitted, REWARD if now.won else 0.0, success=now.won)

    def expert_move(self) -> tuple[str, str]:
        """What the expert thinks and does now."""
        return self._expert.move(self._commands)

    def searcher_move(self) -> tuple[str, str]:
        """What a player thinks and does who knows only what the prompt shows."""
        return self._searcher().move()

    def stroll_move(self) -> tuple[str, str]:
        """What a player thinks and does who walks past everything."""
        return self._searcher().stroll()

    def mistake(self, rng: random.Random) -> str | None:
        """A command that takes or places at random, often in vain; None for no such thing."""
        if rng.random() < _LISTED_MISTAKES:
            return None
        return self._searcher().slip(rng)

    def _searcher(self) -> Searcher:
        last = self._commands[-1] if self._commands else ""
        return Searcher(self._goal, last, _listed(self._now))


def goal_of(entry: PanelEntry) -> Goal:
    """What an entry asks for."""
    if is_real(entry):
        name = RealGame.of(entry).name
        return Goal(name.task_type, name.target.lower(), name.destination.lower())
    data: Mapping[str, Any] = entry.data
    return Goal(data["task_type"], data["target"].lower(), data["destination"].lower())


def game_of(entry: PanelEntry) -> Game:
    """The game of an entry, ready to be played.

    Raises:
        UserError: Its file is missing, is another one, or is rejected by the domain.
    """
    return _game(entry.id, canonical_json(dict(entry.data)))


@lru_cache(maxsize=_GAMES_KEPT)
def _game(identifier: str, data: str) -> Game:
    """The game of an entry, by its id and its data as canonical JSON."""
    entry = PanelEntry(identifier, "", json.loads(data))
    if is_real(entry):
        real = RealGame.of(entry)
        problem, task = read_game(real)
        try:
            return Game(problem, task)
        except PddlError as error:
            raise UserError(f"{real.path}: the domain rejects the problem: {error}") from error
    household = Household.from_data(entry.data)
    texts = task_texts(household.task_type, household.target, household.destination)
    return Game(problem_text(household), texts[household.text])


def _listed(now: Shown) -> tuple[str, ...]:
    """The admissible commands as the prompt lists them.

    What concerns the same thing stands together, things in their order, so that one sees where in
    the room one is; `help`, which only repeats what the prompt says, is left out.
    """
    return tuple(sorted((command for command in now.admissible if command != _HELP), key=_about))


def _about(command: str) -> tuple[str, int, str]:
    """What a command concerns, `cabinet` and 3, and the command; general ones come last."""
    match = _THING.search(command)
    return (match[1], int(match[2]), command) if match else (_LAST, 0, command)
