"""Collapsed runs: which signals moved before, how often without a collapse, one level lost."""

import json
from dataclasses import replace
from fractions import Fraction

import pytest

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


def seed(
    number: int, collapse: int | None, grad: int | None, entropy: int | None, *more: StoredSeries
) -> SeedCurves:
    own = (series("grad_norm", grad), series("entropy", entropy), *more)
    collapsed = collapse is not None
    if not collapsed:
        own += (StoredSeries("success", (0, 5, 10, 15, 20), (0.5,) * 5, 5),)
    return SeedCurves(number, "sokoban/builtin", collapse or 20, collapsed, 20, None, own)


def entry(name: str, *seeds: SeedCurves, solved: int = 10) -> FullRow:
    happened = sum(bool(each.collapsed) for each in seeds)
    event = EventCount("collapse", happened, len(seeds), happened / len(seeds), 0.0, 1.0)
    numbers = tuple(range(len(seeds)))
    found = Stability(numbers, (), (), (event,), (), None, None)
    return board_row(f"20260101_{name}", {SOKOBAN: [first(solved)] * len(seeds)}, (found, seeds))


FALLEN = entry("fallen", seed(0, 15, 10, 12), seed(1, 12, 8, None), seed(2, 10, 11, 9))
FALLEN_THRICE = (seed(0, 15, 10, 12), seed(1, 12, 8, None), seed(2, 10, 9, None))
HELD = entry("held", seed(0, None, None, 7), seed(1, None, 11, 6))
CALM = entry("calm", *(seed(number, None, None, None) for number in range(3)))


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
    # Two of the three fall after update 11.
    assert (grad.false_alarms, grad.held) == (Fraction(2, 3), 2)
    assert (entropy.moved, entropy.first, entropy.lead) == (2, 1, 2)
    # A track without a collapse would distinguish tracks, not runs.
    elsewhere = replace(HELD, id="20260101_else", track="other")
    assert signal_summaries(boards(FALLEN, HELD, elsewhere), "v1")[0].held == 2
    # It moves whether or not a run collapses, so it is no warning.
    assert entropy.margin is not None and grad.margin is not None
    assert entropy.false_alarms == 2 and entropy.margin.value < 0 < grad.margin.value
    # Whether it collapsed is unknown.
    few = replace(HELD.curves[0], collapsed=None, collapse_step=None)
    assert signal_summaries(boards(FALLEN, entry("few", few)), "v1")[0].held == 0


def test_the_page_says_it(boards: Boards) -> None:
    page = collapses_page(boards(FALLEN, HELD), STATE)
    said = text_of(collapses_lead(boards(FALLEN, HELD), STATE))
    assert "3 training runs collapsed, 3 of them late enough to look for a warning. No" in said
    assert "No signal is shown to warn of them" in said
    assert "baselines/results/early_warning.md asks the same of all runs of the study" in said
    # Two runs are too few for a median.
    assert rows_of(page)[0] == [
        "gradient norm", "2 of 3", "\u2013", "2 of 3", "0.7 of 2", "+33.3 [\u221235.1, +72.9]",
    ]  # fmt: skip
    one = text_of(collapses_lead(boards(entry("one", seed(0, 15, 10, 12)), HELD), STATE))
    assert "1 training run collapsed, 1 of them late enough to look for a warning: too few" in one
    assert "No training run on this board has collapsed yet" in text_of(
        collapses_lead(boards(HELD), STATE)
    )


def test_a_signal_is_named_only_with_an_interval_above_zero(boards: Boards) -> None:
    """3 of 3 versus 0 of 3: bounds of the shares are 43.8 and 56.2%, 79.4 apart in quadrature."""
    board = boards(entry("three", *FALLEN_THRICE), CALM)
    said = text_of(collapses_lead(board, STATE))
    assert "The signal that tells these from other runs best is gradient norm : it moved" in said
    assert (
        "before the fall in 3 of 3 runs, 4 updates earlier (median of these), and in as much time "
        "in 0 of 3 that did not collapse: +100.0 [+20.6, +100.0] points. It was picked out of 2 on "
        "these very runs."
    ) in said
    soon = (seed(0, 15, 14, None), seed(1, 12, 11, None), seed(2, 10, 9, None))
    said = text_of(collapses_lead(boards(entry("soon", *soon), CALM), STATE))
    assert "1 update earlier" in said
    # Without a comparison, nothing is shown.
    alone = text_of(collapses_lead(boards(entry("alone", *FALLEN_THRICE)), STATE))
    assert "No warning can be judged: no other run on their tracks held as long." in alone


def test_what_tells_tracks_apart_is_no_warning(boards: Boards) -> None:
    """On one track all collapse and the signal moves; on the other, one of four, and it never does.

    On both, it moved before 3 of 4 collapses and in none of 3 other runs.
    """
    breaking = replace(entry("breaking", *FALLEN_THRICE), track="sokoban-stress")
    calm = entry("calmer", seed(0, 15, None, None), *(seed(n, None, None, None) for n in (1, 2, 3)))
    board = boards(breaking, replace(calm, track="sokoban-standard"))
    grad = next(each for each in signal_summaries(board, "v1") if each.name == "grad_norm")
    assert (grad.moved, grad.known, grad.held, grad.false_alarms) == (3, 4, 3, Fraction())
    assert (grad.matched_moved, grad.matched, grad.expected) == (0, 1, Fraction())
    assert grad.margin is not None and grad.margin.value == 0
    assert "No signal is shown to warn of them" in text_of(collapses_lead(board, STATE))


def test_the_study_is_linked_where_the_repository_is_known(boards: Boards) -> None:
    board = boards(FALLEN, HELD)
    facts = replace(board.facts, repository="https://example.org/bench", commit="abc")
    page = collapses_lead(replace(board, facts=facts), STATE)
    assert 'href="https://example.org/bench/blob/abc/baselines/results/early_warning.md"' in page
    assert "href" not in collapses_lead(board, STATE)


def test_a_run_that_did_not_collapse_is_watched_no_longer_than_one_that_did(boards: Boards) -> None:
    late = entry("late", *(seed(number, None, 15, None) for number in range(2)))
    grad = next(each for each in signal_summaries(boards(FALLEN, late), "v1") if each.known)
    assert (grad.name, grad.false_alarms, grad.held) == ("grad_norm", Fraction(), 2)


def test_a_signal_without_anything_to_compare_with_stands_last(boards: Boards) -> None:
    """The ratio moved before each collapse, but no other run has it; the entropy never moved."""
    fallen = entry(
        "ratio", *(seed(number, 15, 10, None, series("ratio", 9)) for number in range(3))
    )
    names = [each.name for each in signal_summaries(boards(fallen, CALM), "v1") if each.known]
    assert names == ["grad_norm", "entropy", "ratio"]


def test_what_moves_after_the_loss_was_seen_is_no_warning(boards: Boards) -> None:
    """Means of three are 60, 60, 60, 40, 20%: it collapses at 12, and 9 already shows the loss."""
    success = StoredSeries("success", (0, 3, 6, 9, 12), (0.6, 0.6, 0.6, 0.0, 0.0), 5)
    board = boards(entry("slow", seed(0, 12, 10, 8, success)))
    (found,) = collapsed_runs(board, "v1")
    assert (found.step, found.fall) == (12, 9)
    assert found.moves == {"grad_norm": None, "entropy": 8}
    assert signal_summaries(board, "v1")[0].lead == 1
    assert rows_of(collapses_page(board, STATE).partition("Run by run")[2])[0][1:] == [
        "12", "9", "entropy", "no", "8", "\u2013",
    ]  # fmt: skip


def test_each_signal_is_judged_from_its_own_first_update(boards: Boards) -> None:
    """The KL starts at 0, so the first update has no logarithm: 7 is the first after five."""
    values = (0.0, *[0.1] * 19)
    kl = StoredSeries("kl_init", tuple(range(1, 21)), values, 20)
    board = boards(entry("seven", seed(0, 7, None, 6, kl), seed(1, 8, None, None, kl)))
    seven, eight = collapsed_runs(board, "v1")
    assert seven.moves == {"grad_norm": None, "entropy": 6}
    assert eight.moves == {"kl_init": None, "grad_norm": None, "entropy": None}
    known = {each.name: each.known for each in signal_summaries(board, "v1")}
    assert known == {"kl_init": 1, "grad_norm": 2, "ratio": 0, "entropy": 2, "rollout_format": 0}


def test_signals_that_moved_together_are_told_apart(boards: Boards) -> None:
    ratio = series("ratio", 8)
    page = collapses_page(boards(entry("both", seed(0, 12, 8, 8, ratio))), STATE)
    assert "gradient norm; token ratio, P99; entropy" in text_of(page)


def test_a_signal_that_no_log_has_is_said_to_be_missing(boards: Boards) -> None:
    assert "Not measured" in aligned_chart("ratio", boards(FALLEN), STATE)["plot"]
    assert aligned_chart("ratio", boards(HELD), STATE) == NOTHING


@pytest.mark.parametrize("collapse", [5, 6])
def test_a_collapse_by_the_sixth_update_is_not_judged(boards: Boards, collapse: int) -> None:
    board = boards(entry("early", seed(0, collapse, 2, 3)))
    (found,) = collapsed_runs(board, "v1")
    assert (found.moves, found.first) == ({}, ())
    said = text_of(collapses_lead(board, STATE))
    assert "1 training run collapsed, too early, or without the numbers, to judge any" in said
    assert "cannot be judged" in text_of(collapses_page(board, STATE))


def test_curves_are_aligned_at_the_collapse(boards: Boards) -> None:
    spec = json.loads(aligned_chart("grad_norm", boards(FALLEN), STATE)["plot"])
    drawn = {(each["label"], each["x"]): each["y"] for each in spec["data"]["values"]}
    assert drawn["fallen, seed 0", -5] == 9 and drawn["fallen, seed 0", -6] == 1
    assert drawn["fallen, seed 1", -4] == 9 and drawn["fallen, seed 1", -5] == 1
    middle = {each["x"]: each["y"] for each in spec["layer"][2]["data"]["values"]}
    # Five updates earlier: 9, 1 and 1.
    assert (middle[-5], middle[-4], middle[5]) == (1, 9, 9)
    assert spec["title"]["subtitle"].endswith("; 3 runs")
    two = entry("two", *FALLEN_THRICE[:2])
    assert len(json.loads(aligned_chart("grad_norm", boards(two), STATE)["plot"])["layer"]) == 2


def test_all_runs_are_drawn_and_many_are_thin(boards: Boards) -> None:
    def drawn(runs: int) -> tuple[set[str], float]:
        board = boards(entry(f"of-{runs}", *(seed(number, 12, 9, 9) for number in range(runs))))
        spec = json.loads(aligned_chart("grad_norm", board, STATE)["plot"])
        labels = {each["label"] for each in spec["data"]["values"]}
        return labels, spec["layer"][1]["mark"]["strokeWidth"]

    few, wide = drawn(12)
    many, thin = drawn(16)
    assert (len(few), len(many)) == (12, 16) and thin < wide
    # The limit of a page is distributed over all of them.
    most, _ = drawn(130)
    assert len(most) == 44 and "of-130, seed 129" in most


def test_a_level_that_the_init_solves_and_the_entry_lost(boards: Boards) -> None:
    init = board_row("20260101_init", {SOKOBAN: [first(12)]}, kind="init", init=None)
    board = boards(FALLEN, init)
    assert lost_level(board, FALLEN, init) == (SOKOBAN.key, "builtin-0010")
    assert lost_level(board, FALLEN, None) is None
    assert lost_level(board, FALLEN, FALLEN) is None
