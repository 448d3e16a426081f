"""Checks that the training stream is repeatable, endless, disjoint from the panels and playable."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from benchmark.hosts.choose import parallel_map
from benchmark.task_checks.check import Check
from tasks.base import Task
from tasks.panels import Panel, PanelEntry
from tasks.seeding import canonical_json, stable_seed
from tasks.trace import POLICIES, trace_episode

PLAYED = 16
"""Training entries that are played with both scripted policies."""
COMPARED = 32
"""Training entries compared between two streams."""


def training_checks(
    task: Task, panel: Panel, entries: int, env_processes: int | None
) -> Iterator[Check]:
    """Check the training stream against a panel.

    Args:
        task: The task.
        panel: The panel, whose entries must not occur in training.
        entries: Number of entries of the stream to compare with it.
        env_processes: See `validate`.
    """
    first = [task.training_entry(index) for index in range(COMPARED)]
    second = [task.training_entry(index, 1) for index in range(COMPARED)]
    yield well_formed("training entries are plain data", [*first, *second])
    # In reverse order, to detect dependence on earlier calls.
    again = [task.training_entry(index, 1) for index in reversed(range(COMPARED))][::-1]
    same = sum(one == other for one, other in zip(second, again, strict=True))
    yield Check(
        "a training entry depends on index and seed alone",
        same == COMPARED,
        f"{same} of {COMPARED} entries are the same when they are asked for again",
    )
    yield _differ(task, first, second)
    yield _disjoint(task, panel, entries)
    yield _playable(task, first[:PLAYED], env_processes)


def well_formed(name: str, entries: Sequence[PanelEntry]) -> Check:
    """Check that records and panel files can hold the entries."""
    for entry in entries:
        if fault := _fault(entry):
            return Check(name, False, f"{entry.id!r}: {fault}")
    return Check(name, True, f"{len(entries)} entries")


def _fault(entry: PanelEntry) -> str:
    for field in ("id", "category"):
        value: Any = getattr(entry, field)
        if not isinstance(value, str):
            return f"{field} must be a text, not {value!r}"
    try:
        kept = json.loads(canonical_json(dict(entry.data)))
    except (TypeError, ValueError) as error:
        return f"data cannot be written as JSON: {error}"
    return "" if kept == entry.data else "data is not the same after it was written as JSON"


def _differ(task: Task, first: Sequence[PanelEntry], second: Sequence[PanelEntry]) -> Check:
    """Check that index and seed matter: otherwise training repeats one problem, or one stream."""
    streams = [[task.identity(entry) for entry in entries] for entries in (first, second)]
    problems = len(set(streams[0]))
    others = sum(one != other for one, other in zip(*streams, strict=True))
    detail = (
        f"{problems} problems among the first {COMPARED} of a stream, {others} differ in another"
    )
    if problems == 1:
        detail += ": `index` makes no difference"
    if not others:
        detail += ": `seed` makes no difference"
    return Check("index and seed choose the training entry", problems > 1 and others > 0, detail)


def _disjoint(task: Task, panel: Panel, entries: int) -> Check:
    problems = {task.identity(entry) for entry in panel.entries}
    streams = (0, 1, stable_seed("validate", bits=31))
    shared = [
        entry.id
        for number in range(entries)
        for entry in [task.training_entry(number // len(streams), streams[number % len(streams)])]
        if task.identity(entry) in problems
    ]
    detail = f"{entries} training entries, {len(shared)} in the panel"
    return Check("training and panel are disjoint", not shared, detail)


def _playable(task: Task, entries: Sequence[PanelEntry], env_processes: int | None) -> Check:
    turns = task.training_max_turns
    plays = [(task, (entry, turns, policy)) for entry in entries for policy in POLICIES]
    won = [success for success, _ in parallel_map(trace_episode, plays, env_processes)]
    expert, drawn = (sum(won[place :: len(POLICIES)]) for place in range(len(POLICIES)))
    detail = f"{len(entries)} entries: the expert wins {expert}, the random policy {drawn}"
    return Check("training entries can be played", True, detail)
