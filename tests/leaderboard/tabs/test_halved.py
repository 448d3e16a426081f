"""Everywhere that collapses are counted: runs that halved, and runs with unknown outcome."""

import re
from csv import DictReader
from dataclasses import replace
from io import StringIO
from pathlib import Path

from leaderboard.board.file import BoardContent
from leaderboard.board.protocols import BoardFacts, Grid, StudyRun
from leaderboard.board.training_rows import EventCount, NamedValue, SeedNumbers, Stability
from leaderboard.page.query import open_query
from leaderboard.page.state import State
from leaderboard.tabs.answer import answer, summary
from leaderboard.tabs.board import board_page, csv
from leaderboard.tabs.compare import compare_page
from leaderboard.tabs.coverage import coverage_page
from leaderboard.tabs.entry.head import entry_head
from leaderboard.tabs.entry.page import entry_page
from leaderboard.tabs.stability import stability_lead
from leaderboard.tabs.success import success_chart
from tests.leaderboard.conftest import SOKOBAN, first
from tests.leaderboard.pages import text_of
from tests.support.board_rows import board_content, board_of, board_row

EVENT = EventCount("collapse", 0, 3, 0.0, 0.0, 0.56)
STABILITY = Stability(
    (0, 1, 2), (NamedValue("collapse_rate", 0.0),), (), (EVENT,), (), None, None, halved=(0, 2)
)
ROW = board_row(
    "20260101_a", {SOKOBAN: [first(80)] * 3}, (STABILITY, ()), recipe="sampo",
    track="sokoban-standard",
)  # fmt: skip


def test_what_halved_stands_beside_what_collapsed(tmp_path: Path) -> None:
    """Two seeds of an entry, and a run of the study."""
    content = board_content([ROW], SOKOBAN)
    runs = (
        StudyRun("sokoban-standard", "grpo", 0, 0.5, None, 8.0, halved=True),
        StudyRun("sokoban-standard", "grpo", 1, 0.3, 20, 12.0),
    )
    grid = Grid(("sokoban-standard",), ("grpo", "sampo"), runs)
    facts = BoardFacts(content.facts.version, content.facts.protocols, (), grid=grid)
    board = board_of(tmp_path, BoardContent(facts, content.rows))
    said = text_of(coverage_page(board, State(tab="coverage", protocol="v1")))
    assert "40.0 1/2 collapsed, 1 halved" in said and "80.0 0/3 collapsed, 2 halved" in said
    head = text_of(entry_head(board, State(tab="entry", protocol="v1", entry=ROW.id)))
    assert "collapse , halved 0/3 collapsed, 2 halved 95% CI" in head
    table = board_page(board, open_query(board, {"panels": "sokoban/builtin"}).state)
    assert "0/3 collapsed, 2 halved 95% CI 0\u201356%" in text_of(table)
    about = entry_page(board, State(tab="entry", protocol="v1", entry=ROW.id))
    assert "0 of 3, 95% CI 0\u201356%; 2 halved" in text_of(about)
    state = State(protocol="v1", panels="sokoban/builtin")
    said = text_of(answer(board, state))
    assert "0 of 3 seeds collapsed (95% CI 0\u201356%), 2 halved ." in said
    assert "0 of 3 0\u201356% 2 halved" in text_of(summary(board, state))
    chart = success_chart(board, state)["plot"]
    assert "0 of 3 collapsed, 2 halved" in chart and '"bad": true' in chart
    # Both the figure and the table mark it in red.
    assert 'lb-chip lb-bad">0/3 collapsed, 2 halved' in table
    lead = text_of(stability_lead(board, state))
    told = "0 of 3 training runs collapsed on the panels shown, and 2 of 3 halved : "
    assert lead == f"{told}a (SAMPO: 0 of 3, 2 halved)."
    (line,) = DictReader(StringIO(csv(board, state)))
    assert line["collapse_rate:halved [seeds]"] == "2"


def test_two_entries_beside_each_other_name_what_halved(tmp_path: Path) -> None:
    other = replace(ROW, id="20260102_b", name="b", stability=replace(STABILITY, halved=None))
    board = board_of(tmp_path, board_content([ROW, other], SOKOBAN))
    state = State(tab="compare", protocol="v1", first=ROW.id, second=other.id)
    said = text_of(compare_page(board, state))
    assert "seeds that collapsed , halved 0 of 3, 2 halved 0 of 3" in said
    lines = DictReader(StringIO(csv(board, State(protocol="v1", panels="sokoban/builtin"))))
    assert [line["collapse_rate:halved [seeds]"] for line in lines] == ["2", ""]


def test_logs_without_validations_are_not_said_to_have_some(tmp_path: Path) -> None:
    unknown = SeedNumbers("final_success", (None, None, None), None, None, None, None, None)
    none = replace(STABILITY, numbers=(unknown,), events=(replace(EVENT, known=0),), halved=None)
    row = replace(ROW, stability=none)
    board = board_of(tmp_path, board_content([row], SOKOBAN))
    for page in (entry_head, entry_page):
        said = text_of(page(board, State(tab="entry", protocol="v1", entry=row.id)))
        assert "no validations" in said and "too few validations" not in said
    some = replace(none, numbers=(replace(unknown, values=(None, 0.5, None)),))
    assert some.unjudged == "too few validations"


def test_too_few_validations_are_not_zero_collapses(tmp_path: Path) -> None:
    few = replace(STABILITY, events=(EventCount("collapse", 0, 0, None, None, None),), halved=(1,))
    row = replace(ROW, stability=few)
    content = board_content([row], SOKOBAN)
    facts = BoardFacts(
        content.facts.version, content.facts.protocols, (),
        grid=Grid(("sokoban-standard",), ("sampo",), ()),
    )  # fmt: skip
    board = board_of(tmp_path, BoardContent(facts, content.rows))
    state = State(protocol="v1", panels="sokoban/builtin")
    pages = [
        coverage_page(board, State(tab="coverage", protocol="v1")),
        entry_head(board, State(tab="entry", protocol="v1", entry=row.id)),
        entry_page(board, State(tab="entry", protocol="v1", entry=row.id)),
        board_page(board, open_query(board, {"panels": "sokoban/builtin"}).state),
        answer(board, state),
        summary(board, state),
    ]
    for page in map(text_of, pages):
        assert re.search("too few validations[,;] 1 halved", page)
        assert "0 of 0" not in page and "0/0" not in page and "no logs" not in page
    chart = success_chart(board, state)["plot"]
    assert chart.count("too few validations, 1 halved") == chart.count("too few validations") > 0
    assert chart.count("1 halved, 1 halved") == 0


def test_seeds_that_are_unknown_stand_beside_one_that_collapsed(tmp_path: Path) -> None:
    """The only known run is one that collapsed, so 1 of 1 would be a biased share."""
    event = EventCount("collapse", 1, 1, 1.0, 0.025, 1.0)
    rate = (NamedValue("collapse_rate", 1.0),)
    row = replace(ROW, stability=replace(STABILITY, columns=rate, events=(event,), halved=()))
    content = board_content([row], SOKOBAN)
    grid = Grid(("sokoban-standard",), ("sampo",), ())
    facts = BoardFacts(content.facts.version, content.facts.protocols, (), grid=grid)
    board = board_of(tmp_path, BoardContent(facts, content.rows))
    state = State(protocol="v1", panels="sokoban/builtin")
    own = State(tab="entry", protocol="v1", entry=row.id)
    table = board_page(board, open_query(board, {"panels": "sokoban/builtin"}).state)
    said = {
        coverage_page(board, State(tab="coverage", protocol="v1")): "1/3 collapsed, 2 unknown",
        entry_head(board, own): "1/3 collapsed, 2 unknown",
        entry_page(board, own): "collapse rate 1 of 3, 2 unknown \u2013",
        table: "1/3 collapsed, 2 unknown",
        answer(board, state): "1 of 3 seeds collapsed (2 unknown: too few validations).",
        summary(board, state): "1 of 3 2 unknown",
        stability_lead(board, state): "1 of 1 training run collapsed on the panels shown "
        "(2 more have too few validations to tell): a (SAMPO: 1 of 3, 2 unknown).",
    }
    for page, part in said.items():
        assert part in text_of(page)
        assert "3\u2013100%" not in page
    # Also in the list of all events.
    assert "collapse 1 of 3, 2 unknown \u2013 \u2013" in text_of(entry_page(board, own))
    assert "1 of 3 collapsed, 2 unknown" in success_chart(board, state)["plot"]
    (line,) = DictReader(StringIO(csv(board, state)))
    counts = [line[f"collapse_rate:{name} [seeds]"] for name in ("happened", "known", "unknown")]
    assert (line["collapse_rate [share]"], counts) == ("", ["1", "1", "2"])
