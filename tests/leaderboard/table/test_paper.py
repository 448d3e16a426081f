"""The paper's gains over GRPO, those on the board, and the order of the methods."""

import json
import re
from dataclasses import replace

import pytest

from leaderboard.board.board import Board
from leaderboard.board.protocols import Grid, StudyVerdict
from leaderboard.board.rows import FullRow
from leaderboard.page.state import State
from leaderboard.table.paper import Gain, agreement, gains
from leaderboard.tabs.paper import paper_chart, paper_lead, paper_page
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, Boards, first
from tests.leaderboard.pages import text_of
from tests.support.board_rows import board_row

STATE = State(tab="paper", protocol="v1")


def entry(recipe: str, solved: int, track: str = "sokoban-standard", seeds: int = 1) -> FullRow:
    played = {SOKOBAN: [first(solved)] * seeds}
    return board_row(f"20260101_{recipe}-{track}", played, recipe=recipe, track=track)


def board_of(boards: Boards) -> Board:
    solved = {"grpo": 40, "sampo": 80, "cispo": 60, "gspo": 41}
    rows = [entry(recipe, count, seeds=3) for recipe, count in solved.items()]
    return boards(*rows, entry("grpo", 10, "sokoban-stress"), entry("empg", 90, "open"))


def test_gains_are_those_of_one_track(boards: Boards) -> None:
    alfworld, sokoban = gains(board_of(boards), "v1")
    assert (alfworld.panel.key, alfworld.track, alfworld.tau) == (ALFWORLD.key, "", None)
    assert (sokoban.track, sokoban.methods) == ("sokoban-standard", 4)
    found = {each.method: each for each in sokoban.gains}
    # Table 3: SAMPO 88.86, CISPO 26.02, GSPO 82.22, GRPO 83.90.
    assert found["SAMPO"].paper == pytest.approx(0.0496)
    assert found["CISPO"].paper == pytest.approx(-0.5788)
    here = found["SAMPO"].here
    assert here is not None and here.value == pytest.approx(0.4) and here.low > 0
    assert found["EMPG"].here is None
    # Paper: SAMPO, GRPO, GSPO, CISPO. Here: SAMPO, CISPO, GSPO, GRPO. 3 of 6 pairs agree.
    assert sokoban.tau == pytest.approx(0.0)


def test_the_standard_track_stands_beside_the_paper(boards: Boards) -> None:
    """Even if more methods ran on another track."""
    more = [entry(each, 30, "sokoban-stress") for each in ("sampo", "cispo", "gspo", "grpo_st")]
    board = boards(entry("grpo", 40), entry("grpo", 10, "sokoban-stress"), *more)
    assert [each.track for each in gains(board, "v1")] == ["", "sokoban-standard"]


def test_a_later_entry_with_fewer_seeds_is_no_baseline(boards: Boards) -> None:
    three = board_row(
        "20260101_three", {SOKOBAN: [first(40)] * 3}, recipe="grpo", track="sokoban-standard"
    )
    one = replace(entry("grpo", 5), id="20260102_one")
    _, sokoban = gains(boards(three, one, entry("sampo", 80)), "v1")
    (sampo,) = [each for each in sokoban.gains if each.method == "SAMPO"]
    assert sampo.here is not None and sampo.here.value == pytest.approx(0.4)


def test_what_the_paper_itself_leaves_open_is_not_opposite(boards: Boards) -> None:
    """GSPO is 1.7 points below GRPO in the paper, CISPO 57.9."""
    rows = [entry("grpo", 10, seeds=3), entry("gspo", 80, seeds=3), entry("cispo", 60, seeds=3)]
    said = text_of(paper_page(boards(*rows, entry("sapo", 90)), STATE))
    assert re.search(r"GSPO \u22121.7 \+70.0 \[[^]]*\] undecided there", said)
    assert re.search(r"CISPO \u221257.9 \+50.0 \[[^]]*\] opposite", said)
    # A single seed is not conclusive here, as in the study.
    assert re.search(r"SAPO \u221253.7 \+80.0 \[[^]]*\] undecided, 1 seed", said)


def test_two_methods_are_no_order() -> None:
    gain = Gain("SAMPO", 0.1, True, None, None)
    assert agreement([gain]) == (None, None, 0)


def test_grpo_alone_is_one_method(boards: Boards) -> None:
    _, sokoban = gains(boards(entry("grpo", 40, seeds=3)), "v1")
    assert (sokoban.tau, sokoban.methods) == (None, 1)


def test_methods_with_too_few_seeds_are_left_out_of_the_order(boards: Boards) -> None:
    """With one seed, SAPO would be first here, and last but one in the paper."""
    solved = {"grpo": 40, "sampo": 80, "cispo": 60, "gspo": 41}
    rows = [entry(recipe, count, seeds=3) for recipe, count in solved.items()]
    board = boards(*rows, entry("sapo", 90), entry("dr_grpo", 10, seeds=2))
    _, sokoban = gains(board, "v1")
    assert sokoban.methods == 4
    assert sokoban.tau == pytest.approx(0.0)
    said = text_of(paper_page(board, STATE))
    assert "Left out, with fewer than 3 seeds here or of GRPO: SAPO (1 seed)." in said


def test_one_seed_of_the_baseline_leaves_out_all(boards: Boards) -> None:
    board = boards(entry("grpo", 40), *(entry(e, 50, seeds=3) for e in ("sampo", "cispo", "gspo")))
    _, sokoban = gains(board, "v1")
    assert (sokoban.tau, sokoban.methods, len(sokoban.left_out)) == (None, 0, 3)


def test_the_page_says_what_was_not_run(boards: Boards) -> None:
    board = board_of(boards)
    said = text_of(paper_lead(board, STATE) + paper_page(board, STATE))
    assert "Run here so far: 3 of the 18 gains over GRPO that the paper reports." in said
    assert "Sokoban: 0.00 (4 methods, p = 1.000)" in said
    assert "Too few for an order of methods: 0 with 3 seeds here, GRPO included; 4 are" in said
    assert "EMPG \u22124.7 not run yet" in said and "CISPO \u221257.9 +20.0 [" in said
    assert "SAMPO +5.0 +40.0" in said


def test_verdicts_are_those_of_the_study(boards: Boards) -> None:
    board = board_of(boards)
    verdicts = (
        StudyVerdict(
            "SAMPO <wins>.", "sokoban-standard", "reproduced", "sampo minus grpo: +9.1", True
        ),
        StudyVerdict(
            "CISPO falls.", "sokoban-stress", "incomplete", "4 of 5 runs; cispo lacks seed 4"
        ),
    )
    grid = Grid((), (), (), verdicts)
    judged = Board(replace(board.facts, grid=grid), board._table)
    page = paper_page(judged, STATE)
    assert (
        "Decided: 1 of 2 claims, 1 of them post hoc" in text_of(page)
        and "SAMPO &lt;wins&gt;" in page
    )
    assert "4 of 5 runs; cispo lacks seed 4" in page
    assert '<span class="lb-chip lb-good">reproduced</span>' in page


def test_dumbbells_have_both_ends_where_both_are_known(boards: Boards) -> None:
    spec = json.loads(paper_chart(board_of(boards), STATE)["plot"])
    assert len(spec["data"]["values"]) == 18
    both = spec["layer"][1]["data"]["values"]
    assert {each["label"] for each in both} == {
        "Sokoban: SAMPO", "Sokoban: CISPO", "Sokoban: GSPO",
    }  # fmt: skip
