"""The paper's gains over GRPO compared with this board's, and the agreement of their orders."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from scipy.stats import kendalltau

from benchmark.stats.intervals import Interval
from benchmark.stats.paired import Side, difference
from leaderboard.board.board import Board
from leaderboard.board.protocols import PanelFacts
from leaderboard.board.published import published_rows
from leaderboard.board.rows import OPEN, BoardRow, PanelKey, surest_first
from leaderboard.table.paired import compare

BASELINE: Final = "grpo"
"""The baseline of gains, in the paper and here."""
PAPER_EPISODES: Final = 128
"""Number of episodes behind each success rate of the paper (`reference/notes.yaml`)."""
LEAST_SEEDS: Final = 3
"""Seeds of both methods without which no direction is judged, as the study has it of its claims.
Without them a method has no place in the order."""
LEAST_METHODS: Final = 4
"""Minimum number of methods, including the baseline, for comparing orders: three agree fully by
chance in 1 of 6 cases, four in 1 of 24.
"""


@dataclass(frozen=True, slots=True)
class Gain:
    """One method's gain over GRPO in success, as shares.

    Attributes:
        method: As the paper prints it.
        paper: The paper's gain, which has no interval.
        clear: Whether that exceeds the noise of the paper's episodes (`PAPER_EPISODES`).
        here: This board's gain with its interval; None if the method or GRPO was not run.
        row: Its entry here; None if there is none.
        seeds: Number of seeds of its entry here or of GRPO's, whichever is smaller.
    """

    method: str
    paper: float
    clear: bool
    here: Interval | None
    row: BoardRow | None
    seeds: int = 0

    @property
    def counts(self) -> bool:
        """Whether seeds are enough for its direction, and for its place in an order."""
        return self.here is not None and self.seeds >= LEAST_SEEDS


@dataclass(frozen=True, slots=True)
class TaskGains:
    """The methods on one task.

    Attributes:
        panel: The panel compared here.
        track: The track of the entries here; empty if none has both GRPO and another method.
        gains: Gains, sorted by the paper's, the largest first.
        tau: Kendall's tau-b of the two orders, including the baseline's zero; None with too few
            methods.
        p_value: Two-sided, of orders that have nothing to do with each other; None likewise.
        methods: In the orders, with the baseline.
    """

    panel: PanelFacts
    track: str
    gains: tuple[Gain, ...]
    tau: float | None
    p_value: float | None
    methods: int

    @property
    def left_out(self) -> tuple[Gain, ...]:
        """Those that were run here with too few seeds (`LEAST_SEEDS`) to be in the orders."""
        return tuple(gain for gain in self.gains if gain.here is not None and not gain.counts)


@lru_cache(maxsize=8)
def gains(board: Board, protocol: str) -> tuple[TaskGains, ...]:
    """The gains on every task whose success rate the paper reports."""
    found = board.protocol(protocol)
    panels = [each for each in found.panels if each.panel == "builtin"] if found else []
    known = [_of_task(board, protocol, panel) for panel in panels]
    return tuple(each for each in known if each.gains)


def _of_task(board: Board, protocol: str, panel: PanelFacts) -> TaskGains:
    published = {row.method.lower(): row for row in published_rows([panel.task])}
    base = published.get(BASELINE)
    if base is None or base.success[0] is None:
        return TaskGains(panel, "", (), None, None, 0)
    track, rows = _track(board, protocol, panel.key, published)
    start = rows.get(BASELINE)
    gained = []
    for name, each in published.items():
        success, row = each.success[0], rows.get(name)
        if name == BASELINE or success is None:
            continue
        compared = compare(board, row, start, panel.key) if row and start else None
        here = compared.difference if compared else None
        noise = difference(
            *(Side.of_rates([rate], PAPER_EPISODES) for rate in (success, base.success[0]))
        )
        clear = not noise.low <= 0 <= noise.high
        seeds = min(len(side.checkpoints) if side else 0 for side in (row, start))
        gained.append(Gain(each.method, noise.value, clear, here, row, seeds))
    gained.sort(key=lambda gain: -gain.paper)
    tau, p_value, methods = agreement(gained)
    alone = int(start is not None and len(start.checkpoints) >= LEAST_SEEDS)
    return TaskGains(panel, track, tuple(gained), tau, p_value, methods or alone)


def agreement(gained: Sequence[Gain]) -> tuple[float | None, float | None, int]:
    """Kendall's tau-b of the two orders, its p-value, and the number of methods in the orders.

    The baseline is one of these. Methods with fewer than `LEAST_SEEDS` seeds are left out.

    Source: Kendall, Biometrika 33 (1945) 239-251, for ties.
    """
    pairs = [(gain.paper, gain.here.value) for gain in gained if gain.here and gain.counts]
    methods = len(pairs) + 1 if pairs else 0
    if methods < LEAST_METHODS:
        return None, None, methods
    paper, here = zip(*pairs, (0.0, 0.0), strict=True)
    found = kendalltau(paper, here)
    # If all values of one side are equal, there is no order to compare.
    if math.isnan(found.statistic):
        return None, None, methods
    return float(found.statistic), float(found.pvalue), methods


def _track(
    board: Board, protocol: str, key: PanelKey, published: Collection[str]
) -> tuple[str, dict[str, BoardRow]]:
    """The track to compare with the paper, and its entry of each recipe (`surest_first`).

    This is the task's `standard` track, designed for methods to learn as in the paper; without GRPO
    there, the track with GRPO and the most published recipes.
    """
    tracks: dict[str, dict[str, BoardRow]] = {}
    for row in surest_first(board.rows(protocol)):
        if row.kind == "trained" and row.track != OPEN and row.panel(key) is not None:
            tracks.setdefault(row.track, {}).setdefault(row.recipe, row)
    with_base = {name: rows for name, rows in tracks.items() if BASELINE in rows}
    if not with_base:
        return "", {}
    usual = f"{key[0]}-standard"
    most = max(sorted(with_base), key=lambda name: len(with_base[name].keys() & published))
    name = usual if usual in with_base else most
    return name, with_base[name]
