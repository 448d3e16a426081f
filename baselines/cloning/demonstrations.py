"""Demonstrations: episodes of a task's scripted player on the training stream."""

import hashlib
import random
from dataclasses import dataclass

from benchmark.hosts.choose import parallel_map
from tasks.base import Task
from tasks.chat.messages import Message, plain_messages
from tasks.seeding import canonical_json, stable_seed


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One turn of a scripted player's episode.

    Attributes:
        task: Name of the task.
        messages: The prompt.
        response: The player's response.
        first: Whether it is the episode's first turn.
        mistake: Whether the response is the careless player's.
    """

    task: str
    messages: tuple[Message, ...]
    response: str
    first: bool
    mistake: bool = False


def demonstrate(
    task: Task,
    episodes: int,
    stream: int,
    env_processes: int | None = None,
    noise: float = 0.0,
    mistakes: float = 0.0,
) -> list[Demonstration]:
    """Play the first entries of a training stream with `Task.demonstration_response`.

    Args:
        task: The task.
        episodes: Number of entries to play.
        stream: Seed of the training stream. No training stream contains a problem of a panel (by
            the task's `identity`).
        env_processes: Maximum worker processes for tasks that use them; None for one per usable
            core. Does not affect the result.
        noise: Share of turns in which another action than the player's response is executed.
        mistakes: Share of turns in which a mistake is demonstrated.

    Returns:
        The turns of all solved episodes, in order.
    """
    calls = ((task, (index, stream, noise, mistakes)) for index in range(episodes))
    return [turn for turns in parallel_map(_solve, calls, env_processes) for turn in turns]


def _solve(
    task: Task, index: int, stream: int, noise: float, mistakes: float
) -> list[Demonstration]:
    """The turns of one episode; empty if it was not solved."""
    episode = task.episode(task.training_entry(index, stream), task.training_max_turns)
    rng = random.Random(stable_seed("demonstration-noise", stream, index))
    try:
        turns: list[Demonstration] = []
        view = episode.reset()
        done = ""
        while True:
            response = task.demonstration_response(episode)
            # Without mistakes nothing is sampled, so that recipes without them keep their noise.
            wrong = mistakes > 0 and rng.random() < mistakes
            shown = task.careless_response(episode, rng) if wrong else response
            turns.append(Demonstration(task.info.name, view.messages, shown, not turns, wrong))
            if rng.random() < noise:
                again = rng.random() < 0.5
                response = done if again else task.mistaken_response(episode, rng)
            done = response
            step = episode.step(done)
            if step.outcome is not None:
                return turns if step.outcome.success else []
            view = step.view
    finally:
        episode.close()


def data_sha256(demonstrations: list[Demonstration]) -> str:
    """SHA-256 of demonstrations in order, for the model card."""
    digest = hashlib.sha256()
    for turn in demonstrations:
        digest.update(
            canonical_json([plain_messages(turn.messages), turn.response]).encode() + b"\n"
        )
    return digest.hexdigest()
