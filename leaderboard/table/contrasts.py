"""Which choice helps: compares recipes that differ in only one of the four dimensions.

Two entries are a pair for a dimension if they trained from the same init of the same base model,
and their configurations are equal except for that dimension and the learning rate, which may be
tuned for each (`Choices.hashes`). Of several such entries the one with the most seeds counts, and
of these the oldest. Pairs on tracks of different kinds (`standard`, `stress`) are not averaged: a
choice that helps where training breaks may do nothing where it does not.

The gain of a choice over another one is the mean difference of success over their pairs. One pair
has the interval of `benchmark.stats.paired`, as on every other page; two pairs have the interval of
their mean, assumed independent (`mean_of`). With three or more pairs their variance is known, and
the interval is Student's t interval over the pairs.

A choice is compared with GRPO's own, and a masked clipping with the same one without a mask. A
choice without such a pair is compared with the choice with which it has the most. Collapses are
counted in the training runs of the pairs, so that both sides had the same setting.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmark.stats.intervals import Interval, mean_interval, mean_of
from benchmark.stats.paired import Side, method_of, score_difference
from benchmark.track_schema import DIMENSIONS
from leaderboard.board.board import Board
from leaderboard.board.recipe_choices import MASKED
from leaderboard.board.rows import BoardRow, PanelKey, surest_first
from leaderboard.table.paired import side
from leaderboard.table.view import init_of

BASELINE: Final = {
    "advantage": "grpo",
    "clipping": "ppo",
    "aggregation": "token-mean",
    "sampling": "plain",
}
"""GRPO's choices, the paper's starting point."""
LEAST_PAIRS: Final = 3
"""Minimum number of pairs for an interval over pairs."""
PAPER: Final = "paper"
OVER_PAIRS: Final = "over pairs (Student's t)"
"""Name of that interval."""

_Pair = tuple[BoardRow, BoardRow]


@dataclass(frozen=True, slots=True)
class Collapses:
    """How many training runs of one side of the pairs collapsed.

    Attributes:
        happened: Seeds that collapsed.
        known: Seeds whose logs show whether they collapsed.
        halved: Other seeds that ended at half of their best or below.
        unknown: Seeds whose logs do not show it.
    """

    happened: int
    known: int
    halved: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Contrast:
    """Gain of one choice over another.

    Attributes:
        choice: The choice; untrusted text.
        over: The choice it is compared with; untrusted text.
        kind: Kind of the pairs' tracks, such as `standard`; empty without a track.
        gains: For each pair, success with `choice` minus success with `over`, in [-1, 1].
        gain: Their mean with its 95% interval; both ends are NaN without an interval.
        method: Name of the interval.
        seeds: Number of training runs with `choice`, and with `over`.
        collapses: Collapses with `choice`, and with `over`.
        settings: Descriptions of the pairs' training settings, by name.
    """

    choice: str
    over: str
    kind: str
    gains: tuple[float, ...]
    gain: Interval
    method: str
    seeds: tuple[int, int]
    collapses: tuple[Collapses, Collapses]
    settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of the recipes.

    Attributes:
        name: One of `DIMENSIONS`.
        contrasts: Comparisons of choices, GRPO's own first, then by name.
        alone: Choices without a comparison, by name.
        unknown: Number of trained entries whose choice is unknown.
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
            are ignored.
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
    board: Board, rows: Sequence[BoardRow], panels: Sequence[PanelKey], name: str
) -> Dimension:
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
    contrasts = tuple(
        _contrast(board, panels, names, kind, found)
        for names in chosen
        for kind, found in _by_kind(pairs[names])
    )
    shown = {choice for pair in chosen for choice in pair}
    alone = tuple(choice for choice in order if choice not in shown)
    return Dimension(name, contrasts, alone, len(rows) - len(known))


def _names(rows: Sequence[BoardRow], name: str) -> dict[str, str]:
    """Label of each entry's choice.

    For choices with the same name, the plain name stands for the most common constants; others are
    labeled with a method that uses them.
    """
    place = DIMENSIONS.index(name)
    found = {row.id: getattr(row.choices, name) for row in rows}
    alike: dict[str, dict[str, list[BoardRow]]] = {}
    for row in rows:
        for constants in row.choices.hashes[place : place + 1]:
            alike.setdefault(found[row.id], {}).setdefault(constants, []).append(row)
    for choice, variants in alike.items():
        _, *others = sorted(variants.items(), key=lambda pair: (-len(pair[1]), pair[0]))
        taken: set[str] = set()
        for constants, own in others:
            called = f"{choice} ({min(row.method for row in own)})"
            called = f"{called[:-1]}, {constants[:4]})" if called in taken else called
            taken.add(called)
            found |= {row.id: called for row in own}
    return found


def _alike(rows: Sequence[BoardRow], name: str, names: dict[str, str]) -> list[dict[str, BoardRow]]:
    """Entries of a track that differ only in one dimension, by their choice in it.

    Of duplicates, the first by `surest_first`.
    """
    place = DIMENSIONS.index(name)
    found: dict[tuple[str, ...], dict[str, BoardRow]] = {}
    for row in surest_first(rows):
        hashes = row.choices.hashes
        if not hashes or row.init is None:
            continue
        rest = hashes[:place] + hashes[place + 1 :]
        # Inits with the same name are distinguished by their weights, and tracks may differ only in
        # a fixed learning rate, which is not part of the method.
        init = (row.base_model or "", init_of(row) or "", row.init.sha256 or "")
        alike = (row.track, *init, *rest)
        found.setdefault(alike, {}).setdefault(names[row.id], row)
    return list(found.values())


def _chosen(
    order: Sequence[str], pairs: dict[tuple[str, str], list[_Pair]], name: str
) -> list[tuple[str, str]]:
    """The contrasts to show: (choice, choice that it is compared with)."""
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


def _by_kind(pairs: Sequence[_Pair]) -> list[tuple[str, list[_Pair]]]:
    found: dict[str, list[_Pair]] = {}
    for pair in pairs:
        found.setdefault(kind_of(pair[0].track), []).append(pair)
    return sorted(found.items())


def kind_of(track: str) -> str:
    """The kind of a track, shared by tasks, such as `standard`; empty without a track.

    Names are TASK-KIND, except for the paper's settings, which are paper-TASK.
    """
    first, _, rest = track.partition("-")
    return first if first == PAPER else rest


def _contrast(
    board: Board,
    panels: Sequence[PanelKey],
    names: tuple[str, str],
    kind: str,
    pairs: Sequence[_Pair],
) -> Contrast:
    sides = [tuple(_sides(board, row, panels) for row in pair) for pair in pairs]
    found = [score_difference(*both) for both in sides]
    gains = tuple(each.value for each in found)
    several = len(gains) >= LEAST_PAIRS
    method = method_of(*(side for both in sides for each in both for side in each))
    return Contrast(
        choice=names[0],
        over=names[1],
        kind=kind,
        gains=gains,
        gain=over_pairs(gains) if several else mean_of(found),
        method=OVER_PAIRS if several else method,
        seeds=(_seeds([one for one, _ in pairs]), _seeds([other for _, other in pairs])),
        collapses=(_collapses([a for a, _ in pairs]), _collapses([b for _, b in pairs])),
        settings=tuple(sorted({one.choices.setting or "" for one, _ in pairs})),
    )


def _sides(board: Board, row: BoardRow, panels: Sequence[PanelKey]) -> list[Side]:
    found = [side(board, row, key) for key in panels]
    assert None not in found  # all rows have played all panels
    return [each for each in found if each is not None]


def _seeds(rows: Sequence[BoardRow]) -> int:
    return sum(len(row.checkpoints) for row in rows)


def over_pairs(gains: Sequence[float]) -> Interval:
    """Mean of pairs' gains with Student's t interval, within [-1, 1].

    Args:
        gains: At least two. If all are equal, their variance is unknown and the ends are NaN.
    """
    found = mean_interval(gains)
    if found.low == found.high:
        return Interval(found.value, math.nan, math.nan)
    return Interval(found.value, max(-1.0, found.low), min(1.0, found.high))


def _collapses(rows: Sequence[BoardRow]) -> Collapses:
    found = [row.stability for row in rows if row.stability]
    collapses = [event for each in found for event in each.events if event.name == "collapse"]
    happened = sum(event.happened for event in collapses)
    known = sum(event.known for event in collapses)
    halved = sum(len(each.halved or ()) for each in found)
    return Collapses(happened, known, halved, sum(len(each.seeds) for each in found) - known)
