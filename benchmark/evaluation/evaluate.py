"""One evaluation: plans it, plays the missing episodes and stores them."""

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from benchmark.engines.core.base import Engine
from benchmark.engines.core.metered import MeteredEngine
from benchmark.evaluation.manifest import SCHEMA_VERSION, Manifest, Shard
from benchmark.evaluation.protocol import (
    STANDARD,
    PanelProtocol,
    SamplingOverrides,
    overrides_of,
    run_fingerprint,
)
from benchmark.evaluation.records import EpisodeRecord, record_of
from benchmark.evaluation.rollout import Job, Trajectory, longest_first, play
from benchmark.evaluation.run_folder import Key, RunFolder
from benchmark.hosts.choose import EnvPool
from benchmark.models import ModelIdentity
from benchmark.versions import PROGRAM, versions
from tasks.base import Task
from tasks.errors import UserError
from tasks.options import Settings
from tasks.panels import Panel
from tasks.registry import load_task
from tasks.texts import counted

MOST_EPISODES = 1_000_000
"""Maximum episodes of a run, repeats included."""


@dataclass(frozen=True, slots=True)
class PlannedPanel:
    """One panel and its protocol."""

    task: Task
    panel: Panel
    protocol: PanelProtocol


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run plays.

    Attributes:
        panels: The panels, in the order of play.
        shard: The part that this machine plays; None for all.
        limit: Play only this many of each panel's first episodes; None for all.
    """

    panels: tuple[PlannedPanel, ...]
    shard: Shard | None = None
    limit: int | None = None

    @classmethod
    def of(
        cls,
        panels: list[tuple[str, str]],
        choices: SamplingOverrides = STANDARD,
        shard: Shard | None = None,
        settings: Settings = MappingProxyType({}),
        limit: int | None = None,
    ) -> "Plan":
        """Read the panels, given as (task, panel), and fix their protocol and order.

        Raises:
            UserError: A task or panel is unknown, a panel's data is missing, a setting belongs to a
                task that is not played, there are too many episodes, or none for this shard.
        """
        for unplayed in sorted(set(settings) - {task_name for task_name, _ in panels}):
            raise UserError(f"--set has a setting for {unplayed}, which this run does not play")
        planned = []
        # Sorted, whatever the order of the arguments, because shards must agree on the order.
        for task_name, panel_name in sorted(panels):
            task = load_task(task_name).configured(settings.get(task_name, {}))
            panel = task.panel(panel_name)
            task.require()
            protocol = PanelProtocol.of(task, panel, choices)
            planned.append(PlannedPanel(task, panel, protocol))
        plan = cls(tuple(planned), shard, limit)
        if plan.episodes > MOST_EPISODES:
            raise UserError(
                f"the run has {plan.episodes:,} episodes, more than the limit of "
                f"{MOST_EPISODES:,}: choose fewer --repeats"
            )
        if shard is not None and not plan.jobs():
            whole = counted(plan.episodes, "episode")
            raise UserError(
                f"shard {shard.index}/{shard.count} has nothing to play: the run has {whole}; use "
                "fewer shards"
            )
        return plan

    @property
    def protocols(self) -> tuple[PanelProtocol, ...]:
        """The protocols of all panels."""
        return tuple(planned.protocol for planned in self.panels)

    @property
    def fingerprint(self) -> str:
        """The run's fingerprint."""
        return run_fingerprint(self.protocols)

    @property
    def overrides(self) -> dict[str, Any]:
        """Settings that differ from the panels' standard protocols, by name."""
        return overrides_of(self.protocols)

    @property
    def episodes(self) -> int:
        """Number of episodes of all shards."""
        return sum(
            len(planned.panel.entries[: self.limit]) * planned.protocol.repeats
            for planned in self.panels
        )

    def jobs(self) -> list[Job]:
        """All episodes of this shard: panel by panel, repeat by repeat."""
        jobs = [
            Job(planned.task, entry, repeat, planned.protocol)
            for planned in self.panels
            for repeat in range(planned.protocol.repeats)
            for entry in planned.panel.entries[: self.limit]
        ]
        return jobs[self.shard.index - 1 :: self.shard.count] if self.shard else jobs

    def manifest(
        self, model: ModelIdentity, engine: Engine, command: Sequence[str] | None = None
    ) -> Manifest:
        """The content of `run.json` for a run that starts now, with this model and engine.

        Args:
            model: The identity of the weights.
            engine: The started engine.
            command: The command line, including the program; None for this process's own.
        """
        return Manifest(
            schema_version=SCHEMA_VERSION,
            fingerprint=self.fingerprint,
            panels=self.protocols,
            overrides=self.overrides,
            model=model,
            engine=engine.describe(),
            versions=versions(),
            command=recorded_command(sys.argv if command is None else command),
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            shard=self.shard,
            limit=self.limit,
        )

    def keys(self) -> list[Key]:
        """Keys of all records of this shard, in order."""
        return [job.key for job in self.jobs()]


def recorded_command(arguments: Sequence[str]) -> tuple[str, ...]:
    """A publishable form of a command line, with the program's installed name.

    Addresses may contain passwords and private names; absolute paths may contain names of people
    and machines.
    """
    shown = (re.sub(r"\w+://\S*", "URL", argument) for argument in arguments[1:])
    return (
        PROGRAM,
        *(re.sub(r"(^|=)/.*/(?=[^/]+/?\Z)", r"\1.../", each, flags=re.DOTALL) for each in shown),
    )


@dataclass(frozen=True, slots=True)
class Session:
    """One session of work on a run; a line of `sessions.jsonl`.

    Attributes:
        started: ISO 8601, UTC.
        ended: `finished`, `interrupted`, or the name of the error that stopped it.
        episodes: Records added.
        replaced_errors: Records of failed episodes that were dropped and replayed.
        wall_s: Seconds from before the environments start until all records are in order.
        idle_share: Share of that time without any request in flight.
        requests: Number of responses.
        prompt_tokens: Tokens of all prompts; null if not counted.
        response_tokens: Tokens of all responses; null likewise.
        concurrency: Episodes in flight.
        env_processes: Worker processes available to episodes; null if none used them.
        engine: The engine's facts.
        versions: Versions of packages that the result depends on.
    """

    started: str
    ended: str
    episodes: int
    replaced_errors: int
    wall_s: float
    idle_share: float
    requests: int
    prompt_tokens: int | None
    response_tokens: int | None
    concurrency: int
    env_processes: int | None
    engine: dict[str, Any]
    versions: dict[str, str]

    @property
    def line(self) -> str:
        """The session as a line of `sessions.jsonl`."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def tokens_per_second(self) -> float | None:
        """Response tokens per second of wall time."""
        if self.response_tokens is None or not self.wall_s:
            return None
        return self.response_tokens / self.wall_s


async def evaluate(
    plan: Plan,
    engine: Engine,
    folder: RunFolder,
    concurrency: int,
    on_record: Callable[[EpisodeRecord, MeteredEngine], None] = lambda record, meter: None,
    env_processes: int | None = None,
) -> Session:
    """Play the episodes that the folder lacks, storing each as it finishes.

    Args:
        plan: The plan of the run.
        engine: The started engine, which generates responses.
        folder: The folder for records.
        concurrency: Episodes in flight.
        on_record: Called after every stored record, for progress.
        env_processes: Maximum worker processes for episodes of tasks that use them; None for one
            per usable core.

    Returns:
        The session; it is also appended to `sessions.jsonl`, however it ended, unless there was
        nothing to do.
    """
    meter, hosts = MeteredEngine(engine), EnvPool(env_processes)
    missing = longest_first(job for job in plan.jobs() if job.key not in folder.records)
    started, began, added = datetime.now(UTC), time.monotonic(), 0

    async def keep(trajectory: Trajectory) -> None:
        nonlocal added
        record = record_of(trajectory)
        await folder.append(record)
        added += 1
        on_record(record, meter)

    def session(ended: str) -> Session:
        usage = meter.usage()
        return Session(
            started=started.isoformat(timespec="seconds"),
            ended=ended,
            episodes=added,
            replaced_errors=folder.replaced_errors,
            wall_s=round(time.monotonic() - began, 3),
            idle_share=round(usage.idle_share, 4),
            requests=usage.requests,
            prompt_tokens=usage.prompt_tokens or None,
            response_tokens=usage.response_tokens or None,
            concurrency=concurrency,
            env_processes=hosts.processes if hosts.used_processes else None,
            engine=engine.describe(),
            versions=versions(),
        )

    try:
        async with hosts:
            await play(missing, meter, concurrency, keep, hosts)
        folder.finish()
    except BaseException as error:
        stopped = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
        _add_last(folder, session("interrupted" if stopped else type(error).__name__), error)
        raise
    done = session("finished")
    if missing:
        folder.add_session(done.line)
    return done


def _add_last(folder: RunFolder, session: Session, error: BaseException) -> None:
    """Store a session that an error ended, without hiding that error if storing fails."""
    try:
        folder.add_session(session.line)
    except UserError as second:
        error.add_note(str(second))
