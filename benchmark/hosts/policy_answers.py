"""Asks a scripted policy again at every turn of a record.

This runs in worker processes, so it imports only the tasks and the standard library.
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
    """A policy's answers according to a record.

    Attributes:
        policy: `expert` or `random`.
        seeds: Seed of every turn.
        answers: The response of every turn, with its recorded `Step.info`.
    """

    policy: str
    seeds: tuple[int, ...]
    answers: tuple[tuple[str, Mapping[str, Any]], ...]


def first_other_answer(task: Task, entry: PanelEntry, max_turns: int, asked: Asked) -> int | None:
    """Find the first turn at which a policy's answer differs from the record.

    Slow steps are taken from the record: a replay verifies them elsewhere.

    Args:
        task: The task.
        entry: The panel entry that was played.
        max_turns: Turn limit.
        asked: The recorded answers; a replay has shown that the environment accepts them.

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
