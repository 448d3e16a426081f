"""Which choice helps: recipes that differ in one of the four dimensions alone, against each other.

Two entries are a pair for a dimension if they trained from the same init of the same base model,
and their configurations are the same in all but that dimension and the learning rate, which may be
tuned for each (`Choices.hashes`). Of several entries with all of that alike the latest counts.

What a choice adds to another one is the mean over their pairs of the difference of success. What
varies is the training: its interval is over trainings, not over episodes. With three pairs or more
it is Student's t interval over the pairs; with fewer it is Welch's over their seeds,
SE^2 = sum_i (s_i^2 / n_i) / P^2 over the 2 P entries of P pairs, with the Welch-Satterthwaite
degrees of freedom. Where an entry has a single seed nothing is known of it, and there is none.

A choice is held against GRPO's own, and a masked clipping against the one without a mask. One that
has no such pair is held against the choice with which it has the most. Collapses are counted in the
trainings of the pairs, so that both sides had the same setting.

Source of the intervals: Welch, Biometrika 34 (1947) 28-35.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy import special

from benchmark.statistics import Interval
from leaderboard.choices import MASKED, PARTS
from leaderboard.data import Board
from leaderboard.rows import PanelKey, Row
from leaderboard.view import init_of

BASELINE: Final = {
    "advantage": "grpo",
    "clipping": "ppo",
    "aggregation": "token-mean",
    "sampling": "plain",
}
"""GRPO's choices, which the paper starts from."""
LEAST_PAIRS: Final = 3
"""Pairs from which on an interval is over pairs."""

_Pair = tuple[Row, Row]


@dataclass(frozen=True, slots=True)
class Collapses:
    """How many trainings of one side of the pairs collapsed.

    Attributes:
        happened: Seeds that collapsed.
        known: Seeds whose logs can say.
    """

    happened: int
    known: int


@dataclass(frozen=True, slots=True)
class Contrast:
    """What one choice adds to another one.

    Attributes:
        choice: The one; foreign text.
        over: The other; foreign text.
        gains: Of each pair, success with the one minus success with the other, in [-1, 1].
        gain: Their mean with its 95 % interval over trainings; without one both ends are NaN.
        seeds: Trainings with the one, and with the other.
        collapses: Of the one, and of the other.
        settings: In which settings the pairs were trained, in words, by name.
    """

    choice: str
    over: str
    gains: tuple[float, ...]
    gain: Interval
    seeds: tuple[int, int]
    collapses: tuple[Collapses, Collapses]
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of the recipes.

    Attributes:
        name: One of `PARTS`.
        contrasts: Choices against each other, GRPO's own first, then by name.
        alone: Choices that are in no contrast, by name.
        unknown: Trained entries whose choice is not known.
    """

    name: str
    contrasts: tuple[Contrast, ...]
    alone: tuple[str, ...]
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
    return tuple(_dimension(rows, panels, name) for name in PARTS)


def _dimension(rows: Sequence[Row], panels: Sequence[PanelKey], name: str) -> Dimension:
    known = [row for row in rows if getattr(row.choices, name) is not None]
    names = _names(known, name)
    order = sorted(set(names.values()), key=lambda choice: (choice != BASELINE[name], choice))
    groups = _alike(known, name, names)
    pairs = {
        (choice, over): found
        for choice in order
        for over in order
        if choice != over
        and (found := [(each[choice], each[over]) for each in groups if {choice, over} <= {*each}])
    }
    chosen = _chosen(order, pairs, name)
    contrasts = tuple(_contrast(panels, *names, pairs[names]) for names in chosen)
    shown = {choice for pair in chosen for choice in pair}
    alone = tuple(choice for choice in order if choice not in shown)
    return Dimension(name, contrasts, alone, len(rows) - len(known))


def _names(rows: Sequence[Row], name: str) -> dict[str, str]:
    """What each entry's choice is called; those of one name and other constants are told apart."""
    place = PARTS.index(name)
    hashes: dict[str, set[str]] = {}
    for row in rows:
        known = hashes.setdefault(getattr(row.choices, name), set())
        known |= set(row.choices.hashes[place : place + 1])
    found = {}
    for row in rows:
        choice = getattr(row.choices, name)
        several = len(hashes[choice]) > 1 and row.choices.hashes
        found[row.id] = f"{choice} ({row.choices.hashes[place][:4]})" if several else choice
    return found


def _alike(rows: Sequence[Row], name: str, names: dict[str, str]) -> list[dict[str, Row]]:
    """Entries that differ in a dimension alone, by their choice in it; the latest of twins."""
    place = PARTS.index(name)
    found: dict[tuple[str, ...], dict[str, Row]] = {}
    for row in sorted(rows, key=lambda row: row.id):
        hashes = row.choices.hashes
        if not hashes or row.init is None:
            continue
        rest = hashes[:place] + hashes[place + 1 :]
        # Two inits of one name are told apart by their weights.
        alike = (row.base_model or "", init_of(row) or "", row.init.sha256 or "", *rest)
        found.setdefault(alike, {})[names[row.id]] = row
    return list(found.values())


def _chosen(
    order: Sequence[str], pairs: dict[tuple[str, str], list[_Pair]], name: str
) -> list[tuple[str, str]]:
    """Which contrasts are shown: (choice, what it is held against)."""
    found: list[tuple[str, str]] = []
    shown: set[str] = {BASELINE[name]}
    for choice in order:
        plain = choice.removesuffix(MASKED)
        for over in dict.fromkeys([BASELINE[name], plain]):
            if (choice, over) in pairs:
                found.append((choice, over))
                shown |= {choice, over}
    for choice in order:
        if choice in shown:
            continue
        others = [over for over in order if (choice, over) in pairs]
        if others:
            over = max(others, key=lambda over: len(pairs[choice, over]))
            found.append((choice, over))
            shown |= {choice, over}
    return sorted(found, key=lambda pair: (order.index(pair[0]), order.index(pair[1])))


def _contrast(
    panels: Sequence[PanelKey], choice: str, over: str, pairs: Sequence[_Pair]
) -> Contrast:
    seeds = [(_successes(one, panels), _successes(other, panels)) for one, other in pairs]
    gains = tuple(math.fsum(a) / len(a) - math.fsum(b) / len(b) for a, b in seeds)
    return Contrast(
        choice=choice,
        over=over,
        gains=gains,
        gain=over_pairs(gains) if len(gains) >= LEAST_PAIRS else over_seeds(seeds),
        seeds=(sum(len(a) for a, _ in seeds), sum(len(b) for _, b in seeds)),
        collapses=(_collapses([a for a, _ in pairs]), _collapses([b for _, b in pairs])),
        settings=tuple(sorted({one.choices.setting or "" for one, _ in pairs})),
    )


def _successes(row: Row, panels: Sequence[PanelKey]) -> list[float]:
    """Success of every seed, mean over the panels."""
    seeds: dict[int, list[float]] = {}
    for key in panels:
        numbers = row.panel(key)
        assert numbers is not None  # all rows have played all panels
        for each in numbers.seeds:
            seeds.setdefault(each.seed, []).append(each.success)
    return [math.fsum(each) / len(each) for each in seeds.values()]


def over_pairs(gains: Sequence[float]) -> Interval:
    """Mean of pairs' gains with Student's t interval, inside of [-1, 1].

    Args:
        gains: At least two. Where all are the same, nothing is known of how they vary: the ends are
            NaN.
    """
    value, error = math.fsum(gains) / len(gains), float(np.std(gains, ddof=1))
    if np.ptp(gains) == 0:
        return Interval(value, math.nan, math.nan)
    return _interval(value, error / math.sqrt(len(gains)), len(gains) - 1)


def over_seeds(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Interval:
    """Mean of pairs' gains with Welch's interval over their seeds, inside of [-1, 1].

    Args:
        pairs: Success of every seed of the one and of the other side; at least one pair. Where a
            side has one seed, or no seed differs from another, the ends are NaN.
    """
    sides = [side for pair in pairs for side in pair]
    value = math.fsum(math.fsum(a) / len(a) - math.fsum(b) / len(b) for a, b in pairs) / len(pairs)
    if min(map(len, sides)) < 2 or not any(np.ptp(side) for side in sides):
        return Interval(value, math.nan, math.nan)
    parts = [float(np.var(side, ddof=1)) / len(side) for side in sides]
    scale = math.fsum(part**2 / (len(side) - 1) for part, side in zip(parts, sides, strict=True))
    freedom = math.fsum(parts) ** 2 / scale
    return _interval(value, math.sqrt(math.fsum(parts)) / len(pairs), freedom)


def _interval(value: float, error: float, freedom: float) -> Interval:
    width = float(special.stdtrit(freedom, 0.975)) * error
    return Interval(value, max(-1.0, value - width), min(1.0, value + width))


def _collapses(rows: Sequence[Row]) -> Collapses:
    events = [event for row in rows if row.stability for event in row.stability.events]
    collapses = [event for event in events if event.name == "collapse"]
    happened = sum(event.happened for event in collapses)
    return Collapses(happened, sum(event.known for event in collapses))
