"""What tasks of text worlds share: one prompt and one action a turn, in the think-action contract.

A world says what it shows (`Seen`) and what an action did (`Done`). The rest is here: the panels'
files, the prompt with its history, the parser, the count of turns, the end of an episode.
"""

import math
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

from jinja2 import Template

from tasks.base import Episode, Message, Outcome, Panel, PanelInfo, Step, Task, View
from tasks.panels import read_index, read_panel
from tasks.prompts import read_prompt
from tasks.response import CONTRACT, normalize_action, parse_response
from tasks.texts import cut

PANELS = "panels"
"""Folder of a task's panels, in the task's own."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a world shows.

    Attributes:
        observation: See `View.observation`.
        admissible: See `View.admissible`.
        prompt: What the template is given beside or in the place of `observation`, `admissible`,
            `turn`, `max_turns` and `history`. The history repeats its `observation`.
    """

    observation: str
    admissible: tuple[str, ...] = ()
    prompt: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """What an action did.

    Attributes:
        admitted: The world admitted it.
        seen: What is seen now.
        reward: What the world paid.
        success: The goal is reached, which ends the episode.
        over: The episode ends, whether or not the goal is reached.
        score: The task's score if it ends; None for the sum of all rewards.
        info: See `Step.info`.
    """

    admitted: bool
    seen: Seen
    reward: float = 0.0
    success: bool = False
    over: bool = False
    score: float | None = None
    info: Mapping[str, Any] = field(default_factory=dict)


class TextEpisode(Episode):
    """One play of a text world.

    Args:
        max_turns: Turns after which it ends.
        template: The prompt.
        history_turns: Past turns that the prompt repeats.
    """

    longest_prompt: ClassVar[int | None] = None
    """Characters; a longer prompt is shown without the past turns. None for no limit."""
    longest_action: ClassVar[int] = 200
    """Characters of an action that the history repeats: a model may have written anything."""
    no_action: ClassVar[str] = "no action"
    """What the history says where nothing was done."""

    def __init__(self, max_turns: int, template: Template, history_turns: int = 0) -> None:
        self._max_turns = max_turns
        self._template = template
        self._history: deque[dict[str, str | int]] = deque(maxlen=history_turns)
        self._rewards: list[float] = []
        self._seen: Seen | None = None
        self._turn = 0

    @abstractmethod
    def start(self) -> Seen:
        """Set the world up. May be called again to start over."""

    @abstractmethod
    def act(self, action: str | None) -> Done:
        """Do what a response says.

        Args:
            action: As `normalized` has it; None if the response has none: the turn passes.
        """

    def normalized(self, action: str) -> str:
        """An action as the world knows it."""
        return normalize_action(action)

    @property
    def seen(self) -> Seen:
        """What is shown now.

        Raises:
            RuntimeError: The episode is not running.
        """
        self.check_running()
        assert self._seen is not None
        return self._seen

    def check_running(self) -> None:
        """Check that the episode was reset and has not ended.

        Raises:
            RuntimeError: It was not, or has.
        """
        if not self._turn:
            raise RuntimeError("the episode is not running: reset it first")

    def reset(self) -> View:
        """Set the world up and show it."""
        self._seen = self.start()
        self._history.clear()
        self._rewards.clear()
        self._turn = 1
        return self._view(self._seen)

    def step(self, response: str) -> Step:
        """Do what the response says; what the world does not admit lets the turn pass."""
        before = self.seen
        parsed = parse_response(response)
        action = None if parsed.action is None else self.normalized(parsed.action)
        done = self.act(action)
        self._rewards.append(done.reward)
        observation = before.prompt.get("observation", before.observation)
        self._history.append(
            {"turn": self._turn, "observation": observation, "action": self._shown(action)}
        )
        self._seen = done.seen
        ended = done.success or done.over or self._turn == self._max_turns
        self._turn = 0 if ended else self._turn + 1
        score = math.fsum(self._rewards) if done.score is None else done.score
        return Step(
            action=action if done.admitted else None,
            format_ok=parsed.format_ok,
            action_ok=done.admitted,
            reward=done.reward,
            view=View((), done.seen.observation) if ended else self._view(done.seen),
            outcome=Outcome(done.success, score) if ended else None,
            info=done.info,
        )

    def _view(self, seen: Seen) -> View:
        text = self._prompt(seen, self._history)
        if self.longest_prompt is not None and len(text) > self.longest_prompt:
            text = self._prompt(seen, ())
        return View((Message(role="user", content=text),), seen.observation, seen.admissible)

    def _prompt(self, seen: Seen, history: Sequence[Mapping[str, str | int]]) -> str:
        values: dict[str, Any] = {
            "turn": self._turn,
            "max_turns": self._max_turns,
            "history": history,
            "observation": seen.observation,
            "admissible": seen.admissible,
        }
        return self._template.render(values | dict(seen.prompt))

    def _shown(self, action: str | None) -> str:
        if not action:
            return self.no_action
        return cut(action, self.longest_action, "...")


E = TypeVar("E", bound=TextEpisode)


class TextTask(Task, Generic[E]):
    """A text world with its panels and its prompt as files: `panels/` and `prompt.md`."""

    folder: ClassVar[Path]
    """The task's own."""
    episodes: ClassVar[type[TextEpisode]]
    """The class of its episodes."""

    def __init__(self) -> None:
        self._prompt = read_prompt(self.folder)

    def panels(self) -> Mapping[str, PanelInfo]:
        """Those of `panels/index.json`."""
        return read_index(self.folder / PANELS)

    def panel(self, name: str) -> Panel:
        """Read a panel from its file and check the hash."""
        return read_panel(self.info.name, self.folder / PANELS, name)

    def prompt_template(self) -> str:
        """The text of `prompt.md`."""
        return self._prompt.text

    def contract(self) -> str:
        """The think-action contract."""
        return CONTRACT

    def own(self, episode: Episode) -> E:
        """An episode as one of this task's.

        Raises:
            TypeError: It is another task's.
        """
        if not isinstance(episode, self.episodes):
            raise TypeError(f"not an episode of {self.info.title}: {episode!r}")
        return cast("E", episode)
