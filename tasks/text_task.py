"""Base of text tasks: one prompt and one action per turn, in the think-action format.

A world says what it shows (`Seen`) and what an action did (`Done`). The rest is here: the panels'
files, the prompt with its history, the parser, the count of turns, the end of an episode.
"""

import math
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from jinja2 import TemplateError

from tasks.base import Task
from tasks.chat.images import Image
from tasks.chat.messages import user_message
from tasks.episode import Episode, Outcome, Step, View
from tasks.errors import UserError
from tasks.panels import Panel, PanelEntry, PanelInfo, read_index, read_panel
from tasks.prompts import PROMPT, Prompt, read_prompt
from tasks.response import CONTRACT, format_response, normalize_action, parse_response
from tasks.texts import cut

PANELS = "panels"
"""Folder of a task's panels, in the task's own."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a world shows.

    Attributes:
        observation: See `View.observation`.
        admissible: See `View.admissible`.
        prompt: What the template is given beside or instead of `observation`, `admissible`,
            `turn`, `max_turns` and `history`. The history repeats its `observation`.
        images: What stands behind the prompt's text; see `View.images`.
    """

    observation: str
    admissible: tuple[str, ...] = ()
    prompt: Mapping[str, Any] = field(default_factory=dict)
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """What an action did.

    Attributes:
        admitted: The world admitted it.
        reward: What the world paid.
        success: The goal is reached, which ends the episode.
        over: The episode ends, whether or not the goal is reached.
        score: The task's score if it ends; None for the sum of all rewards.
        info: See `Step.info`.
    """

    admitted: bool
    reward: float = 0.0
    success: bool = False
    over: bool = False
    score: float | None = None
    info: Mapping[str, Any] = field(default_factory=dict)


class World(ABC):
    """One world in play; every play of an entry gets one of its own."""

    @abstractmethod
    def look(self) -> Seen:
        """What is shown now."""

    @abstractmethod
    def act(self, action: str | None) -> Done:
        """Do what a response says.

        Args:
            action: As `normalized` has it; None if the response has none: the turn passes.
        """

    def normalized(self, action: str) -> str:
        """An action as the world knows it."""
        return normalize_action(action)


W = TypeVar("W", bound=World)


class TextEpisode(Episode, Generic[W]):
    """One play of a text world.

    Args:
        task: Makes the world and has the prompt.
        entry: What is played.
        max_turns: Turns after which it ends.
    """

    def __init__(self, task: "TextTask[W]", entry: PanelEntry, max_turns: int) -> None:
        self.entry = entry
        self._task = task
        self._max_turns = max_turns
        self._history: deque[dict[str, str | int]] = deque(maxlen=task.info.history_turns)
        self._rewards: list[float] = []
        self._in_play: tuple[W, Seen] | None = None
        self._turn = 0

    @property
    def world(self) -> W:
        """The world.

        Raises:
            RuntimeError: The episode is not running.
        """
        return self._running()[0]

    @property
    def seen(self) -> Seen:
        """What is shown now.

        Raises:
            RuntimeError: The episode is not running.
        """
        return self._running()[1]

    def reset(self) -> View:
        """Make the world and show it."""
        world = self._task.world(self.entry)
        seen = world.look()
        self._history.clear()
        self._rewards.clear()
        self._turn = 1
        self._in_play = world, seen
        return self._view(seen)

    def step(self, response: str) -> Step:
        """Do what the response says; what the world does not admit lets the turn pass."""
        world, before = self._running()
        parsed = parse_response(response)
        action = None if parsed.action is None else world.normalized(parsed.action)
        done = world.act(action)
        seen = world.look()
        self._rewards.append(done.reward)
        observation = before.prompt.get("observation", before.observation)
        self._history.append(
            {"turn": self._turn, "observation": observation, "action": self._shown(action)}
        )
        ended = done.success or done.over or self._turn == self._max_turns
        self._turn += 1
        self._in_play = None if ended else (world, seen)
        score = math.fsum(self._rewards) if done.score is None else done.score
        return Step(
            action=action if done.admitted else None,
            format_ok=parsed.format_ok,
            action_ok=done.admitted,
            reward=done.reward,
            view=View((), seen.observation, images=seen.images) if ended else self._view(seen),
            outcome=Outcome(done.success, score) if ended else None,
            info=done.info,
        )

    def _running(self) -> tuple[W, Seen]:
        if self._in_play is None:
            raise RuntimeError("the episode is not running: reset it first")
        return self._in_play

    def _view(self, seen: Seen) -> View:
        text = self._prompt(seen, self._history)
        longest = self._task.longest_prompt
        if longest is not None and len(text) > longest:
            text = self._prompt(seen, ())
        message = user_message(text, seen.images)
        return View((message,), seen.observation, seen.admissible, seen.images)

    def _prompt(self, seen: Seen, history: Sequence[Mapping[str, str | int]]) -> str:
        values: dict[str, Any] = {
            "turn": self._turn,
            "max_turns": self._max_turns,
            "history": history,
            "observation": seen.observation,
            "admissible": seen.admissible,
        }
        return self._task.prompt(values | dict(seen.prompt))

    def _shown(self, action: str | None) -> str:
        if not action:
            return self._task.no_action
        return cut(action, self._task.longest_action, "...")


class TextTask(Task, Generic[W]):
    """A text world with its panels and its prompt as files: `panels/` and `prompt.md`.

    A subclass says what its worlds are (`world`), who wins in them (`expert`), what is trained on
    (`training_entry`, `identity`) and what the worst play comes to (`worst`).
    """

    folder: ClassVar[Path]
    """The task's own."""
    longest_prompt: ClassVar[int | None] = None
    """Characters; a longer prompt is shown without the past turns. None for no limit."""
    longest_action: ClassVar[int] = 200
    """Characters of an action that the history repeats: a model may have written anything."""
    no_action: ClassVar[str] = "no action"
    """What the history says where nothing was done."""

    def __init__(self) -> None:
        self._prompt = read_prompt(self.folder)

    @abstractmethod
    def world(self, entry: PanelEntry) -> W:
        """Make an entry's world, as it is at the start. Two worlds share nothing that changes."""

    @abstractmethod
    def expert(self, world: W) -> tuple[str, str]:
        """What the scripted expert thinks and does now."""

    def episode(self, entry: PanelEntry, max_turns: int) -> TextEpisode[W]:
        """Open an episode."""
        return TextEpisode(self, entry, max_turns)

    def expert_response(self, episode: Episode) -> str:
        """What the expert thinks and does now, as a response."""
        return format_response(*self.expert(self.in_play(episode).world))

    def random_response(self, episode: Episode, rng: random.Random) -> str:
        """One of the listed actions; to be overridden where a world does not list them."""
        actions = self.in_play(episode).seen.admissible
        return format_response("", actions[int(rng.random() * len(actions))])

    def in_play(self, episode: Episode) -> TextEpisode[W]:
        """An episode as one of this task's.

        Raises:
            TypeError: It is another task's.
        """
        if not isinstance(episode, TextEpisode) or episode._task.folder != self.folder:
            title = self.info.presentation.title
            raise TypeError(f"not an episode of {title}: {episode!r}")
        return episode

    def panels(self) -> Mapping[str, PanelInfo]:
        """Those of `panels/index.json`."""
        return read_index(self.folder / PANELS)

    def panel(self, name: str) -> Panel:
        """Read a panel from its file and check the hash."""
        return read_panel(self.info.name, self.folder / PANELS, name)

    @cache  # noqa: B019 - one instance a process
    def panel_problems(self) -> frozenset[str]:
        """The `identity` of every entry of every panel, for training streams to leave out."""
        return frozenset(
            self.identity(entry) for name in self.panels() for entry in self.panel(name).entries
        )

    def own_prompt(self) -> Prompt:
        """The prompt in use: `prompt.md`, unless a setting has another."""
        return self._prompt

    def prompt_template(self) -> str:
        """The text of the prompt in use."""
        return self.own_prompt().text

    def prompt(self, values: Mapping[str, Any]) -> str:
        """Fill in the prompt.

        Raises:
            UserError: The template names what is not there.
        """
        try:
            return self.own_prompt().template.render(values)
        except TemplateError as error:
            known = ", ".join(sorted(values))
            raise UserError(f"{self.folder / PROMPT}: {error}; there are {known}") from error

    def contract(self) -> str:
        """The think-action contract."""
        return CONTRACT
