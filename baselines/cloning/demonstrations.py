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
        task: Whose turn it is.
        messages: The prompt.
        response: The player's response.
        first: It is the episode's first turn.
        mistake: It is the careless player's response.
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
        episodes: Entries to play.
        stream: Seed of the training stream. Whatever it is, the stream holds no problem of a
            panel (by the task's `identity`).
        env_processes: Worker processes for tasks that want them, at most; None for one for each
            usable core. Nothing depends on it.
        noise: Share of turns in which something else is done than what the player says.
        mistakes: Share of turns in which a mistake is demonstrated.

    Returns:
        The turns of all episodes that were solved, in order.
    """
    calls = ((task, (index, stream, noise, mistakes)) for index in range(episodes))
    return [turn for turns in parallel_map(_solve, calls, env_processes) for turn in turns]


def _solve(
    task: Task, index: int, stream: int, noise: float, mistakes: float
) -> list[Demonstration]:
    """The turns of one episode; none if it was not solved."""
    episode = task.episode(task.training_entry(index, stream), task.training_max_turns)
    rng = random.Random(stable_seed("demonstration-noise", stream, index))
    try:
        turns: list[Demonstration] = []
        view = episode.reset()
        done = ""
        while True:
            response = task.demonstration_response(episode)
            # No draw where there are none: recipes without mistakes keep their noise.
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
    """Hash of demonstrations, in order; stands in the model card."""
    digest = hashlib.sha256()
    for turn in demonstrations:
        digest.update(
            canonical_json([plain_messages(turn.messages), turn.response]).encode() + b"\n"
        )
    return digest.hexdigest()
