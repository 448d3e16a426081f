"""The interface of a host, which runs episodes."""

from abc import ABC, abstractmethod
from typing import Self

from tasks.base import Task
from tasks.episode import Step, View
from tasks.panels import PanelEntry


class WorldError(Exception):
    """What a world raised in another process; the text is the original's type and message."""


class WorkerDied(Exception):
    """The process that an episode lived in ended while it served this episode."""


class LiveEpisode(ABC):
    """A running episode, wherever it lives. One call at a time."""

    @abstractmethod
    async def reset(self) -> View:
        """See `tasks.episode.Episode.reset`."""

    @abstractmethod
    async def step(self, response: str) -> Step:
        """See `tasks.episode.Episode.step`."""

    @abstractmethod
    async def scripted(self, policy: str, seed: int) -> str:
        """The response of the task's scripted policy to the current view.

        Args:
            policy: `expert` or `random`.
            seed: Where the random policy's draws come from.
        """

    @abstractmethod
    def close(self) -> None:
        """Free what the episode holds, without waiting for it."""


class EnvHost(ABC):
    """Opens episodes; nothing of a result depends on where they live.

    Use as an asynchronous context manager: leaving it ends what was started.

    Every method of an episode may raise what its world raises (in another process: `WorldError`)
    and `WorkerDied`.
    """

    @abstractmethod
    async def open(self, task: Task, entry: PanelEntry, max_turns: int) -> LiveEpisode:
        """Open an episode; see `tasks.base.Task.episode`."""

    async def __aenter__(self) -> Self:
        """Nothing is started before it is needed."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End what was started."""
