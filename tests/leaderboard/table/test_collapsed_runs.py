"""Runs that collapsed: which signal moved before, how often without a collapse, one level lost."""

import json
from dataclasses import replace

from leaderboard.board.rows import FullRow
from leaderboard.board.training_rows import EventCount, SeedCurves, Stability, StoredSeries
from leaderboard.page.charts import NOTHING
from leaderboard.page.state import State
from leaderboard.table.collapsed_runs import collapsed_runs, lost_level, signal_summaries
from leaderboard.tabs.collapses import aligned_chart, collapses_lead, collapses_page
from tests.leaderboard.conftest import SOKOBAN, Boards, first
from tests.leaderboard.pages import rows_of, text_of
from tests.support.board_rows import board_row

STATE = State(tab="collapses", protocol="v1")


def series(name: str, moves_at: int | None, updates: int = 20) -> StoredSeries:
    steps = tuple(range(1, updates + 1))
    values = tuple(9.0 if moves_at is not None and step >= moves_at else 1.0 for step in steps)
    return StoredSeries(name, steps, values, updates)


def seed(number: int, collapse: int | None, grad: int | None, entropy: int | None) -> SeedCurves:
    own = (series("grad_norm", grad), series("entropy", entropy))
    collapsed = collapse is not None
    return SeedCurves(number, "sokoban/builtin", collapse or 20, collapsed, 20, None, own)


def entry(name: str, *seeds: SeedCurves, solved: int = 10) -> FullRow:
    happened = sum(bool(each.collapsed) for each in seeds)
    event = EventCount("collapse", happened, len(seeds), happened / len(seeds), 0.0, 1.0)
    numbers = tuple(range(len(seeds)))
    found = Stability(numbers, (), (), (event,), (), None, None)
    return board_row(f"20260101_{name}", {SOKOBAN: [first(solved)] * len(seeds)}, (found, seeds))


FALLEN = entry("fallen", seed(0, 15, 10, 12), seed(1, 12, 8, None), seed(2, 10, 11, 9))
FALLEN_THRICE = (seed(0, 15, 10, 12), seed(1, 12, 8, None), seed(2, 10, 9, None))
HELD = entry("held", seed(0, None, None, 7), seed(1, None, 18, 6))


def test_what_moved_before_a_collapse_and_without_one(boards: Boards) -> None:
    board = boards(FALLEN, HELD)
    found = collapsed_runs(board, "v1")
    assert [(each.curves.seed, each.step, each.first) for each in found] == [
        (0, 15, ("grad_norm",)), (1, 12, ("grad_norm",)), (2, 10, ("entropy",)),
    ]  # fmt: skip
    # A move at the collapse or after it does not count.
    assert found[2].moves == {"grad_norm": None, "entropy": 9}
    (at_once,) = collapsed_runs(boards(entry("at-once", seed(0, 10, 10, 11))), "v1")
    assert at_once.moves == {"grad_norm": None, "entropy": None}
    grad, entropy = (each for each in signal_summaries(board, "v1") if each.known)
    assert (grad.name, grad.moved, grad.first, grad.lead) == ("grad_norm", 2, 2, 4.5)
    assert (grad.false_alarms, grad.held) == (1, 2)
    assert (entropy.moved, entropy.first, entropy.lead) == (2, 1, 2)
    # A track without a collapse would tell tracks apart, not runs.
    elsewhere = replace(HELD, id="20260101_else", track="other")
    assert signal_summaries(boards(FALLEN, HELD, elsewhere), "v1")[0].held == 2
    # It moves whether a run collapses or not: that warns of nothing.
    assert entropy.false_alarms == 2 and entropy.excess < 0 < grad.excess


def test_the_page_says_it(boards: Boards) -> None:
    page = collapses_page(boards(FALLEN, HELD), STATE)
    said = text_of(collapses_lead(boards(FALLEN, HELD), STATE))
    assert "3 training runs collapsed. The signal that tells these from other runs best is" in said
    # Of two runs there is no median.
    assert "in 2 of 3 runs, and in 1 of 2 that did not" in said
    assert rows_of(page)[0] == ["gradient norm", "2 of 3", "\u2013", "2 of 3", "1 of 2"]
    three = boards(entry("three", *FALLEN_THRICE), HELD)
    said = text_of(collapses_lead(three, STATE))
    assert "in 3 of 3 runs, 4 updates earlier (median of these), and in 1 of 2" in said
    one = text_of(collapses_lead(boards(entry("one", seed(0, 15, 10, 12)), HELD), STATE))
    assert "1 training run collapsed, 1 of them late enough to look for a warning: too few" in one
    assert "No training run on this board has collapsed yet" in text_of(
        collapses_lead(boards(HELD), STATE)
    )


def test_a_signal_that_no_log_has_is_said_to_be_missing(boards: Boards) -> None:
    assert "Not measured" in aligned_chart("ratio", boards(FALLEN), STATE)["plot"]
    assert aligned_chart("ratio", boards(HELD), STATE) == NOTHING


def test_a_collapse_before_the_sixth_update_is_not_judged(boards: Boards) -> None:
    board = boards(entry("early", seed(0, 5, 2, 3)))
    (found,) = collapsed_runs(board, "v1")
    assert (found.moves, found.first) == ({}, ())
    said = text_of(collapses_lead(board, STATE))
    assert "1 training run collapsed, so early that no signal can be judged." in said
    assert "too early to tell" in text_of(collapses_page(board, STATE))


def test_curves_are_aligned_at_the_collapse(boards: Boards) -> None:
    spec = json.loads(aligned_chart("grad_norm", boards(FALLEN), STATE)["plot"])
    drawn = {(each["label"], each["x"]): each["y"] for each in spec["data"]["values"]}
    assert drawn["fallen, seed 0", -5] == 9 and drawn["fallen, seed 0", -6] == 1
    assert drawn["fallen, seed 1", -4] == 9 and drawn["fallen, seed 1", -5] == 1
    middle = {each["x"]: each["y"] for each in spec["layer"][2]["data"]["values"]}
    # Five updates before: 9, 1 and 1.
    assert (middle[-5], middle[-4], middle[5]) == (1, 9, 9)
    assert spec["title"]["subtitle"].endswith("; 3 runs")
    two = entry("two", *FALLEN_THRICE[:2])
    assert len(json.loads(aligned_chart("grad_norm", boards(two), STATE)["plot"])["layer"]) == 2


def test_a_level_that_the_init_solves_and_the_entry_lost(boards: Boards) -> None:
    init = board_row("20260101_init", {SOKOBAN: [first(12)]}, kind="init", init=None)
    board = boards(FALLEN, init)
    assert lost_level(board, FALLEN, init) == (SOKOBAN.key, "builtin-0010")
    assert lost_level(board, FALLEN, None) is None
    assert lost_level(board, FALLEN, FALLEN) is None
