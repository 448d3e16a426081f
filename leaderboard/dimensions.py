"""Which choice helps: recipes that differ in one of the four dimensions alone, against each other.

Two entries are a pair for a dimension if they trained from the same init of the same base model,
with the same choices in the three other dimensions. Constants, such as the learning rate, may be
others. Of several entries with all choices alike the latest counts. What a choice adds is the
difference to the dimension's reference, the choice with the most pairs (of several GRPO's own):
for each episode the mean over all pairs, and over the episodes its mean with a 95 % interval. Pairs
that were played on the same episodes are thus no independent evidence. The mean over panels is that
of `leaderboard.paired.mean_of`.

Such an interval knows which episodes the panels happen to have, and not which seeds the trainings
happened to have. Collapses are counted over all entries with a choice.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmark.statistics import Interval, mean_interval, wilson
from leaderboard.data import Board
from leaderboard.paired import mean_of, side
from leaderboard.rows import PanelKey, Row
from leaderboard.view import init_of

DIMENSIONS: Final = ("advantage", "clipping", "aggregation", "sampling")
"""The paper's four dimensions, as in `leaderboard.rows.Choices`."""
BASELINE: Final = {
    "advantage": "grpo",
    "clipping": "ppo",
    "aggregation": "token-mean",
    "sampling": "plain",
}
"""GRPO's choices, which the paper starts from."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What one choice adds, and how often it collapses.

    Attributes:
        choice: Its name; foreign text.
        entries: Entries that made it.
        pairs: Pairs with the reference; of the reference itself 0.
        gain: Success minus that of the reference, in [-1, 1]; None without pairs.
        collapsed: Seeds that collapsed.
        seeds: Seeds whose logs can say.
        collapse_rate: Their ratio with its Wilson interval; None without such seeds.
    """

    choice: str
    entries: int
    pairs: int
    gain: Interval | None
    collapsed: int
    seeds: int
    collapse_rate: Interval | None


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of the recipes.

    Attributes:
        name: One of `DIMENSIONS`.
        reference: The choice that the others are held against; None if none is known.
        effects: All choices, the reference first, then by name.
        unknown: Trained entries whose choice is not known.
    """

    name: str
    reference: str | None
    effects: tuple[Effect, ...]
    unknown: int


def dimensions(
    board: Board, protocol: str, panels: Sequence[PanelKey], base: str | None = None
) -> tuple[Dimension, ...]:
    """The four dimensions.

    Args:
        board: The board.
        protocol: Name of the protocol.
        panels: Panels whose success counts, at least one; entries that have not played all of them
            are not looked at.
        base: Only entries of this base model; None for all.
    """
    rows = [
        row
        for row in board.rows(protocol)
        if row.kind == "trained"
        and (base is None or row.base_model == base)
        and all(row.panel(key) for key in panels)
    ]
    return tuple(_dimension(board, rows, panels, name) for name in DIMENSIONS)


def _dimension(
    board: Board, rows: Sequence[Row], panels: Sequence[PanelKey], name: str
) -> Dimension:
    known = [row for row in rows if getattr(row.choices, name) is not None]
    counts = Counter(getattr(row.choices, name) for row in known)
    if not counts:
        return Dimension(name, None, (), len(rows))

    def weight(choice: str) -> tuple[int, bool, int]:
        others = [other for other in counts if other != choice]
        pairs = sum(len(_pairs(known, name, other, choice)) for other in others)
        return pairs, choice == BASELINE[name], counts[choice]

    order = sorted(counts)
    reference = max(order, key=weight)
    order.remove(reference)
    effects = tuple(
        _effect(board, known, panels, name, choice, reference) for choice in (reference, *order)
    )
    return Dimension(name, reference, effects, len(rows) - len(known))


def _effect(
    board: Board,
    rows: Sequence[Row],
    panels: Sequence[PanelKey],
    name: str,
    choice: str,
    reference: str,
) -> Effect:
    own = [row for row in rows if getattr(row.choices, name) == choice]
    pairs = [] if choice == reference else _pairs(rows, name, choice, reference)
    events = [e for row in own if row.stability for e in row.stability.events]
    collapses = [event for event in events if event.name == "collapse"]
    happened = sum(event.happened for event in collapses)
    seeds = sum(event.known for event in collapses)
    return Effect(
        choice=choice,
        entries=len(own),
        pairs=len(pairs),
        gain=mean_of([_gain(board, pairs, key) for key in panels]) if pairs else None,
        collapsed=happened,
        seeds=seeds,
        collapse_rate=wilson(happened, seeds) if seeds else None,
    )


def _pairs(rows: Sequence[Row], name: str, choice: str, other: str) -> list[tuple[Row, Row]]:
    """Entries that differ in a dimension alone, the latest of those that are alike."""
    found: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in sorted(rows, key=lambda row: row.id):
        rest = [getattr(row.choices, each) for each in DIMENSIONS if each != name]
        if None in rest or row.init is None:
            continue
        # Two inits of one name are told apart by their weights.
        alike = (row.base_model or "", init_of(row) or "", row.init.sha256 or "", *rest)
        found.setdefault(alike, {})[getattr(row.choices, name)] = row
    return [(each[choice], each[other]) for each in found.values() if {choice, other} <= {*each}]


def _gain(board: Board, pairs: Sequence[tuple[Row, Row]], key: PanelKey) -> Interval:
    gaps = []
    for first, second in pairs:
        one, other = side(board, first, key), side(board, second, key)
        assert one is not None and other is not None  # all rows have played all panels
        gaps.append(one.shares - other.shares)
    found = mean_interval(np.mean(gaps, axis=0).tolist())
    return Interval(found.value, max(-1.0, found.low), min(1.0, found.high))
