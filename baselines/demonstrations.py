"""Demonstrations: what a task's scripted expert does on its training stream."""

import hashlib
from dataclasses import dataclass

from tasks.base import Message, Task
from tasks.seeding import canonical_json


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One turn of an expert's episode: the prompt and the expert's response."""

    messages: tuple[Message, ...]
    response: str


def demonstrate(task: Task, episodes: int, stream: int) -> list[Demonstration]:
    """Play the first entries of a training stream with the expert.

    Args:
        task: The task.
        episodes: Entries to play.
        stream: Seed of the training stream. It holds no panel's episode, whatever the seed.

    Returns:
        The turns of all episodes that the expert solved, in order.
    """
    demonstrations: list[Demonstration] = []
    for index in range(episodes):
        episode = task.episode(task.training_entry(index, stream), task.training_max_turns)
        try:
            turns: list[Demonstration] = []
            view = episode.reset()
            while True:
                response = task.expert_response(episode)
                turns.append(Demonstration(view.messages, response))
                step = episode.step(response)
                if step.outcome is not None:
                    break
                view = step.view
            if step.outcome.success:
                demonstrations.extend(turns)
        finally:
            episode.close()
    return demonstrations


def data_sha256(demonstrations: list[Demonstration]) -> str:
    """Hash of demonstrations, in order; stands in the model card."""
    digest = hashlib.sha256()
    for turn in demonstrations:
        digest.update(canonical_json([list(turn.messages), turn.response]).encode() + b"\n")
    return digest.hexdigest()
