"""Collects groups of episodes from the training stream until an update has enough."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from baselines.algorithms.sampling import Dynamic
from baselines.config.run import unit_of
from baselines.config.schema import TrainConfig
from baselines.rollouts.process_shards import Count, ProcessShards, no_progress
from baselines.rollouts.rows import PlayedGroup, Row, group_jobs, played_group
from benchmark.engines.core.base import Engine
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.rollout import Job, Trajectory, play
from benchmark.hosts.base import EnvHost
from tasks.base import Task
from tasks.errors import UserError


class NothingPlayed(UserError):
    """No episode of a rollout could be played; all processes raise this at the same point."""


@dataclass(frozen=True, slots=True)
class PlayedRollout:
    """The rollout of an update.

    Attributes:
        groups: The chosen groups.
        drawn: All groups that were played.
        tries: Number of batches drawn.
    """

    groups: tuple[PlayedGroup, ...]
    drawn: tuple[PlayedGroup, ...]
    tries: int

    @property
    def rows(self) -> list[Row]:
        """Rows of the chosen groups, in an order that does not depend on which process played."""
        return sorted((row for group in self.groups for row in group.rows), key=lambda r: r.key)


@dataclass(frozen=True, slots=True)
class TaskSource:
    """A training task and its protocol."""

    task: Task
    protocol: PanelProtocol


@dataclass(frozen=True, slots=True)
class _Turn:
    """A task's turn in the cycle that draws groups: its `number`-th of `turns`."""

    source: TaskSource
    number: int
    turns: int


def _cycle(
    sources: Mapping[str, TaskSource], mixture: Mapping[str, int] | None
) -> tuple[_Turn, ...]:
    """The turns of all tasks, interleaved so that one task's turns are spread out."""
    weights = mixture or dict.fromkeys(sources, 1)
    return tuple(
        _Turn(source, number, weights[name])
        for number in range(max(weights.values()))
        for name, source in sources.items()
        if number < weights[name]
    )


class Collector:
    """Plays the training stream, each process its share of every batch.

    Args:
        config: The recipe's choices.
        sources: The tasks, by name; groups alternate between them, or follow the mixture.
        engine: Generates responses.
        host: Runs the episodes.
        players: Splits episodes over processes.
        position: Number of groups already taken from all streams together.
        count: Called with the number of finished episodes of the awaited batch.
    """

    def __init__(
        self,
        config: TrainConfig,
        sources: Mapping[str, TaskSource],
        engine: Engine,
        host: EnvHost,
        players: ProcessShards,
        position: int = 0,
        count: Count = no_progress,
    ) -> None:
        self.config = config
        self.position = position
        self._cycle = _cycle(sources, config.rollout.mixture)
        self._engine = engine
        self._host = host
        self._players = players
        self._count = count

    def places(self, first: int, count: int) -> list[tuple[TaskSource, int]]:
        """Stream positions, cycling through the tasks: (task, number in its stream)."""
        laps = (divmod(place, len(self._cycle)) for place in range(first, first + count))
        turns = ((lap, self._cycle[turn]) for lap, turn in laps)
        return [(turn.source, lap * turn.turns + turn.number) for lap, turn in turns]

    def next_places(self, count: int) -> list[tuple[TaskSource, int]]:
        """Take the next stream positions."""
        places = self.places(self.position, count)
        self.position += count
        return places

    def advance(self, updates: int) -> None:
        """Called after a weight update, with the number of remaining updates."""

    async def settle(self) -> None:
        """Wait until no episodes are in flight."""

    async def __aenter__(self) -> Self:
        """Start nothing; batches are played on demand."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: no episodes are in flight."""

    async def collect(self, update: int) -> PlayedRollout:
        """Play the rollout of an update.

        Raises:
            EngineDown: The engine can no longer serve requests.
            Stopped: A process was asked to stop.
            NothingPlayed: No episode could be completed.
        """
        wanted, dynamic = self.config.rollout.groups, self.config.sampling.dynamic
        kept: list[PlayedGroup] = []
        drawn: list[PlayedGroup] = []
        attempt, again = 0, True
        while again:
            attempt += 1
            batch = await self._batch(wanted)
            drawn += batch
            if dynamic is None or not dynamic.enabled(update):
                kept, again = batch, False
            else:
                judged = [_outcomes(group, dynamic) for group in batch]
                chosen = dynamic.collect(wanted - len(kept), judged, attempt)
                kept += [batch[index] for index in chosen.kept]
                again = chosen.again
        check_played(drawn, update)
        return PlayedRollout(tuple(kept), tuple(drawn), attempt)

    async def _batch(self, count: int) -> list[PlayedGroup]:
        """Play a batch of groups; every process gets all of them."""
        places = self.next_places(count)
        playing = self.play(self._players.mine(places), self._count)
        return self.in_order(await self._players.together_unless_stopped(playing), places)

    def in_order(
        self, played: Sequence[PlayedGroup], places: Sequence[tuple[TaskSource, int]]
    ) -> list[PlayedGroup]:
        """Sort groups by stream position, regardless of which process played them."""
        order = {(source.task.info.name, number): i for i, (source, number) in enumerate(places)}
        return sorted(played, key=lambda group: order[group.task, group.group])

    async def play(
        self, places: Sequence[tuple[TaskSource, int]], count: Count = no_progress
    ) -> list[PlayedGroup]:
        """Play all episodes of groups concurrently, and report how many have finished."""
        size = self.config.rollout.group_size
        jobs: dict[tuple[str, str, str, int], tuple[int, int]] = {}
        all_jobs: list[Job] = []
        for index, (source, number) in enumerate(places):
            for member, job in enumerate(group_jobs(source.task, source.protocol, number, size)):
                jobs[job.key] = index, member
                all_jobs.append(job)
        played: list[list[Trajectory | None]] = [[None] * size for _ in places]
        done = 0
        count(done, len(all_jobs))

        async def keep(trajectory: Trajectory) -> None:
            nonlocal done
            index, member = jobs[trajectory.job.key]
            played[index][member] = trajectory
            done += 1
            count(done, len(all_jobs))

        await play(all_jobs, self._engine, self._places(len(all_jobs)), keep, self._host)
        return [
            played_group(
                [t for t in trajectories if t is not None],
                number,
                unit_of(self.config, source.task),
                self.config,
            )
            for (source, number), trajectories in zip(places, played, strict=True)
        ]

    def _places(self, jobs: int) -> int:
        """Episodes of a batch to keep in flight: its share of the concurrency."""
        rollout = self.config.rollout
        if rollout.concurrency is None:
            return max(jobs, 1)
        return rollout.concurrency // (1 + (rollout.max_staleness or 0))


def check_played(drawn: Sequence[PlayedGroup], update: int) -> None:
    """Check that at least one episode can be learned from.

    Raises:
        NothingPlayed: Every episode ended in an error.
    """
    errors = [episode.error for group in drawn for episode in group.episodes]
    if all(errors):
        raise NothingPlayed(f"no episode of update {update} could be played: {errors[0]}")


def _outcomes(group: PlayedGroup, dynamic: Dynamic) -> Sequence[float]:
    """Outcomes that decide whether a group is informative; episodes with errors are left out."""
    played = [episode for episode in group.episodes if episode.error is None]
    if not played:
        return (0.0,)
    return dynamic.outcomes(
        [episode.reward for episode in played], [episode.success for episode in played]
    )
