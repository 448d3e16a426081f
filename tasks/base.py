"""The contract of a task: the types that flow between a world and the harness.

A task is a folder with a `task.py` that defines a subclass of `Task`. The harness knows tasks only
through this file: it asks for a panel, opens an `Episode` per entry, shows the model the messages
of a `View` and hands each response to `Episode.step` until the returned `Step` has an outcome.

Everything that crosses this border is immutable and can be pickled, so that an episode may live in
another process.
"""

import os
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypedDict

from tasks.errors import UserError, near
from tasks.response import format_response


class Message(TypedDict):
    """One chat message, as chat templates and OpenAI-compatible servers take it."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class PanelEntry:
    """One episode of a panel.

    Attributes:
        id: Unique within its task; stands in every record.
        category: The group it is reported under (an optimal length, a task type, a level).
        data: What the task needs to set the world up; JSON values only.
    """

    id: str
    category: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PanelDefaults:
    """How the standard protocol plays a panel: greedily and once, where nothing else is said.

    Attributes:
        max_tokens: Longest response, in tokens.
        temperature: 0 is greedy decoding.
        top_p: Nucleus; 1 is off.
        top_k: Number of candidates; 0 is off.
        repeats: Plays of every episode.
    """

    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class PanelInfo:
    """What is known of a panel without reading it.

    Attributes:
        name: `builtin`, or the field's own name of the data.
        description: One line for people.
        episodes: Number of entries.
        max_turns: Turns after which an episode ends.
        sha256: Hash of the panel's file.
        random_success: Band (low, high) in which the random policy's success must lie; None where
            it was not measured.
        expert_success: Success that the scripted expert reaches at least; None likewise.
        trace_sha256: Hash over everything the expert's and the random policy's episodes showed and
            paid. It changes when the world does: then the task's version must change too. None
            where it was not measured.
        standard: How the standard protocol plays it.
    """

    name: str
    description: str
    episodes: int
    max_turns: int
    sha256: str
    random_success: tuple[float, float] | None
    expert_success: float | None
    trace_sha256: str | None
    standard: PanelDefaults = PanelDefaults()


@dataclass(frozen=True, slots=True)
class Panel:
    """A pinned, ordered list of episodes; every one is played once per repeat."""

    task: str
    info: PanelInfo
    entries: tuple[PanelEntry, ...]

    @property
    def name(self) -> str:
        """The panel's name within its task."""
        return self.info.name


@dataclass(frozen=True, slots=True)
class View:
    """What the model is shown before a turn.

    Attributes:
        messages: The prompt.
        observation: The bare observation, without history or instructions. It is what records
            hash, what the report draws and what step-level advantages group by.
        admissible: Actions that the world admits now; empty where they cannot be listed.
    """

    messages: tuple[Message, ...]
    observation: str
    admissible: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended.

    Attributes:
        success: The goal was reached.
        score: The task's own score, in the unit that `TaskInfo.score_unit` names.
    """

    success: bool
    score: float


@dataclass(frozen=True, slots=True)
class Worst:
    """What the worst failure of a task comes to.

    Attributes:
        score: The task's score.
        reward: Sum of the world's rewards.
    """

    score: float
    reward: float


@dataclass(frozen=True, slots=True)
class Step:
    """What one response did.

    Attributes:
        action: The action as the world understood it; None if nothing was executed.
        format_ok: The response kept the contract.
        action_ok: The action is one that the world admitted.
        reward: The world's own reward; the format penalty is not in it.
        view: What is seen now. Its messages are the next prompt; they are empty at the end.
        outcome: Set on the last turn, None before.
        info: Further JSON facts for the record (reward parts, say).
    """

    action: str | None
    format_ok: bool
    action_ok: bool
    reward: float
    view: View
    outcome: Outcome | None
    info: Mapping[str, Any] = field(default_factory=dict)


class ReplayStep(NamedTuple):
    """What a recorded response did in a replay.

    Attributes:
        step: What it did.
        doubt: Why the world can neither confirm nor refute what was recorded, and went on from the
            record; None where it can.
    """

    step: Step
    doubt: str | None


class Episode(ABC):
    """One play of one panel entry, from `reset` to a step with an outcome."""

    @abstractmethod
    def reset(self) -> View:
        """Set the world up and show it. May be called again to start over."""

    @abstractmethod
    def step(self, response: str) -> Step:
        """Hand over the model's raw response to the current view.

        Raises:
            RuntimeError: Called before `reset` or after the episode ended.
        """

    def replay_step(
        self, response: str, recorded: Mapping[str, Any], trust: bool = False
    ) -> ReplayStep:
        """Take a recorded response, in a replay.

        Args:
            response: The model's raw response.
            recorded: The `Step.info` that was recorded; from outside. Worlds with steps of which
                not everything can be repeated (programs that ask for the time) may go on from it.
            trust: What takes long to repeat may be taken from `recorded`: nothing is to be proven.

        Raises:
            RuntimeError: See `step`.
        """
        del recorded, trust
        return ReplayStep(self.step(response), None)

    def close(self) -> None:
        """Free what the episode holds (processes, files)."""


@dataclass(frozen=True, slots=True)
class Tile:
    """How one symbol of a drawn observation looks in the report.

    Attributes:
        kind: Name for people and screen readers ("box on a target").
        fill: Background colour of the cell.
        glyph: Shape on it: "", "box", "player", "dot" or a combination such as "dot box".
    """

    kind: str
    fill: str
    glyph: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """A choice that a task leaves to the user; what was chosen is part of the protocol.

    Attributes:
        default: What the standard protocol has.
        description: One line for people.
        choices: What can be chosen; empty where the task itself checks what it is given.
        dangerous: Choices that only the user of this machine may make: a run that was played with
            one is not replayed unless the user makes it, too.
    """

    default: str
    description: str
    choices: tuple[str, ...] = ()
    dangerous: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """What is the same for all episodes of a task.

    Attributes:
        name: The folder's name.
        title: For people.
        version: Changes whenever anything that a model or a record sees changes.
        summary: One line for people.
        history_turns: Past turns that the prompt repeats.
        format_penalty: Cost of a turn that is not `format_ok` and `action_ok`.
        score_name: What the score measures.
        score_unit: Its unit; scores of different units are never averaged together.
        category_name: What entries are grouped by in results.
        field_panel: The panel that the field reports, where it is not the built-in one.
        tiles: Symbols of grid observations and how the report draws them; empty for texts.
        keys: Single keys that stand for actions when a person plays.
        unit: The sequence that losses and token ids are about: a `turn`, whose prompt is made
            again from the last turns, or the whole `trajectory`, in which every prompt goes on from
            the one before.
        worker_processes: Episodes live in worker processes: steps take long, or libraries are not
            thread-safe.
        slow_replay: A replay runs programs; reports, which prove nothing, show what was recorded.
        data_variable: Environment variable that names the folder of the task's downloaded data.
        settings: What can be chosen with `--set TASK.NAME=VALUE`, by name.
        typing: What a person who plays types into a line.
    """

    name: str
    title: str
    version: str
    summary: str
    history_turns: int
    format_penalty: float
    score_name: str
    score_unit: str
    category_name: str
    field_panel: str | None = None
    tiles: Mapping[str, Tile] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    unit: Literal["turn", "trajectory"] = "turn"
    worker_processes: bool = False
    slow_replay: bool = False
    data_variable: str | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    typing: str = "type an action"


class Task(ABC):
    """A world with rules, a prompt, panels and scripted players."""

    info: ClassVar[TaskInfo]
    _chosen: Mapping[str, str] = MappingProxyType({})
    """Values of settings that are not the standard ones, by name."""

    def configured(self, settings: Mapping[str, str]) -> Self:
        """This task with some settings chosen.

        Raises:
            UserError: The task has no such setting, or a value is not possible.
        """
        for name, value in settings.items():
            known = self.info.settings.get(name)
            if known is None:
                raise UserError(
                    f"task {self.info.name} has no setting {name!r}"
                    f"{near(name, tuple(self.info.settings))}"
                )
            if known.choices and value not in known.choices:
                raise UserError(
                    f"{self.info.name}.{name} must be {' or '.join(known.choices)}, not {value!r}"
                )
        chosen = {
            name: value
            for name, value in {**self._chosen, **settings}.items()
            if value != self.info.settings[name].default
        }
        if chosen == self._chosen:
            return self
        task = type(self)()
        task._chosen = chosen
        return task

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes get class and settings, and make one instance that serves all."""
        return _instance, (type(self), tuple(sorted(self._chosen.items())))

    @abstractmethod
    def panels(self) -> Mapping[str, PanelInfo]:
        """All panels of the task, `builtin` first."""

    @abstractmethod
    def panel(self, name: str) -> Panel:
        """Read a panel and check its hash.

        Raises:
            UserError: No such panel, its data is not there, or a hash differs.
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
            return "builtin"
        named = bool(self.info.data_variable and os.environ.get(self.info.data_variable))
        return field_panel if named or self.available(field_panel) else "builtin"

    @abstractmethod
    def training_entry(self, index: int, seed: int = 0) -> PanelEntry:
        """Entry number `index` of the training stream `seed`.

        The stream is endless, the same on every machine, open at any index, and holds no episode
        of any panel.
        """

    @abstractmethod
    def identity(self, entry: PanelEntry) -> str:
        """What makes two entries the same problem, symmetries included.

        Keeps training and panels apart.
        """

    @abstractmethod
    def episode(self, entry: PanelEntry, max_turns: int) -> Episode:
        """Open an episode. Nothing is shared between two episodes."""

    @abstractmethod
    def expert_response(self, episode: Episode) -> str:
        """The scripted expert's response to the episode's current view."""

    def demonstration_response(self, episode: Episode) -> str:
        """What the episodes that inits are cloned from answer to the current view: the expert.

        Another player where the expert knows more than the prompt shows: a clone of that one would
        learn to guess.
        """
        return self.expert_response(episode)

    def mistaken_response(self, episode: Episode, rng: random.Random) -> str:
        """What a clone may do wrong here; any admissible action where nothing better is known.

        Demonstrations with noise do it now and then, so that a clone has seen how to go on.
        """
        return self.random_response(episode, rng)

    def careless_response(self, episode: Episode, rng: random.Random) -> str:
        """What a careless player answers to the current view; what may be done wrong by default.

        Demonstrations with mistakes show it as what is to be done: a clone has both habits.
        """
        return self.mistaken_response(episode, rng)

    @abstractmethod
    def random_response(self, episode: Episode, rng: random.Random) -> str:
        """A well-formed response with an action drawn from those that the world admits."""

    def typed_response(self, line: str) -> str:
        """The response that stands for what a person has typed; an action where no task differs."""
        return format_response("", line)

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

    def describe(self, entry: PanelEntry) -> str:
        """What an entry asks for, in one line for people; empty where all entries ask the same."""
        del entry
        return ""

    def expected_turns(self, entry: PanelEntry) -> float:
        """How long an episode is expected to be, to start the longest first; moves no result."""
        del entry
        return 0.0

    def settings(self) -> Mapping[str, str]:
        """The value of each of the task's settings; part of the protocol.

        Raises:
            UserError: A value is not possible here.
        """
        known = self.info.settings
        return {name: self._chosen.get(name, setting.default) for name, setting in known.items()}

    def require(self) -> None:
        """Check that episodes can be played here, before anything that takes long is begun.

        Raises:
            UserError: They cannot; the message says what is missing.
        """

    def packages(self) -> Mapping[str, str]:
        """Versions of installed packages that the world's behavior depends on."""
        return {}

    @property
    def training_max_turns(self) -> int:
        """Turn limit of training episodes: that of the built-in panel."""
        return self.panels()["builtin"].max_turns


@cache
def _instance(task: type[Task], chosen: tuple[tuple[str, str], ...]) -> Task:
    return task().configured(dict(chosen))
