"""Tests without a model whether a task satisfies its interface."""

import asyncio
import random
from collections.abc import Iterator

from benchmark.engines.core.scripted import ScriptedEngine
from benchmark.evaluation.protocol import PanelProtocol
from benchmark.evaluation.records import EpisodeRecord, record_of
from benchmark.evaluation.replay import replay_records
from benchmark.evaluation.rollout import Job, Trajectory, play
from benchmark.hosts.choose import EnvPool, parallel_map
from benchmark.stats.formatting import percent_text
from benchmark.task_checks.check import Check, errors_as_checks
from benchmark.task_checks.episodes import episode_checks, worst_check
from benchmark.task_checks.training import training_checks, well_formed
from tasks.base import Task
from tasks.errors import UserError
from tasks.panels import Panel, pin_command
from tasks.seeding import stable_seed
from tasks.texts import digest_text
from tasks.trace import combine, plays_of, trace_episode

CONCURRENCY = 64
SUBSET = 64
"""Number of entries to play again in other ways; the whole panel is played once."""


def validate(
    task: Task, panel_name: str, training_entries: int, env_processes: int | None = None
) -> Iterator[Check]:
    """Make all checks of one panel that need no model.

    Args:
        task: The task.
        panel_name: One of its panels.
        training_entries: Number of entries of the training stream to compare with the panel.
        env_processes: Maximum worker processes for tasks that use them; None for one per usable
            core.
    """
    try:
        panel = task.panel(panel_name)
    except UserError as error:
        yield Check("panel is the pinned one", False, str(error))
        return
    pinned = f"SHA-256 {digest_text(panel.info.sha256)}"
    yield Check("panel is the pinned one", True, pinned)
    parts = (
        ("entries are distinct", _entry_checks(task, panel)),
        ("the scripted policies can play", _trace_checks(task, panel, env_processes)),
        ("episodes can be recorded", _play_checks(task, panel, env_processes)),
        (
            "episodes keep the contract",
            episode_checks(task, panel.entries, panel.info.max_turns),
        ),
        (
            "training entries can be played",
            training_checks(task, panel, training_entries, env_processes),
        ),
    )
    for name, checks in parts:
        yield from errors_as_checks(name, checks)


def _trace_checks(task: Task, panel: Panel, env_processes: int | None) -> Iterator[Check]:
    """Compare the scripted policies' plays with the panel's pins, some of which may be missing."""
    info = panel.info
    plays = ((task, play) for play in plays_of(panel))
    trace = combine(panel, parallel_map(trace_episode, plays, env_processes))
    ok, pinned = True, "not pinned"
    if info.expert_success is not None:
        ok = trace.expert_success >= info.expert_success
        pinned = f"expected {percent_text(info.expert_success)}"
    yield Check("expert wins", ok, f"{percent_text(trace.expert_success)}, {pinned}")
    ok, pinned = True, "not pinned"
    if info.random_success is not None:
        low, high = info.random_success
        ok, pinned = (
            low <= trace.random_success <= high,
            f"band {percent_text(low)} to {percent_text(high)}",
        )
    yield Check(
        "random policy stays in its band", ok, f"{percent_text(trace.random_success)}, {pinned}"
    )
    ok, pinned = True, "not pinned"
    if info.trace_sha256 is not None:
        ok, pinned = trace.sha256 == info.trace_sha256, f"pinned {digest_text(info.trace_sha256)}"
    name = "texts, rewards and outcomes match this version"
    advice = "" if ok else f"; raise the task's version, then run {pin_command(task.info.name)}"
    yield Check(name, ok, f"trace {digest_text(trace.sha256)}, {pinned}{advice}")


def _entry_checks(task: Task, panel: Panel) -> Iterator[Check]:
    yield well_formed("entries are plain data", panel.entries)
    ids = {entry.id for entry in panel.entries}
    problems = {task.identity(entry) for entry in panel.entries}
    yield Check(
        "entries are distinct",
        len(ids) == len(problems) == len(panel.entries) == panel.info.episodes,
        f"{len(panel.entries)} entries, {len(ids)} ids, {len(problems)} problems",
    )


def _play_checks(task: Task, panel: Panel, env_processes: int | None) -> Iterator[Check]:
    protocol = PanelProtocol.of(task, panel)
    jobs = [Job(task, entry, 0, protocol) for entry in panel.entries[:SUBSET]]
    for policy in ("expert", "random"):
        sequential = _play(jobs, policy, 1, env_processes)
        again = _play(jobs, policy, 1, env_processes)
        shuffled = random.Random(stable_seed("validate")).sample(jobs, len(jobs))
        parallel = _play(shuffled, policy, CONCURRENCY, env_processes)
        count = f"{len(jobs)} {policy} episodes"
        errors = [record.error for record in sequential.values() if record.error is not None]
        # Two plays that end in the same error are equal, which proves nothing.
        yield Check(
            "episodes are played to their end",
            not errors,
            f"{len(errors)} of {count} ended in an error: {errors[0]}" if errors else count,
        )
        if errors:
            continue
        yield Check("results are reproducible", sequential == again, count)
        yield Check(
            f"{CONCURRENCY} in parallel, compared with one after another",
            sequential == parallel,
            count,
        )
        claims = ((_from_disk(sequential[j.key[:3]]), protocol, task, j.entry) for j in jobs)
        replays = replay_records(claims, env_processes)
        held = sum(not replay.differences for replay in replays)
        yield Check("records replay", held == len(jobs), f"{held} of {count}")
        results = [(record.score, record.reward) for record in sequential.values()]
        yield worst_check(task, panel.info.max_turns, results)


def _from_disk(record: EpisodeRecord) -> EpisodeRecord:
    """Write a record as a line and read it back strictly, as `replay` does."""
    return EpisodeRecord.model_validate_json(record.model_dump_json())


def _play(
    jobs: list[Job], policy: str, concurrency: int, env_processes: int | None
) -> dict[tuple[str, ...], EpisodeRecord]:
    records: dict[tuple[str, ...], EpisodeRecord] = {}

    async def keep(trajectory: Trajectory) -> None:
        record = record_of(trajectory)
        records[record.key[:3]] = record
        await asyncio.sleep(0)

    async def run() -> None:
        async with EnvPool(env_processes) as hosts:
            await play(jobs, ScriptedEngine(policy), concurrency, keep, hosts)

    asyncio.run(run())
    return records
