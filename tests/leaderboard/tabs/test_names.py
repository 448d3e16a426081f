"""Names of entries are free text: wherever one stands, the method that was trained is beside it."""

import json
from dataclasses import replace
from typing import Any

from leaderboard.board.rows import FullRow
from leaderboard.board.training_rows import EventCount, SeedCurves, Stability, StoredSeries
from leaderboard.page.methods import method_of
from leaderboard.page.query import choices_of
from leaderboard.page.state import State
from leaderboard.tabs.answer import answer
from leaderboard.tabs.board import board_page
from leaderboard.tabs.compare import compare_lead
from leaderboard.tabs.curve_charts import curve_chart
from leaderboard.tabs.curves import curves_page
from leaderboard.tabs.entry.head import entry_head
from leaderboard.tabs.stability import stability_lead
from leaderboard.tabs.success import success_chart
from tests.leaderboard.conftest import SOKOBAN, Boards, first
from tests.leaderboard.pages import text_of
from tests.support.board_rows import RECIPES, board_row

CLAIM = "SAMPO (best method)"
ENTRIES = ("20260101_a", "20260102_b")
STATE = State(protocol="v1", panels="sokoban/builtin")


def trained(entry: str, count: int, **changes: Any) -> FullRow:
    """An entry of GRPO with one collapsed run."""
    success = StoredSeries("success", (0, 20), (0.2, 0.5), 2)
    seeds = (SeedCurves(0, "sokoban/builtin", 20, True, 20, None, (success,)),)
    event = EventCount("collapse", 1, 1, 1.0, 0.0, 1.0)
    found = Stability((0,), (), (), (event,), (), None, None)
    row = board_row(entry, {SOKOBAN: [first(count)]}, (found, seeds), choices=RECIPES["grpo"])
    return replace(row, **{"track": "sokoban-standard", **changes})


def test_the_method_stands_beside_a_name_that_claims_another_one(boards: Boards) -> None:
    one, other = ENTRIES
    board = boards(trained(one, 50, name=CLAIM), trained(other, 5, name="b"))
    beside = f"{CLAIM} (GRPO)"
    assert f"{CLAIM} GRPO \u00b7 " in text_of(board_page(board, STATE))
    assert f"{beside} leads with" in text_of(answer(board, STATE))
    assert text_of(entry_head(board, replace(STATE, entry=one))).startswith(f"{CLAIM} GRPO ")
    assert f"{CLAIM} (GRPO: 1 of 1)" in text_of(stability_lead(board, STATE))
    pair = replace(STATE, first=one, second=other)
    assert text_of(compare_lead(board, pair)).startswith(f"{beside} minus b (GRPO) on")
    curves = replace(STATE, tab="curves", entries=ENTRIES)
    assert text_of(curves_page(board, curves)).count(f"{CLAIM} GRPO") == 2
    drawn = json.loads(curve_chart("success", board, curves)["plot"])["data"]["values"]
    assert {each["label"] for each in drawn} == {f"GRPO: {CLAIM}", "GRPO: b"}
    (value, *_) = json.loads(success_chart(board, STATE)["plot"])["data"]["values"]
    assert (value["entry"], value["method"], value["row"][:6]) == (CLAIM, "GRPO", "GRPO: ")
    assert (f"{CLAIM} \u00b7 GRPO", one) in choices_of(board, "v1")["entries"]


def test_off_tracks_the_choices_of_the_logs_follow_a_recipe_that_is_only_declared() -> None:
    row = trained("20260101_a", 50, recipe="sampo", track="open")
    assert method_of(row) == "sampo, as declared (logs: grpo, ppo, token-mean, plain)"
    unknown = replace(row, choices=replace(row.choices, sampling=None))
    assert method_of(unknown) == "sampo, as declared"
    assert method_of(replace(row, kind="init", recipe="sampo")) == "init"


def test_two_entries_of_one_name_are_told_apart(boards: Boards) -> None:
    rows: list[FullRow] = [
        board_row(f"2026010{day}_x", {SOKOBAN: [first(10)]}, name="same") for day in (1, 2)
    ]
    titles = [title for title, _ in choices_of(boards(*rows), "v1")["entry"]]
    assert sorted(titles) == [
        "same \u00b7 grpo, as declared (20260101_x)",
        "same \u00b7 grpo, as declared (20260102_x)",
    ]
