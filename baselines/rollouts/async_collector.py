"""Asynchronous rollouts: plays while the policy is updated, with bounded staleness.

After `v` updates at most `max_staleness + 1` batches are under way or waiting. They are taken in
order, one an update at least, so that a batch that was begun with weights `v` is learned from in
update `v + max_staleness + 1` at the latest: its staleness is at most `max_staleness` updates.
Turns that are drawn after new weights have come are drawn from those; rows keep both numbers.

Source: the pipeline of AgentRL (arXiv 2510.04206), section 3; its bound is not published.
"""

import asyncio
from collections import deque
from typing import Self

from baselines.rollouts.collector import Collector
from baselines.rollouts.rows import PlayedGroup


class AsyncCollector(Collector):
    """Keeps the engine busy. An asynchronous context: leaving it drops what is under way.

    Takes what a `Collector` takes; `rollout.max_staleness` is set, and the engine generates also
    while weights are replaced. What was under way when a run ended is played again. Batches that
    are played while something else is done are not counted.
    """

    _begun: int
    _batches: deque[asyncio.Task[list[PlayedGroup]]]

    async def __aenter__(self) -> Self:
        """Nothing is under way yet; `advance` begins it."""
        self._begun = self.position
        self._batches = deque()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Drop what is under way."""
        for batch in self._batches:
            batch.cancel()
        await asyncio.gather(*self._batches, return_exceptions=True)

    def advance(self, updates: int) -> None:
        """The engine has new weights: begin the batches that the bound allows and updates want."""
        staleness = self.config.rollout.max_staleness
        assert staleness is not None
        while len(self._batches) < min(staleness + 1, updates):
            self._begin()

    async def settle(self) -> None:
        """Wait until what is under way has been played, or this process has to stop.

        An error is raised when what has been played is taken.
        """
        if self._batches:
            await self._players.unless_stopped(asyncio.wait(self._batches))

    def _begin(self) -> None:
        """Begin one more batch, this process's share of it."""
        count = self.config.rollout.groups
        places = self.places(self._begun, count)
        self._begun += count
        self._batches.append(asyncio.create_task(self.play(self._players.mine(places))))

    async def _batch(self, count: int) -> list[PlayedGroup]:
        """The oldest batch; one that is begun now if an update wants more than there are."""
        if not self._batches:
            self._begin()
        played = await self._players.together_unless_stopped(self._batches.popleft())
        return self.in_order(played, self.next_places(count))
