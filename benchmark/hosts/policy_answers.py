"""Asks a scripted policy again at every turn of a record.

This is called in worker processes: it imports the tasks and the standard library only.
"""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from benchmark.hosts.worker import scripted_response
from tasks.base import Task
from tasks.panels import PanelEntry


@dataclass(frozen=True, slots=True)
class Asked:
    """What a record says that a policy has answered.

    Attributes:
        policy: `expert` or `random`.
        seeds: Seed of every turn.
        answers: The response of every turn, with the `Step.info` that was recorded of it.
    """

    policy: str
    seeds: tuple[int, ...]
    answers: tuple[tuple[str, Mapping[str, Any]], ...]


def first_other_answer(task: Task, entry: PanelEntry, max_turns: int, asked: Asked) -> int | None:
    """Find where a policy answers otherwise than recorded.

    What takes long to repeat is taken from the record: a replay proves it elsewhere.

    Args:
        task: The task.
        entry: What was played.
        max_turns: Turn limit.
        asked: What is claimed; the world admits it (it was replayed).

    Returns:
        Number of the first such turn, from 1; None if there is none.
    """
    with closing(task.episode(entry, max_turns)) as episode:
        episode.reset()
        for number, (seed, (answer, info)) in enumerate(
            zip(asked.seeds, asked.answers, strict=True), 1
        ):
            if scripted_response(task, episode, asked.policy, seed) != answer:
                return number
            episode.replay_step(answer, info, trust=True)
    return None
