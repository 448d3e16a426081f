"""Episodes in this process."""

from benchmark.hosts.base import EnvHost, LiveEpisode
from benchmark.hosts.worker import scripted_response
from tasks.base import Task
from tasks.episode import Episode, Step, View
from tasks.panels import PanelEntry


class InlineEpisode(LiveEpisode):
    """An episode of this process: every call is the world's own, made at once."""

    def __init__(self, task: Task, episode: Episode) -> None:
        self._task = task
        self._episode = episode

    async def reset(self) -> View:
        """Call the world."""
        return self._episode.reset()

    async def step(self, response: str) -> Step:
        """Call the world."""
        return self._episode.step(response)

    async def scripted(self, policy: str, seed: int) -> str:
        """Call the task."""
        return scripted_response(self._task, self._episode, policy, seed)

    def close(self) -> None:
        """Call the world.

        Raises:
            Exception: What the world raises.
        """
        self._episode.close()


class InlineHost(EnvHost):
    """Episodes of this process, for worlds with quick steps."""

    async def open(self, task: Task, entry: PanelEntry, max_turns: int) -> LiveEpisode:
        """Open an episode here."""
        return InlineEpisode(task, task.episode(entry, max_turns))
