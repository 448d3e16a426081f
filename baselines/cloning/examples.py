"""Demonstrated turns as token ids and images, and their batches."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from baselines.cloning.demonstrations import Demonstration
from baselines.cloning.recipe import BCRecipe, Training
from benchmark.engines.core.chat import Chat
from tasks.chat.images import Image
from tasks.chat.messages import images_of
from tasks.errors import UserError
from tasks.response import parse_response
from tasks.seeding import pick, stable_seed


@dataclass(frozen=True, slots=True)
class Example:
    """One turn.

    Attributes:
        task: Name of the task.
        prompt: Token ids, with a placeholder for each token of an image.
        response: Token ids, including the end of the turn.
        first: Whether it is the episode's first turn.
        mistake: Whether the response is the careless player's.
        kind: First word of the action; empty without an action.
        images: The prompt's images, in order; decoded on demand, because an image's patches take
            several hundred times its space.
    """

    task: str
    prompt: tuple[int, ...]
    response: tuple[int, ...]
    first: bool
    mistake: bool = False
    kind: str = ""
    images: tuple[Image, ...] = ()


def encode(
    chat: Chat, demonstrations: Sequence[Demonstration], context: int, training: Training
) -> list[Example]:
    """Tokenize the turns.

    Args:
        chat: The model's chat format.
        demonstrations: The turns.
        context: Maximum sequence length of the model, in tokens.
        training: Its stages may show only the ends of prompts.

    Raises:
        UserError: A turn is longer than the model's context, or a stage truncates an image.
    """
    examples = [_encode(chat, turn) for turn in demonstrations]
    longest = max(len(example.prompt) + len(example.response) for example in examples)
    if longest > context:
        raise UserError(f"a turn has {longest} tokens, but the model's context is {context}")
    for task in {example.task for example in examples if example.images}:
        shown = min(filter(None, (s.tokens_shown(task) for s in training.stages)), default=0)
        placeholder = chat.vision().image_token
        cut = (example.prompt[:-shown] for example in examples if example.task == task and shown)
        if any(placeholder in tokens for tokens in cut):
            raise UserError(f"a stage's prompt_tokens={shown} cuts off an image: show more tokens")
    return examples


def _encode(chat: Chat, turn: Demonstration) -> Example:
    response = chat.tokenizer(turn.response, add_special_tokens=False).input_ids
    images = images_of(turn.messages)
    kind, *_ = (parse_response(turn.response).action or "").split() or [""]
    return Example(
        task=turn.task,
        prompt=tuple(chat.placed(turn.messages)),
        response=(*response, chat.tokenizer.eos_token_id),
        first=turn.first,
        mistake=turn.mistake,
        kind=kind,
        images=images,
    )


_Turn = TypeVar("_Turn", Demonstration, Example)


def by_task(turns: Sequence[_Turn]) -> dict[str, list[_Turn]]:
    """Group turns by task, in order."""
    parted: dict[str, list[_Turn]] = {}
    for turn in turns:
        parted.setdefault(turn.task, []).append(turn)
    return parted


def batch_at(
    examples: Mapping[str, Sequence[Example]], recipe: BCRecipe, step: int
) -> list[Example]:
    """Sample the batch of a step (from 1), over all processes.

    Args:
        examples: The examples, by task.
        recipe: Determines which of them to use, and how many.
        step: Number of the step.
    """
    rng = random.Random(stable_seed("bc-batch", recipe.seed, step))
    stage = recipe.training.stage_at(step)
    shares = stage.shares or dict.fromkeys(examples, 1.0)
    tasks, weights = list(shares), list(shares.values())
    kept = {task: _kept(examples[task], balance) for task, balance in stage.balance.items()}
    drawn: list[Example] = []
    while len(drawn) < (stage.batch_size or recipe.training.batch_size):
        # With one task nothing is sampled, so that its recipes keep their batches.
        task = tasks[0] if len(tasks) == 1 else rng.choices(tasks, weights)[0]
        turn = pick(examples[task], rng)
        while task in kept and rng.random() >= kept[task][turn.kind]:
            turn = pick(examples[task], rng)
        if turn.mistake and task in stage.careful:
            continue
        if turn.first or not stage.first_turns:
            drawn.append(turn)
    return [_end_of(turn, stage.tokens_shown(turn.task)) for turn in drawn]


def _kept(turns: Sequence[Example], balance: float) -> dict[str, float]:
    """Probability of keeping a sampled turn, by the kind of its action."""
    counts = Counter(turn.kind for turn in turns)
    rarest = min(counts.values())
    return {kind: (rarest / count) ** balance for kind, count in counts.items()}


def _end_of(turn: Example, shown: int | None) -> Example:
    """Truncate a turn's prompt to its last tokens; None keeps all."""
    return replace(turn, prompt=turn.prompt[-shown:]) if shown else turn
