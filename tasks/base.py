"""The interface of a task.

A task is a folder with a `task.py` that names a subclass of `Task` as `TASK`. The harness knows
tasks only through this contract: it asks for a panel (`panels.py`), opens an `Episode` per entry
(`episode.py`), shows the model the messages of a `View` and hands each response to `Episode.step`
until the returned `Step` has an outcome. Training asks for entries and scripted players
(`training.py`), people are shown what `presentation.py` says.

Most tasks are text worlds, for which `text_task.py` has everything but the world.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self

from tasks.episode import Episode
from tasks.errors import UserError, suggestion
from tasks.panels import BUILTIN, Panel, PanelEntry, PanelInfo
from tasks.presentation import Presentation
from tasks.response import format_response
from tasks.training import Trainable


@dataclass(frozen=True, slots=True)
class Worst:
    """Score and reward of the worst possible failure.

    Attributes:
        score: The task's score.
        reward: Sum of the world's rewards.
    """

    score: float
    reward: float


@dataclass(frozen=True, slots=True)
class Setting:
    """A choice that a task leaves to the user; what was chosen is part of the protocol.

    Attributes:
        default: What the standard protocol has.
        description: One line for people.
        choices: What can be chosen; empty where the task itself checks what it is given.
        dangerous: Choices that only the user of this machine may make: a run that was played with
            one is not replayed unless the user makes it, too.
        joined_later: Runs of the standard were there before the setting: its default is not in the
            protocol, whose fingerprint stays as it was.
    """

    default: str
    description: str
    choices: tuple[str, ...] = ()
    dangerous: tuple[str, ...] = ()
    joined_later: bool = False


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """What is the same for all episodes of a task.

    Attributes:
        name: The folder's name.
        version: Changes whenever anything that a model or a record sees changes.
        presentation: How the task is shown.
        history_turns: Past turns that the prompt repeats.
        format_penalty: Cost of a turn that is not `format_ok` and `action_ok`.
        field_panel: The panel that the field reports, where it is not the built-in one.
        unit: The sequence that losses and token ids are about: a `turn`, whose prompt is made
            again from the last turns, or the whole `trajectory`, in which every prompt goes on from
            the one before.
        worker_processes: Episodes live in worker processes: steps take long, or libraries are not
            thread-safe.
        slow_replay: A replay runs programs; reports, which prove nothing, show what was recorded.
        data_variable: Environment variable that names the folder of the task's downloaded data.
        settings: What can be chosen with `--set TASK.NAME=VALUE`, by name.
    """

    name: str
    version: str
    presentation: Presentation
    history_turns: int = 0
    format_penalty: float = 0.1
    field_panel: str | None = None
    unit: Literal["turn", "trajectory"] = "turn"
    worker_processes: bool = False
    slow_replay: bool = False
    data_variable: str | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)


class Task(Trainable, ABC):
    """A world with rules, a prompt, panels and scripted players."""

    info: ClassVar[TaskInfo]
    _chosen: Mapping[str, str] = MappingProxyType({})
    """Values of settings that are not the standard ones, by name."""

    @abstractmethod
    def panels(self) -> Mapping[str, PanelInfo]:
        """All panels of the task, `builtin` first."""

    @abstractmethod
    def panel(self, name: str) -> Panel:
        """Read a panel and check its hash.

        Raises:
            UserError: No such panel, its data is not there, or a hash differs.
        """

    @abstractmethod
    def episode(self, entry: PanelEntry, max_turns: int) -> Episode:
        """Open an episode. Nothing is shared between two episodes."""

    @abstractmethod
    def prompt_template(self) -> str:
        """The text of the prompt's template; its hash is part of the protocol."""

    @abstractmethod
    def contract(self) -> str:
        """Name of the rule that reads responses; part of the protocol."""

    @abstractmethod
    def worst(self, max_turns: int) -> Worst:
        """What the worst failure scores and earns.

        An episode that could not be played to its end is given this, so that an error never
        raises a mean.
        """

    def available(self, name: str) -> bool:
        """Whether the panel's data is on this machine; built-in panels always are."""
        return name in self.panels()

    def default_panel(self) -> str:
        """The panel that is played where none is named.

        The field's panel where its data is there or was named by the user (who must be told if it
        is incomplete), else `builtin`.
        """
        field_panel = self.info.field_panel
        if field_panel is None:
            return BUILTIN
        named = bool(self.info.data_variable and os.environ.get(self.info.data_variable))
        return field_panel if named or self.available(field_panel) else BUILTIN

    @property
    def training_max_turns(self) -> int:
        """Turn limit of training episodes: that of the built-in panel."""
        return self.panels()[BUILTIN].max_turns

    def expected_turns(self, entry: PanelEntry) -> float:
        """How long an episode is expected to be, to start the longest first; moves no result."""
        del entry
        return 0.0

    def describe(self, entry: PanelEntry) -> str:
        """What an entry asks for, in one line for people; empty where all entries ask the same."""
        del entry
        return ""

    def typed_response(self, line: str) -> str:
        """The response that stands for what a person has typed; an action where no task differs."""
        return format_response("", line)

    def require(self) -> None:
        """Check that episodes can be played here, before anything that takes long is begun.

        Raises:
            UserError: They cannot; the message says what is missing.
        """

    def packages(self) -> Mapping[str, str]:
        """Versions of installed packages that the world's behavior depends on."""
        return {}

    def settings(self) -> Mapping[str, str]:
        """The value of each setting, but defaults of `joined_later` ones; part of the protocol.

        Raises:
            UserError: A value is not possible here.
        """
        known = self.info.settings
        return {
            name: self._chosen.get(name, setting.default)
            for name, setting in known.items()
            if name in self._chosen or not setting.joined_later
        }

    def configured(self, settings: Mapping[str, str]) -> Self:
        """This task with some settings chosen.

        Raises:
            UserError: The task has no such setting, or a value is not possible.
        """
        known = self.info.settings
        for name, value in settings.items():
            if name not in known:
                raise UserError(
                    f"task {self.info.name} has no setting {name!r}{suggestion(name, tuple(known))}"
                )
            if (choices := known[name].choices) and value not in choices:
                raise UserError(
                    f"{self.info.name}.{name} must be {' or '.join(choices)}, not {value!r}"
                )
        chosen = {
            name: value
            for name, value in {**self._chosen, **settings}.items()
            if value != known[name].default
        }
        if chosen == self._chosen:
            return self
        task = type(self)()
        task._chosen = chosen
        return task

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes get class and settings, and make one instance that serves all."""
        return _instance, (type(self), tuple(sorted(self._chosen.items())))


@cache
def _instance(task: type[Task], chosen: tuple[tuple[str, str], ...]) -> Task:
    return task().configured(dict(chosen))
