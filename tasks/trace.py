"""Plays panels with the scripted policies, without an engine, and hashes everything.

The hash pins a world's behavior: its texts, rewards and outcomes. If it changes, so must the
task's version.
"""

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from tasks.base import Task
from tasks.chat.messages import plain_messages
from tasks.episode import Step, View
from tasks.panels import Panel, PanelEntry
from tasks.seeding import canonical_json, stable_seed

POLICIES = ("expert", "random")


@dataclass(frozen=True, slots=True)
class Trace:
    """What the scripted policies did on a panel.

    Attributes:
        expert_success: Success rate of the expert.
        random_success: Success rate of the random policy.
        sha256: Hash over every view, response and step of both, in order.
    """

    expert_success: float
    random_success: float
    sha256: str


def trace_panel(task: Task, panel: Panel) -> Trace:
    """Play every entry of a panel once with the expert and once at random."""
    return combine(panel, (trace_episode(task, *play) for play in plays_of(panel)))


def plays_of(panel: Panel) -> Iterator[tuple[PanelEntry, int, str]]:
    """The arguments of `trace_episode`, after the task, for every play of a panel, in order."""
    for entry in panel.entries:
        for policy in POLICIES:
            yield entry, panel.info.max_turns, policy


def combine(panel: Panel, played: Iterable[tuple[bool, str]]) -> Trace:
    """Put together what `trace_episode` gave for each of a panel's plays, in order."""
    digest = hashlib.sha256()
    solved = dict.fromkeys(POLICIES, 0)
    for (_, _, policy), (success, events) in zip(plays_of(panel), played, strict=True):
        solved[policy] += success
        digest.update(events.encode())
    rates = {policy: count / len(panel.entries) for policy, count in solved.items()}
    return Trace(rates["expert"], rates["random"], digest.hexdigest())


def trace_episode(task: Task, entry: PanelEntry, max_turns: int, policy: str) -> tuple[bool, str]:
    """Play one entry with a scripted policy.

    Returns:
        Whether it succeeded, and everything that happened as one canonical JSON line per event.
    """
    episode = task.episode(entry, max_turns)
    try:
        events = [canonical_json(_view(episode.reset()))]
        for _ in range(max_turns):
            if policy == "expert":
                response = task.expert_response(episode)
            else:
                rng = random.Random(stable_seed("trace", task.info.name, entry.id, len(events)))
                response = task.random_response(episode, rng)
            step = episode.step(response)
            events.append(canonical_json([response, _step(step)]))
            if step.outcome is not None:
                return step.outcome.success, "\n".join(events) + "\n"
        raise RuntimeError(f"episode {entry.id} did not end at its turn limit of {max_turns}")
    finally:
        episode.close()


def _view(view: View) -> dict[str, Any]:
    """A view as JSON values; images are named by their hashes, where there are any."""
    plain: dict[str, Any] = {
        "messages": plain_messages(view.messages),
        "observation": view.observation,
        "admissible": view.admissible,
    }
    return {**plain, "images": [i.sha256 for i in view.images]} if view.images else plain


def _step(step: Step) -> dict[str, Any]:
    """A step as JSON values."""
    plain = {field.name: getattr(step, field.name) for field in fields(step)}
    outcome = None if step.outcome is None else asdict(step.outcome)
    return {**plain, "view": _view(step.view), "outcome": outcome}


def measured(trace: Trace, half_width: float) -> dict[str, Any]:
    """What `panels/index.json` says of a panel's scripted players.

    Args:
        trace: What they did.
        half_width: Of the band around the random policy's success.
    """
    low, high = (round(trace.random_success + side * half_width, 3) for side in (-1, 1))
    return {
        "random_success": [max(0.0, low), high],
        "expert_success": trace.expert_success,
        "trace_sha256": trace.sha256,
    }
