"""Sampling with `rng.random()` alone, whose sequence Python guarantees between versions."""

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def happens(chance: float, rng: random.Random) -> bool:
    """Whether something of this probability happens."""
    return rng.random() < chance


def between(fewest: int, most: int, rng: random.Random) -> int:
    """A whole number from `fewest` to `most`, both included."""
    return fewest + int(rng.random() * (most - fewest + 1))


def weighted(weights: Sequence[float], rng: random.Random) -> int:
    """The place of one of the weights, drawn in proportion to them."""
    left = rng.random() * sum(weights)
    for place, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return place
    return len(weights) - 1


def shuffled(items: Sequence[T], rng: random.Random) -> list[T]:
    """The items in random order."""
    left = list(items)
    return [left.pop(int(rng.random() * len(left))) for _ in items]


def sample(items: Sequence[T], count: int, rng: random.Random) -> list[T]:
    """`count` of the items, in their own order."""
    places = sorted(shuffled(range(len(items)), rng)[:count])
    return [items[place] for place in places]
