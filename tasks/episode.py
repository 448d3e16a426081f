"""The interface of an episode: what it shows, and what a response does.

Everything here is immutable (but for the episode itself) and can be pickled, so that an episode may
live in another process.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tasks.chat.images import Image
from tasks.chat.messages import Message


@dataclass(frozen=True, slots=True)
class View:
    """What the model is shown before a turn.

    Attributes:
        messages: The prompt.
        observation: The bare observation, without history or instructions. It is what records
            hash, what the report draws and what step-level advantages group by.
        admissible: Actions that the world admits now; empty where they cannot be listed.
        images: The observation's images. Where they take the place of its text in the messages,
            the text says what they show: equal texts, equal images.
    """

    messages: tuple[Message, ...]
    observation: str
    admissible: tuple[str, ...] = ()
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended.

    Attributes:
        success: The goal was reached.
        score: The task's own score, in the unit that `Presentation.score_unit` names.
    """

    success: bool
    score: float


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
