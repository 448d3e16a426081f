"""Rollouts: episodes as independent coroutines over one engine, without turn barriers."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from benchmark.engines.core.base import Engine, EngineDown, Generation, PromptTooLong, Request
from benchmark.evaluation.protocol import THINKING, PanelProtocol
from benchmark.evaluation.response_part import read_by_world
from benchmark.hosts.base import EnvHost, LiveEpisode, WorldError
from benchmark.hosts.choose import EnvPool
from tasks.base import Task
from tasks.episode import Outcome, Step, View
from tasks.errors import UserError
from tasks.panels import PanelEntry
from tasks.seeding import stable_seed

ATTEMPTS = 2
"""Plays of an episode before an error in it is recorded as a failure."""

LONGEST_CAUSE = 2_000
"""Characters of an error's message that are kept."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Job:
    """One episode to be played."""

    task: Task
    entry: PanelEntry
    repeat: int
    protocol: PanelProtocol

    @property
    def key(self) -> tuple[str, str, str, int]:
        """(task, panel, episode, repeat): unique within a run."""
        return self.protocol.task, self.protocol.panel, self.entry.id, self.repeat


@dataclass(frozen=True, slots=True)
class Turn:
    """One prompt, the response to it and what it did."""

    view: View
    generation: Generation
    step: Step


@dataclass(frozen=True, slots=True)
class Trajectory:
    """A played episode, with all that a trainer needs and a record leaves out.

    Attributes:
        job: What was played.
        start: The first view; None if the world could not be set up.
        turns: All turns.
        outcome: How it ended; None after an error.
        error: What ended it early; None otherwise.
    """

    job: Job
    start: View | None
    turns: tuple[Turn, ...]
    outcome: Outcome | None
    error: str | None


async def play_episode(job: Job, engine: Engine, host: EnvHost) -> Trajectory:
    """Play one episode; an error is retried from the start and then becomes its result.

    Args:
        job: What to play.
        engine: Where responses come from.
        host: Where the episode lives.

    Raises:
        EngineDown: The engine cannot serve any request any more.
        UserError: The model's context is shorter than the episode's first prompt.
    """
    for attempt in range(1, ATTEMPTS + 1):
        trajectory, again = await _attempt(job, engine, host)
        if trajectory.error is None:
            break
        log.info("%s, attempt %d of %d: %s", job.key, attempt, ATTEMPTS, trajectory.error)
        if not again:
            break
    return trajectory


async def _attempt(job: Job, engine: Engine, host: EnvHost) -> tuple[Trajectory, bool]:
    """Play an episode once; also say whether an error may pass if it is played again."""
    affinity, chat = stable_seed(*job.key), job.protocol.chat
    turns: list[Turn] = []
    start: View | None = None
    episode: LiveEpisode | None = None
    try:
        episode = await host.open(job.task, job.entry, job.protocol.max_turns)
        view = start = await episode.reset()
        while True:
            seed = job.protocol.turn_seed(job.entry.id, job.repeat, len(turns))
            previous = _goes_on_from(job, turns)
            generation = await engine.generate(
                Request(
                    view.messages,
                    job.protocol.sampling,
                    seed,
                    affinity,
                    episode,
                    previous=previous,
                    chat=chat,
                )
            )
            step = await episode.step(read_by_world(job.protocol, generation.text))
            turns.append(Turn(view, generation, step))
            if step.outcome is not None:
                return Trajectory(job, start, tuple(turns), step.outcome, None), False
            view = step.view
    except (EngineDown, UserError):
        raise
    except (Exception, SystemExit) as error:  # a world's or an engine's failure is a result
        too_long = isinstance(error, PromptTooLong)
        if too_long and not turns:
            raise UserError(f"{job.entry.id} of {job.protocol.task}: {error}") from error
        log.debug("traceback of %s", job.key, exc_info=True)
        # The same cause wherever the episode lives.
        cause = str(error) if isinstance(error, WorldError) else f"{type(error).__name__}: {error}"
        return Trajectory(job, start, tuple(turns), None, cause[:LONGEST_CAUSE]), not too_long
    finally:
        if episode is not None:
            _close(job, episode)


def _goes_on_from(job: Job, turns: list[Turn]) -> Generation | None:
    """The generation whose token ids the next prompt goes on from, if any.

    Where thoughts are apart from answers, later prompts hold the answers alone.
    """
    if job.task.info.unit == "turn" or not turns or job.protocol.name == THINKING:
        return None
    last = turns[-1].generation
    return None if last.prompt_ids is None or last.response_ids is None else last


def _close(job: Job, episode: LiveEpisode) -> None:
    """Close an episode; that it cannot be closed does not undo what was played."""
    try:
        episode.close()
    except (Exception, SystemExit):
        log.exception("%s could not be closed", job.key)


def longest_first(jobs: Iterable[Job]) -> list[Job]:
    """Order jobs so that the episodes that will take longest start first.

    With a fixed number of places this keeps the last ones from running alone at the end
    (Graham's longest-processing-time rule). No result depends on the order.
    """
    return sorted(jobs, key=lambda job: -job.task.expected_turns(job.entry))


async def play(
    jobs: Iterable[Job],
    engine: Engine,
    concurrency: int,
    deliver: Callable[[Trajectory], Awaitable[None]],
    host: EnvHost | None = None,
) -> None:
    """Play all jobs, at most `concurrency` at a time, and deliver each as it ends.

    Args:
        jobs: Played in this order; a finished episode's place is taken at once.
        engine: Where responses come from.
        concurrency: Episodes in flight.
        deliver: Awaited with every trajectory before its place is taken.
        host: Where episodes live; None for hosts of this call's own. No result depends on it.

    Raises:
        EngineDown: The engine cannot serve any request any more. What was delivered stays.
        UserError: See `play_episode`.
        OSError: `deliver` could not keep a trajectory.
    """
    if host is None:
        async with EnvPool() as own:
            return await play(jobs, engine, concurrency, deliver, own)
    waiting = iter(jobs)

    async def place() -> None:
        with engine.client():
            for job in waiting:
                await deliver(await play_episode(job, engine, host))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(place())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
