"""The token sequence of a whole episode, and which of its tokens were sampled.

In tasks whose unit is the trajectory, every prompt goes on from the one before. What a model wrote
is then found by comparing token ids, whatever engine and template made them: a response's tokens
count as far as the next prompt begins with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from benchmark.engines.core.base import Generation


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """All tokens of an episode.

    Attributes:
        token_ids: The first prompt, and everything after it, in order.
        written: Half-open ranges of the positions whose tokens the model drew; one per turn at
            most, ascending.
        turns: Number of the turn that each of these ranges comes from.
    """

    token_ids: tuple[int, ...]
    written: tuple[tuple[int, int], ...]
    turns: tuple[int, ...]


def token_sequence(generations: Sequence[Generation]) -> TokenSequence | None:
    """Join the generations of an episode's turns.

    Returns:
        None without turns, where an engine gave no token ids, or where a prompt does not go on
        from the one before (a template took something out of it).
    """
    if not generations:
        return None
    ids: tuple[int, ...] = ()
    written: list[tuple[int, int]] = []
    turns: list[int] = []
    answered: tuple[int, ...] = ()
    for turn, generation in enumerate(generations):
        prompt, response = generation.prompt_ids, generation.response_ids
        if prompt is None or response is None or prompt[: len(ids)] != ids:
            return None
        kept = _common(prompt[len(ids) :], answered)
        if kept:
            written.append((len(ids), len(ids) + kept))
            turns.append(turn - 1)
        ids, answered = prompt, response
    if answered:
        written.append((len(ids), len(ids) + len(answered)))
        turns.append(len(generations) - 1)
    return TokenSequence(ids + answered, tuple(written), tuple(turns))


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common beginning."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
