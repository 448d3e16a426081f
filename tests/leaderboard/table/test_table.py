"""The table for a view."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd  # type: ignore[import-untyped]  # it comes without types
import pytest

from benchmark.stability.seeds import recipe_stability
from leaderboard.board.board import Board
from leaderboard.board.rows import FullRow
from leaderboard.board.training_rows import EventCount, NamedValue, Stability
from leaderboard.page.query import open_query
from leaderboard.table.columns import COLUMNS, STABILITY, Column, columns_of, success_of
from leaderboard.table.table import columns, csv_of, shown, sorted_frame, table
from leaderboard.table.view import BoardView, default_view
from leaderboard.tabs.board import board_page
from tasks.errors import UserError
from tests.leaderboard.conftest import ALFWORLD, SOKOBAN, Boards, first
from tests.support.board_rows import board_row, hostile, training_run

BOTH = BoardView("v1", (ALFWORLD.key, SOKOBAN.key))
ALONE = BoardView("v1", (SOKOBAN.key,))


def a_row(entry: str, sokoban: int | None, alfworld: int | None = None, **changes: Any) -> FullRow:
    """An entry that has solved these numbers of 100 episodes of the panels that it has played."""
    pairs = ((ALFWORLD, alfworld), (SOKOBAN, sokoban))
    solved = {facts: [first(count)] for facts, count in pairs if count is not None}
    return board_row(f"20260101_{entry}", solved, **changes)


def stability(**values: float | None) -> Stability:
    columns = tuple(NamedValue(name, values.get(name)) for name in STABILITY)
    event = EventCount("collapse", 1, 3, 1 / 3, 0.06, 0.79)
    return Stability((0, 1, 2), columns, (), (event,), (), None, None)


def order(board: Board, view: BoardView) -> list[str]:
    return [entry[9:] for entry in table(board, view).index]


def test_the_columns_of_stability_are_those_of_a_recipe() -> None:
    run = training_run("grpo", 0, 1.0, None, noise=0)
    assert tuple(recipe_stability([run], resamples=10).columns) == STABILITY


def test_every_column_is_explained_and_has_its_own_name() -> None:
    found = columns_of([ALFWORLD, SOKOBAN])
    assert len({column.name for column in found}) == len({c.title for c in found}) == len(found)
    assert all(column.text for column in found)
    assert [c.name for c in found if c.group == "success" and c.interval] == [
        "success",
        "alfworld/builtin",
        "sokoban/builtin",
    ]


def test_what_has_no_mean_stands_in_the_order_of_what_it_has_played(boards: Boards) -> None:
    board = boards(
        a_row("a", 50, 30), a_row("b", 60), a_row("c", None, 70), a_row("d", 90), a_row("e", 95, 5)
    )
    assert order(board, BOTH) == ["e", "a", "d", "c", "b"]
    assert order(board, replace(BOTH, reverse=True)) == ["a", "e", "b", "c", "d"]
    assert order(board, replace(BOTH, sort="rank")) == ["e", "a", "d", "c", "b"]
    assert order(board, replace(BOTH, sort="rank", reverse=True)) == ["a", "e", "b", "c", "d"]
    assert order(board, replace(BOTH, sort="alfworld/builtin")) == ["c", "a", "e", "d", "b"]


def test_the_mean_needs_every_panel(boards: Boards) -> None:
    board = boards(a_row("both", 50, 30), a_row("one", 90), a_row("other", None, 20))
    frame = table(board, BOTH)
    assert frame["success"].to_dict() == {
        "20260101_both": pytest.approx(0.4),
        "20260101_one": pytest.approx(math.nan, nan_ok=True),
        "20260101_other": pytest.approx(math.nan, nan_ok=True),
    }
    assert frame.loc["20260101_one", "sokoban/builtin"] == 0.9
    assert math.isnan(frame.loc["20260101_one", "rank"])
    # With one panel, every entry that has played it has the mean.
    assert table(board, ALONE)["success"].to_dict() == {"20260101_one": 0.9, "20260101_both": 0.5}


def test_scores_never_move_the_mean(boards: Boards) -> None:
    row = a_row("a", 50, 30)
    panels = tuple(replace(panel, score=1e6) for panel in row.panels)
    frame = table(boards(replace(row, panels=panels)), BOTH)
    assert frame["success"].tolist() == [pytest.approx(0.4)]
    assert not [name for name in frame.columns if "score" in name]


def test_success_with_its_interval(boards: Boards) -> None:
    row = boards(a_row("a", 50, 30)).rows()[0]
    alone = success_of(row, [SOKOBAN.key])
    numbers = row.panel(SOKOBAN.key)
    assert alone is not None
    assert numbers is not None
    assert (alone.value, alone.low, alone.high) == (0.5, numbers.low, numbers.high)
    assert success_of(row, [SOKOBAN.key, ("webshop", "builtin")]) is None
    assert success_of(row, []) is None


@pytest.mark.parametrize(
    ("reverse", "names"),
    # Lower is better: ascending. Unknown values are last in either direction, and the infinite one
    # is the worst of the known ones.
    [
        (False, ["low", "high", "overflow", "unknown"]),
        (True, ["overflow", "high", "low", "unknown"]),
    ],
)
def test_what_is_unknown_is_last(boards: Boards, reverse: bool, names: list[str]) -> None:
    board = boards(
        a_row("unknown", 90),
        a_row("overflow", 80, stability=stability(mismatch_p95=math.inf)),
        a_row("low", 70, stability=stability(mismatch_p95=1e-7)),
        a_row("high", 60, stability=stability(mismatch_p95=0.5)),
    )
    view = replace(ALONE, sort="mismatch_p95", reverse=reverse)
    assert order(board, view) == names
    texts = shown(table(board, view), columns(board, view))["mismatch, P95"].tolist()
    assert sorted(texts) == sorted(["1e-07", "0.5", "\u221e", "\u2013"])


def test_the_better_first(boards: Boards) -> None:
    board = boards(a_row("a", 40, 60), a_row("b", 60, 40), a_row("c", 50, 50))
    assert order(board, replace(BOTH, sort="sokoban/builtin")) == ["b", "c", "a"]
    assert order(board, replace(BOTH, sort="sokoban/builtin", reverse=True)) == ["a", "c", "b"]
    assert order(board, BOTH) == ["a", "b", "c"]  # all the same mean: by id


def test_texts_are_sorted_in_any_case(boards: Boards) -> None:
    board = boards(
        a_row("1", 10, name="beta"),
        a_row("2", 20, name="Alpha"),
        a_row("3", 30, name="Gamma"),
        a_row("4", 40, paper="https://example.org"),
    )
    assert order(board, replace(ALONE, sort="name")) == ["4", "2", "1", "3"]
    assert order(board, replace(ALONE, sort="name", reverse=True)) == ["3", "1", "2", "4"]
    # Among those without a paper, the one with the highest success comes first.
    assert order(board, replace(ALONE, sort="paper")) == ["4", "3", "2", "1"]


def test_ranks_follow_the_panel_that_is_sorted_by(boards: Boards) -> None:
    board = boards(a_row("a", 90, 10), a_row("b", 30, 90), a_row("c", 60, None))
    by_mean = table(board, BOTH)["rank"].to_dict()
    assert by_mean["20260101_b"] == 1
    assert math.isnan(by_mean["20260101_c"])
    by_panel = table(board, replace(BOTH, sort="sokoban/builtin"))
    assert by_panel["rank"].tolist() == [1, 2, 3]
    assert by_panel["rank:last"].tolist() == [1, 2, 3]


def test_filters_move_no_rank(boards: Boards) -> None:
    board = boards(a_row("a", 90), a_row("b", 50, recipe="gspo"), a_row("c", 48, recipe="gspo"))
    ranks = table(board, ALONE)[["rank", "rank:last"]]
    assert ranks.to_numpy().tolist() == [[1, 1], [2, 3], [2, 3]]
    found = table(board, replace(ALONE, search="gspo"))
    assert found[["rank", "rank:last"]].equals(ranks.iloc[1:])
    assert shown(found, columns(board, ALONE))["rank"].tolist() == ["2\u20133", "2\u20133"]


def test_cells_as_people_read_them(boards: Boards) -> None:
    board = boards(a_row("a", 50, 30, stability=stability(collapse_rate=1 / 3, retention=0.875)))
    texts = shown(table(board, BOTH), columns(board, BOTH)).iloc[0]
    assert texts["Sokoban (builtin)"] == "50.0 [40.4, 59.6]"
    assert texts["collapse rate"] == "33.3 (1 of 3)"
    assert texts["retention"] == "0.88"
    assert texts["worst seed"] == "\u2013"
    assert (texts["size"], texts["seeds"], texts["clipping"]) == ("408K", "1", "\u2013")
    assert texts["badges"] == "replayed, init: fixed"


def test_an_unknown_column(boards: Boards) -> None:
    board = boards(a_row("a", 50))
    with pytest.raises(UserError, match="no column 'retension'; did you mean retention"):
        table(board, replace(ALONE, sort="retension"))


def parsed(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_csv_has_numbers_in_full_and_units(boards: Boards) -> None:
    board = boards(
        a_row("a", 50, 33, stability=stability(mismatch_p95=math.inf)),
        a_row("b", 50, None),
    )
    one, other = parsed(csv_of(table(board, BOTH), columns(board, BOTH)))
    assert one["id"] == "20260101_a"
    assert one["alfworld/builtin [share]"] == "0.33"
    assert float(one["success [share]"]) == pytest.approx(0.415)
    assert one["parameters [parameters]"] == "407904"
    assert (one["rank [place]"], one["rank:last [place]"]) == ("1", "1")
    assert one["mismatch_p95 [nats]"] == "inf"
    assert one["collapse_rate:known [seeds]"] == "3"
    assert other["mismatch_p95 [nats]"] == other["alfworld/builtin [share]"] == ""
    assert other["success [share]"] == other["rank [place]"] == ""


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("\uff1dcmd", "'\uff1dcmd"),
        ("\t=1", "U+0009=1"),
        ("a\r\n=1", "aU+000DU+000A=1"),
        ("a\u202e=1", "aU+202E=1"),
        ('a,"b"', 'a,"b"'),
        ("<script>", "<script>"),
    ],
)
def test_csv_of_hostile_texts(boards: Boards, text: str, cell: str) -> None:
    board = boards(hostile(a_row("a", 50), text))
    (line,) = parsed(csv_of(table(board, ALONE), columns(board, ALONE)))
    for name in ("name", "recipe", "base_model", "init", "clipping", "sampling", "code", "paper"):
        assert line[name] == cell, name
    assert line["authors"].startswith(cell.replace("a\u202e", "aU+202E"))


def test_an_empty_table_has_all_columns(boards: Boards) -> None:
    board = boards(a_row("a", 50))
    view = replace(default_view(board), search="nothing")
    frame = table(board, view)
    assert frame.empty
    assert parsed(csv_of(frame, columns(board, view))) == []
    names: Sequence[str] = [column.name for column in columns(board, view)]
    assert set(names) <= set(frame.columns)


def test_a_new_column_is_one_entry_in_one_place(
    boards: Boards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change that a maintainer would make: these lines, and nothing else."""
    # fmt: off
    new = Column("turns", "turns", "count", "mean turns of an episode on the panels shown",
                 lambda line: sum(panel.turns for panel in line.played) / len(line.played))
    # fmt: on
    monkeypatch.setattr("leaderboard.table.columns.COLUMNS", (*COLUMNS, new))
    board = boards(a_row("a", 50), a_row("b", 100))
    frame = table(board, replace(ALONE, sort="turns"))
    assert frame["turns"].to_dict() == {"20260101_b": 6.0, "20260101_a": 9.0}
    known = columns(board, ALONE)
    assert shown(frame, known)["turns"].to_dict() == {"20260101_a": "9", "20260101_b": "6"}
    (header, *_) = csv.reader(io.StringIO(csv_of(frame, known)))
    assert header[-1] == "turns [count]"
    state = open_query(board, {"panels": "sokoban/builtin", "sort": "turns"}).state
    assert "mean turns of an episode on the panels shown" in board_page(board, state)


def test_reruns_come_first_at_equal_success_and_policies_last() -> None:
    content = {
        "success": [0.5, 0.5, 0.5, 0.9, 1.0],
        "kind": ["trained", "trained", "trained", "trained", "policy"],
        "badges": [
            "replayed",
            "replayed, first updates trained again",
            "replayed, re-run",
            "replayed",
            "replayed",
        ],
    }
    names = ["older", "trained again", "played again", "best", "policy"]
    frame = pd.DataFrame(content, index=names)
    assert sorted_frame(frame, "success", True).index.tolist() == [
        *("best", "played again", "older", "trained again", "policy")
    ]
    assert sorted_frame(frame, "success", False).index.tolist() == [
        *("played again", "older", "trained again", "best", "policy")
    ]
