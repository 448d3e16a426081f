"""The top of an entry's page: key numbers, its curve, and the line that reproduces it."""

import json
from dataclasses import replace

from leaderboard.board.rows import DependableSuccess, FullRow
from leaderboard.board.training_rows import EventCount, SeedCurves, Stability, StoredSeries
from leaderboard.page.state import State
from leaderboard.tabs.entry.head import entry_curve, entry_head
from tests.leaderboard.conftest import SOKOBAN, Boards, first
from tests.leaderboard.pages import text_of
from tests.support.board_rows import board_row


def trained(*seconds: float) -> FullRow:
    seeds = tuple(
        SeedCurves(
            seed, "sokoban/builtin", 20, False, 20, None,
            (
                StoredSeries("success", (0, 20), (0.2, 0.5), 2),
                StoredSeries("seconds", (10, 20), (last / 2, last), 2),
            ),
        )
        for seed, last in enumerate(seconds)
    )  # fmt: skip
    event = EventCount("collapse", 0, len(seeds), 0.0, 0.0, 0.56)
    found = Stability(tuple(range(len(seeds))), (), (), (event,), (), None, None)
    solved = {SOKOBAN: [first(40 + 10 * seed) for seed in range(len(seeds))]}
    return board_row("20260101_a", solved, (found, seeds))


STATE = State(tab="entry", protocol="v1", entry="20260101_a")


def test_numbers_at_a_glance(boards: Boards) -> None:
    row = trained(600.0, 1200.0)
    (panel,) = row.panels
    number = DependableSuccess(0.45, 0.2, 0.5)
    board = boards(replace(row, panels=(replace(panel, dependable=number),)))
    said = text_of(entry_head(board, STATE))
    # Welch's interval for two seeds that are 10 points apart is inconclusive.
    assert "success on Sokoban 45.0% 95% CI 0.0\u2013100.0" in said
    assert "dependable success 45.0% 95% CI 20.0\u201350.0 lowest seed 40.0%" in said
    assert "0/2 collapsed" in said
    # 10 and 20 minutes.
    assert "training 15 min a seed" in said
    assert "arlarena-bench reproduce submissions/20260101_a Copy" in said
    assert "Reproduce it in a clone of the repository: 2 seeds, 15 min each." in said
    with_code = entry_head(boards(replace(row, plugins=("rank.py",))), STATE)
    assert "reproduce submissions/20260101_a --plugin rank.py Copy" in text_of(with_code)
    spec = json.loads(entry_curve(board, STATE)["plot"])
    assert [each["y"] for each in spec["data"]["values"]] == [20, 50]


def test_one_seed_and_no_logs_say_so(boards: Boards) -> None:
    assert "dependable success not known" in text_of(entry_head(boards(trained(60.0)), STATE))
    plain = boards(board_row("20260101_a", {SOKOBAN: [first(5)]}))
    said = text_of(entry_head(plain, STATE))
    assert "success on Sokoban" in said and "dependable" not in said
    assert "success" not in entry_curve(plain, STATE)["plot"]
