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


@dataclass(frozen=True, slots=True)
class PlayedRollout:
    """What an update learns from.

    Attributes:
        groups: Groups that were chosen.
        drawn: Everything that was played for it.
        tries: Batches that were drawn.
    """

    groups: tuple[PlayedGroup, ...]
    drawn: tuple[PlayedGroup, ...]
    tries: int

    @property
    def rows(self) -> list[Row]:
        """Rows of the chosen groups, in the one order that does not depend on who played them."""
        return sorted((row for group in self.groups for row in group.rows), key=lambda r: r.key)


@dataclass(frozen=True, slots=True)
class TaskSource:
    """A task that is trained on, as training plays it."""

    task: Task
    protocol: PanelProtocol


@dataclass(frozen=True, slots=True)
class _Turn:
    """A task's turn in the cycle in which groups are taken: its `number`-th of `turns`."""

    source: TaskSource
    number: int
    turns: int


def _cycle(
    sources: Mapping[str, TaskSource], mixture: Mapping[str, int] | None
) -> tuple[_Turn, ...]:
    """The turns of all tasks, in rounds, so that those of one task do not follow each other."""
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
        config: What is chosen.
        sources: The tasks, by name; groups go round them in turn, or as the mixture says.
        engine: Where responses come from.
        host: Where episodes live.
        players: Who plays which part of it.
        position: Groups that were taken from the streams before, all together.
        count: Told how many episodes of the batch that is waited for have ended.
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
        """Places of the streams, tasks in turn: (task, number in its stream)."""
        laps = (divmod(place, len(self._cycle)) for place in range(first, first + count))
        turns = ((lap, self._cycle[turn]) for lap, turn in laps)
        return [(turn.source, lap * turn.turns + turn.number) for lap, turn in turns]

    def next_places(self, count: int) -> list[tuple[TaskSource, int]]:
        """Take the next places of the streams."""
        places = self.places(self.position, count)
        self.position += count
        return places

    def advance(self, updates: int) -> None:
        """The engine has new weights, and so many updates are left."""

    async def settle(self) -> None:
        """Wait until nothing is played."""

    async def __aenter__(self) -> Self:
        """Nothing is begun before it is asked for."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is under way."""

    async def collect(self, update: int) -> PlayedRollout:
        """Play what an update needs.

        Raises:
            EngineDown: The engine cannot serve any request any more.
            Stopped: A process was asked to stop.
            UserError: No episode could be played to its end.
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
        """Groups in the order of their places, whoever played them."""
        order = {(source.task.info.name, number): i for i, (source, number) in enumerate(places)}
        return sorted(played, key=lambda group: order[group.task, group.group])

    async def play(
        self, places: Sequence[tuple[TaskSource, int]], count: Count = no_progress
    ) -> list[PlayedGroup]:
        """Play groups, all episodes side by side; tell how many have ended."""
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
        """Episodes of a batch that are in flight: its part of what is."""
        rollout = self.config.rollout
        if rollout.concurrency is None:
            return max(jobs, 1)
        return rollout.concurrency // (1 + (rollout.max_staleness or 0))


def check_played(drawn: Sequence[PlayedGroup], update: int) -> None:
    """Check that something was played to learn from.

    Raises:
        UserError: Every episode ended in an error.
    """
    errors = [episode.error for group in drawn for episode in group.episodes]
    if all(errors):
        raise UserError(f"no episode of update {update} could be played: {errors[0]}")


def _outcomes(group: PlayedGroup, dynamic: Dynamic) -> Sequence[float]:
    """What decides whether a group says something; errors say nothing."""
    played = [episode for episode in group.episodes if episode.error is None]
    if not played:
        return (0.0,)
    return dynamic.outcomes(
        [episode.reward for episode in played], [episode.success for episode in played]
    )
