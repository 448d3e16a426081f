"""Training curves: the interval of survival, the same as a table, why a training was ended."""

import re
from dataclasses import replace

from leaderboard.board.rows import FullRow
from leaderboard.board.training_rows import SeedCurves, Stability, Survival
from leaderboard.page.figures import Curve
from leaderboard.page.state import State
from leaderboard.tabs.curves import _stairs, curves_page
from tests.leaderboard.conftest import SOKOBAN, Boards, first
from tests.leaderboard.pages import rows_of, text_of
from tests.support.board_rows import board_row

# Three seeds: one collapses at 10, one at 20, and the last one is seen until 30.
TO_THE_END = Survival(
    (10, 20, 30), (2 / 3, 1 / 3, 1 / 3), (0.05, 0.01, 0.01), (0.95, 0.77, 0.77), (3, 2, 1),
    (1, 1, 0),
)  # fmt: skip
# All collapse: the last share is 0, and its interval is unknown.
TO_NOTHING = Survival((10, 20), (0.5, 0.0), (0.01, None), (0.9, None), (2, 1), (1, 1))
ALL_LEFT = Survival((30,), (1.0,), (None,), (None,), (2,), (0,))


def test_the_band_of_survival_is_where_the_data_bound_it() -> None:
    drawn = _stairs(2, TO_THE_END, 40.0)
    assert drawn == Curve(
        colour=2,
        lines=(),
        middle=((0, 1), (10, 2 / 3), (20, 1 / 3), (30, 1 / 3), (40, 1 / 3)),
        band=((10, 0.05, 0.95), (20, 0.01, 0.77), (30, 0.01, 0.77), (40, 0.01, 0.77)),
        step=True,
    )
    # It holds until the update after which nothing is left.
    assert _stairs(0, TO_NOTHING, 40.0).band == ((10, 0.01, 0.9), (20, 0.01, 0.9))
    assert _stairs(0, ALL_LEFT, 30.0).band == ()


def entry(survival: Survival, *stopped: str | None) -> FullRow:
    seeds = tuple(
        SeedCurves(seed, "sokoban/builtin", 20, True, 30, reason, ())
        for seed, reason in enumerate(stopped)
    )
    found = Stability(tuple(range(len(seeds))), (), (), (), (), None, survival)
    return board_row("20260101_a", {SOKOBAN: [first(5)] * len(seeds)}, (found, seeds))


def page_of(boards: Boards, *rows: FullRow) -> str:
    state = State(tab="curves", protocol="v1", entries=tuple(row.id for row in rows))
    return curves_page(boards(*rows), state)


def test_survival_is_listed_step_by_step(boards: Boards) -> None:
    page = page_of(boards, entry(TO_NOTHING, None, None))
    assert len(re.findall(r'<path class="band lb-c0"', page)) == 1
    _, listed = page.split("Survival of the seeds</caption>")
    assert rows_of(listed) == [
        ["a", "10", "2", "1", "50.0", "1.0\u201390.0"],
        ["a", "20", "1", "1", "0.0", "\u2013"],
    ]
    assert "Lines may lie on each other" in text_of(page)


def test_the_table_says_why_a_training_was_ended(boards: Boards) -> None:
    page = page_of(boards, entry(ALL_LEFT, None, "<i> gradients"))
    assert "ended early" in text_of(page)
    assert [row[-1] for row in rows_of(page)] == ["no", "<i> gradients"]
    plain = entry(ALL_LEFT, None, None)
    assert "ended early" not in page_of(boards, replace(plain, id="20260102_b"))
