"""Asynchronous rollouts: plays while the policy is updated, with bounded staleness.

After `v` updates at most `max_staleness + 1` batches are in flight or waiting. They are consumed in
order, at least one per update, so a batch that started with weights `v` is learned from in update
`v + max_staleness + 1` at the latest: its staleness is at most `max_staleness` updates. Turns
sampled after new weights have arrived use those; rows record both versions.

Source: the pipeline of AgentRL (arXiv 2510.04206), section 3; its bound is not published.
"""

import asyncio
from collections import deque
from typing import Self

from baselines.rollouts.collector import Collector
from baselines.rollouts.rows import PlayedGroup


class AsyncCollector(Collector):
    """Keeps the engine busy; an async context manager that drops batches in flight on exit.

    Takes the arguments of a `Collector`; `rollout.max_staleness` must be set, and the engine keeps
    generating while weights are replaced. A resumed run replays batches that were in flight.
    Progress is not reported for batches played in the background.
    """

    _begun: int
    _batches: deque[asyncio.Task[list[PlayedGroup]]]

    async def __aenter__(self) -> Self:
        """Start with nothing in flight; `advance` starts batches."""
        self._begun = self.position
        self._batches = deque()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Drop everything in flight."""
        for batch in self._batches:
            batch.cancel()
        await asyncio.gather(*self._batches, return_exceptions=True)

    def advance(self, updates: int) -> None:
        """After a weight update, start the batches that the bound allows and updates need."""
        staleness = self.config.rollout.max_staleness
        assert staleness is not None
        while len(self._batches) < min(staleness + 1, updates):
            self._begin()

    async def settle(self) -> None:
        """Wait until everything in flight has been played, or this process has to stop.

        Errors are raised later, when the batch is taken.
        """
        if self._batches:
            await self._players.unless_stopped(asyncio.wait(self._batches))

    def _begin(self) -> None:
        """Start this process's share of one more batch."""
        count = self.config.rollout.groups
        places = self.places(self._begun, count)
        self._begun += count
        self._batches.append(asyncio.create_task(self.play(self._players.mine(places))))

    async def _batch(self, count: int) -> list[PlayedGroup]:
        """The oldest batch; starts one if an update needs more than there are."""
        if not self._batches:
            self._begin()
        played = await self._players.together_unless_stopped(self._batches.popleft())
        return self.in_order(played, self.next_places(count))
