"""Training curves: the interval of survival, the same as a table, why a training run ended."""

import json
from dataclasses import replace
from typing import Any

from benchmark.stats.intervals import exact
from leaderboard.board.rows import FullRow
from leaderboard.board.training_rows import SeedCurves, Stability, StoredSeries, Survival
from leaderboard.page.state import State
from leaderboard.tabs.curve_charts import _stairs, curve_chart, survival_chart
from leaderboard.tabs.curves import curves_page
from tests.leaderboard.conftest import SOKOBAN, Boards, first
from tests.leaderboard.pages import rows_of, text_of
from tests.support.board_rows import board_row

# Three seeds: one is last observed at 5, one collapses at 10, and the last one at 15.
CENSORED = Survival(
    (5, 10, 15), (1.0, 0.5, 0.0), (None, 0.05, None), (None, 0.95, None), (3, 2, 1), (0, 1, 1)
)
# Exact intervals for n of n: from 0.025^(1 / n).
THREE_LEFT = exact(3, 3).low, 1.0
TWO_LEFT = exact(2, 2).low, 1.0
# All collapse: the last share is 0, and its interval is unknown.
TO_NOTHING = Survival((10, 20), (0.5, 0.0), (0.01, None), (0.9, None), (2, 1), (1, 1))
ALL_LEFT = Survival((30,), (1.0,), (None,), (None,), (2,), (0,))


def test_the_band_of_survival_is_where_the_data_bound_it() -> None:
    assert _stairs(CENSORED, 15.0) == (
        ((0, 1), (5, 1), (10, 0.5), (15, 0), (15, 0)),
        ((0, *THREE_LEFT), (5, *THREE_LEFT), (10, 0.05, 0.95), (15, 0.05, 0.95)),
    )
    # Without events, the interval is the same from the start to the end.
    assert _stairs(ALL_LEFT, 30.0)[1] == ((0, *TWO_LEFT), (30, *TWO_LEFT), (30, *TWO_LEFT))


def entry(survival: Survival, *stopped: str | None) -> FullRow:
    seeds = tuple(
        SeedCurves(seed, "sokoban/builtin", 20, True, 30, reason, ())
        for seed, reason in enumerate(stopped)
    )
    found = Stability(tuple(range(len(seeds))), (), (), (), (), None, survival)
    return board_row("20260101_a", {SOKOBAN: [first(5)] * len(seeds)}, (found, seeds))


def series(*values: float) -> tuple[StoredSeries, ...]:
    steps = tuple(10 * number for number in range(len(values)))
    episodes = tuple(80.0 * number for number in range(len(values)))
    return (
        StoredSeries("success", steps, values, len(values)),
        StoredSeries("episodes", steps, episodes, len(values)),
    )


def data_of(value: dict[str, str], layer: int = 0) -> list[dict[str, Any]]:
    spec = json.loads(value["plot"])
    own = spec["layer"][layer].get("data", spec["data"])
    return list(own["values"])


def test_a_curve_is_the_median_and_the_range_of_the_seeds(boards: Boards) -> None:
    seeds = (
        SeedCurves(0, "sokoban/builtin", 20, True, 20, None, series(0.2, 0.6, 0.1)),
        SeedCurves(1, "sokoban/builtin", 20, False, 20, None, series(0.2, 0.4, 0.5)),
    )
    found = Stability((0, 1), (), (), (), (), None, CENSORED)
    row = board_row("20260101_a", {SOKOBAN: [first(5)] * 2}, (found, seeds), track="small")
    board = boards(row)
    state = State(tab="curves", protocol="v1", entries=(row.id,))
    value = curve_chart("success", board, state)
    assert value["type"] == "altair"
    middle = json.loads(value["plot"])["data"]["values"]
    assert [(each["x"], round(each["y"], 6)) for each in middle] == [(0, 20), (10, 50), (20, 30)]
    band = data_of(value)
    assert [(each["low"], each["high"]) for each in band] == [(20, 20), (40, 60), (10, 50)]
    # A cross on the curve of the seed that collapsed.
    assert data_of(value, 3) == [
        {"label": "GRPO", "x": 20.0, "y": 10.0, "said": "GRPO, seed 0, update 20"}
    ]
    played = curve_chart("success", board, replace(state, x="episodes"))
    assert [each["x"] for each in json.loads(played["plot"])["data"]["values"]] == [0, 80, 160]
    # The log does not contain the number of sampled tokens.
    assert "Not measured" in curve_chart("success", board, replace(state, x="tokens"))["plot"]
    assert "Not measured" in curve_chart("entropy", board, state)["plot"]
    assert "GRPO ends at 30.0" in json.loads(value["plot"])["description"]


def test_survival_is_a_staircase_with_its_band(boards: Boards) -> None:
    row = entry(TO_NOTHING, None, None)
    state = State(tab="curves", protocol="v1", entries=(row.id,))
    value = survival_chart(boards(row), state)
    assert [(each["x"], each["low"]) for each in data_of(value)] == [
        (0, 15.811), (10, 1.2579), (20, 0), (30, 0),
    ]  # fmt: skip
    assert json.loads(value["plot"])["data"]["values"][-1]["y"] == 0


def page_of(boards: Boards, *rows: FullRow) -> str:
    state = State(tab="curves", protocol="v1", entries=tuple(row.id for row in rows))
    return curves_page(boards(*rows), state)


def test_survival_is_listed_step_by_step(boards: Boards) -> None:
    page = page_of(boards, entry(TO_NOTHING, None, None))
    _, listed = page.split("Survival of the seeds</caption>")
    assert rows_of(listed) == [
        ["a grpo, as declared", "10", "2", "1", "50.0", "1.3\u201398.7"],
        ["a grpo, as declared", "20", "1", "1", "0.0", "0.0\u201384.2"],
    ]
    assert "The table separates lines that overlap" in text_of(page)


def test_the_table_says_why_a_training_was_ended(boards: Boards) -> None:
    page = page_of(boards, entry(ALL_LEFT, None, "<i> gradients"))
    assert "ended early" in text_of(page)
    assert [row[-1] for row in rows_of(page)] == ["no", "<i> gradients"]
    plain = entry(ALL_LEFT, None, None)
    assert "ended early" not in page_of(boards, replace(plain, id="20260102_b"))
