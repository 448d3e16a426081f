"""The task `alfworld`: panels, prompt, episodes and scripted players."""

import json
import random
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Template

from tasks.alfworld.engine import package
from tasks.alfworld.engine.game import Game
from tasks.alfworld.engine.pddl import PddlError
from tasks.alfworld.env import NOTHING_HAPPENS, AlfworldEnv, Seen
from tasks.alfworld.expert import Expert
from tasks.alfworld.games import (
    VARIABLE,
    RealGame,
    all_there,
    check_games,
    is_real,
    read_game,
)
from tasks.alfworld.goals import Goal, task_texts
from tasks.alfworld.household import Household, household_key
from tasks.alfworld.problem import problem_text
from tasks.alfworld.searcher import Searcher
from tasks.alfworld.stream import training_household
from tasks.base import (
    Episode,
    Panel,
    PanelEntry,
    TaskInfo,
    Worst,
)
from tasks.errors import UserError
from tasks.response import format_response
from tasks.seeding import canonical_json
from tasks.text_task import Done, TextEpisode, TextTask
from tasks.text_task import Seen as Shown

BUILTIN = "builtin"
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


class AlfworldEpisode(TextEpisode):
    """One game in play.

    Args:
        entry: What is played.
        max_turns: Turns after which the episode ends.
        history_turns: Past turns that the prompt repeats.
        template: The prompt.
    """

    longest_action = 80
    no_action = "no command"

    def __init__(
        self, entry: PanelEntry, max_turns: int, history_turns: int, template: Template
    ) -> None:
        super().__init__(max_turns, template, history_turns)
        self._world = AlfworldEnv(_game(entry.id, canonical_json(dict(entry.data))))
        self._now: Seen | None = None
        self._commands: list[str] = []
        self.goal = goal_of(entry)
        self._expert = Expert(self._world, self.goal, entry.data.get("walkthrough", ()))

    @property
    def admissible(self) -> tuple[str, ...]:
        """The commands that the prompt lists."""
        return self.seen.admissible

    def start(self) -> Shown:
        """Set the game up."""
        self._now = self._world.reset()
        self._commands.clear()
        return self._shown_of(self._now)

    def act(self, action: str | None) -> Done:
        """Do what is admissible; else the turn passes."""
        assert self._now is not None
        admitted = action in self._now.admissible
        now = Seen(NOTHING_HAPPENS, self._now.admissible, won=False)
        if action is not None and admitted:
            now = self._world.step(action)
            self._commands.append(action)
        self._now = now
        return Done(admitted, self._shown_of(now), REWARD if now.won else 0.0, success=now.won)

    def expert_move(self) -> tuple[str, str]:
        """What the expert thinks and does now."""
        self.check_running()
        return self._expert.move(self._commands)

    def searcher_move(self) -> tuple[str, str]:
        """What a player thinks and does who knows only what the prompt shows."""
        return self._searcher().move()

    def stroll_move(self) -> tuple[str, str]:
        """What a player thinks and does who walks past everything."""
        return self._searcher().stroll()

    def mistake(self, rng: random.Random) -> str | None:
        """A response that takes or places at random, often in vain; None for no such thing."""
        if rng.random() < _LISTED_MISTAKES:
            return None
        command = self._searcher().slip(rng)
        return None if command is None else format_response("", command)

    def _searcher(self) -> Searcher:
        last = self._commands[-1] if self._commands else ""
        return Searcher(self.goal, last, self.admissible)

    def _shown_of(self, now: Seen) -> Shown:
        return Shown(now.text, _listed(now), {"task": self._world.game.task})


class AlfworldTask(TextTask[AlfworldEpisode]):
    """Do a household chore by text commands."""

    info = TaskInfo(
        name="alfworld",
        title="ALFWorld",
        version="1",
        summary="Do a household chore by text commands.",
        history_turns=2,
        format_penalty=0.1,
        score_name="reward",
        score_unit="points",
        category_name="task type",
        field_panel="valid_seen",
        worker_processes=True,
        data_variable=VARIABLE,
    )
    folder = Path(__file__).parent
    episodes = AlfworldEpisode

    def panel(self, name: str) -> Panel:
        """Read a panel; for the field's, also check that all its games are there."""
        panel = super().panel(name)
        package.check_versions()
        if name != BUILTIN:
            check_games(name, tuple(RealGame.of(entry) for entry in panel.entries))
        return panel

    def available(self, name: str) -> bool:
        """Whether the panel can be played here, as far as a look at the folder tells."""
        if name not in self.panels():
            return False
        entries = super().panel(name).entries
        return name == BUILTIN or all_there(tuple(RealGame.of(entry) for entry in entries))

    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        """A generated household that is in no panel."""
        household = training_household(index, seed)
        return PanelEntry(f"train-{seed}-{index}", household.task_type, household.to_data())

    def identity(self, entry: PanelEntry) -> str:
        """What stands and lies where and what is asked, however things are numbered."""
        if is_real(entry):
            return RealGame.of(entry).sha256
        return household_key(Household.from_data(entry.data))

    def episode(self, entry: PanelEntry, max_turns: int) -> AlfworldEpisode:
        """Open a game."""
        return AlfworldEpisode(entry, max_turns, self.info.history_turns, self._prompt.template)

    def expert_response(self, episode: Episode) -> str:
        """The next command of a solution; the expert knows where everything is."""
        return format_response(*self.own(episode).expert_move())

    def demonstration_response(self, episode: Episode) -> str:
        """The next command of a search that uses only what the prompt shows."""
        return format_response(*self.own(episode).searcher_move())

    def mistaken_response(self, episode: Episode, rng: random.Random) -> str:
        """A listed command, or the use of a thing that is not there."""
        return self.own(episode).mistake(rng) or self.random_response(episode, rng)

    def careless_response(self, episode: Episode, rng: random.Random) -> str:
        """The next command of a player who walks past everything."""
        del rng
        return format_response(*self.own(episode).stroll_move())

    def random_response(self, episode: Episode, rng: random.Random) -> str:
        """One of the listed commands."""
        commands = self.own(episode).admissible
        return format_response("", commands[int(rng.random() * len(commands))])

    def worst(self, max_turns: int) -> Worst:
        """Nothing is earned."""
        del max_turns
        return Worst(score=0.0, reward=0.0)

    def describe(self, entry: PanelEntry) -> str:
        """The task's wording."""
        return _game(entry.id, canonical_json(dict(entry.data))).task

    def expected_turns(self, entry: PanelEntry) -> float:
        """The kept walkthrough's length; of real games, nothing is known."""
        return float(len(entry.data.get("walkthrough", ())))

    def packages(self) -> Mapping[str, str]:
        """The package whose domain, grammar and tables are the world's rules."""
        return package.check_versions()


def goal_of(entry: PanelEntry) -> Goal:
    """What an entry asks for."""
    if is_real(entry):
        name = RealGame.of(entry).name
        return Goal(name.task_type, name.target.lower(), name.destination.lower())
    data: Mapping[str, Any] = entry.data
    return Goal(data["task_type"], data["target"].lower(), data["destination"].lower())


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


def _listed(seen: Seen) -> tuple[str, ...]:
    """The admissible commands as the prompt lists them.

    What concerns the same thing stands together, things in their order, so that one sees where in
    the room one is; `help`, which only repeats what the prompt says, is left out.
    """
    return tuple(sorted((command for command in seen.admissible if command != _HELP), key=_about))


def _about(command: str) -> tuple[str, int, str]:
    """What a command concerns, `cabinet` and 3, and the command; general ones come last."""
    match = _THING.search(command)
    return (match[1], int(match[2]), command) if match else (_LAST, 0, command)


TASK = AlfworldTask
