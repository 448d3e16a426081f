"""Splits problems into those of the built-in panel and the training stream.

A hash of what makes a problem decides which of the two it may appear in, so that they share none,
whatever is drawn.
"""

import random
from collections.abc import Mapping
from types import MappingProxyType

from tasks.panels import PanelEntry
from tasks.seeding import stable_seed
from tasks.tir_math.problems.arithmetic import LEVEL_1, LEVEL_2
from tasks.tir_math.problems.equations import LEVEL_4
from tasks.tir_math.problems.kind import Arguments, Kind, Problem, identity_of, is_for_panels, pose
from tasks.tir_math.problems.numbers import LEVEL_3
from tasks.tir_math.problems.structures import LEVEL_5

KINDS: Mapping[str, Kind] = MappingProxyType(
    {kind.name: kind for kind in LEVEL_1 + LEVEL_2 + LEVEL_3 + LEVEL_4 + LEVEL_5}
)
"""All kinds by name, the easiest first; as many of each level."""

PER_KIND = 10
"""Problems of each kind in the built-in panel."""


def identity(kind: str, arguments: Arguments) -> str:
    """What makes two problems the same: kind and numbers, not words nor an order without meaning.

    Raises:
        KeyError: There is no such kind.
    """
    return identity_of(KINDS[kind], arguments)


def training_problem(index: int, seed: int = 0) -> Problem:
    """Problem number `index` of the training stream `seed`; none of a panel.

    Kinds take turns in the order of `KINDS`: number `index` is of kind `index % len(KINDS)`.

    Raises:
        ValueError: The index is negative.
    """
    if index < 0:
        raise ValueError(f"index must not be negative, got {index}")
    kind = tuple(KINDS.values())[index % len(KINDS)]
    attempt = 0
    while True:
        rng = random.Random(stable_seed("tir-math-training", seed, index, attempt))
        problem = pose(kind, rng)
        if not is_for_panels(identity_of(kind, problem.arguments)):
            return problem
        attempt += 1


def builtin_entries() -> tuple[PanelEntry, ...]:
    """The built-in panel's entries. Kinds take turns, so that its first entries are balanced."""
    seen: set[str] = set()
    entries = []
    for number in range(PER_KIND):
        for kind in KINDS.values():
            problem = _panel_problem(kind, number, seen)
            entries.append(PanelEntry(f"{kind.name}-{number:03d}", str(kind.level), problem.data()))
    return tuple(entries)


def _panel_problem(kind: Kind, number: int, seen: set[str]) -> Problem:
    attempt = 0
    while True:
        rng = random.Random(stable_seed("tir-math-panel", kind.name, number, attempt))
        problem = pose(kind, rng)
        key = identity_of(kind, problem.arguments)
        if is_for_panels(key) and key not in seen:
            seen.add(key)
            return problem
        attempt += 1
