"""The page of an entry: the data behind its stability, and how a reader can check it."""

import math
from dataclasses import replace

import pytest

from leaderboard.board.board import Board
from leaderboard.board.rows import BoardBadges, BoardCheckpoint, BoardRow, Model
from leaderboard.board.training_rows import (
    EventCount,
    NamedValue,
    SeedCurves,
    SeedNumbers,
    Stability,
)
from leaderboard.page.markup import block
from leaderboard.page.state import State
from leaderboard.table.columns import STABILITY, columns_of
from leaderboard.tabs.entry.page import entry_page
from leaderboard.tabs.entry.reproduce import reproduce, whole_hashes
from leaderboard.tabs.entry.stability import stability_tables
from tasks.seeding import sha256_text
from tests.leaderboard.conftest import SOKOBAN, Boards, first
from tests.leaderboard.pages import rows_of, text_of
from tests.support.board_rows import board_row


def stability(*drawdowns: float | None) -> Stability:
    """The stability of these seeds, with an interval that does not match their median."""
    known = sorted(each for each in drawdowns if each is not None)
    numbers = SeedNumbers(
        "max_drawdown", drawdowns, known[len(known) // 2], 0.111, 0.222, None, known[-1]
    )
    return Stability(
        seeds=tuple(range(len(drawdowns))),
        columns=(
            NamedValue("collapse_rate", 1 / 3),
            NamedValue("worst_seed", 0.25),
            NamedValue("max_drawdown", numbers.median),
        ),
        numbers=(numbers,),
        events=(EventCount("collapse", 1, 3, 1 / 3, 0.06, 0.79),),
        reached=(),
        dispersion_across_runs=0.05,
        survival=None,
    )


def trainings(*stopped: str | None, panel: str | None = "sokoban/builtin") -> list[SeedCurves]:
    return [
        SeedCurves(seed, panel, 40, reason is not None, 40, reason, ())
        for seed, reason in enumerate(stopped)
    ]


def test_it_says_which_panel_stability_was_measured_on() -> None:
    said = text_of(str(stability_tables(stability(0.1, 0.2, 0.4), trainings(None, None, None))))
    assert "From 3 training runs." in said
    assert "on sokoban/builtin , regardless of the panels shown" in said
    unknown = trainings(None, panel=None)
    assert "a panel that the logs do not name" in text_of(
        str(stability_tables(stability(0.1), unknown))
    )


def test_a_median_is_called_one_and_the_worst_seed_stands_beside_it() -> None:
    page = str(stability_tables(stability(0.1, 0.2, 0.4), trainings(None, None, None)))
    assert rows_of(page) == [
        ["collapse rate", "1 of 3, 95% CI 6\u201379%", "33.3", "", "%"],
        ["worst seed", "lowest", "25.0", "", "%"],
        ["maximum drawdown", "median", "20.0", "40.0", "%"],
        ["dispersion across runs", "interquartile range", "5.0", "", "%"],
    ]


def test_few_seeds_have_a_range_and_no_interval() -> None:
    few = str(stability_tables(stability(0.1, 0.5, 0.2, None, 0.4), []))
    assert "range of the seeds" in few and "interval of the median" not in few
    assert "10.0\u201350.0" in few and "11.1\u201322.2" not in few
    many = str(stability_tables(stability(0.1, 0.5, 0.2, 0.3, 0.3, 0.4), []))
    assert "95% interval of the median" in many and "range of the seeds" not in many
    assert "11.1\u201322.2" in many
    # One seed has no range, and five known of six seeds have no interval.
    for seeds in ((0.1,), (0.1, 0.5, 0.2, 0.3, 0.3, None)):
        row = rows_of(str(stability_tables(stability(*seeds), [])).split("Every number", 1)[1])[0]
        assert row[2] == "\u2013"


def test_it_says_why_a_training_was_ended() -> None:
    page = str(stability_tables(stability(0.1, 0.2), trainings(None, "<b> the loss is NaN")))
    said = text_of(page)
    assert "which counts as a collapse: Seed 1 after update 40: <b> the loss is NaN" in said
    assert "Seed 0 after" not in said
    assert "counts as a collapse" not in str(stability_tables(stability(0.1), trainings(None)))


def test_the_columns_say_what_they_were_measured_on() -> None:
    texts = {column.name: column.text for column in columns_of([SOKOBAN])}
    for name in STABILITY:
        assert texts[name].endswith(", regardless of the panels shown")
        assert ("the panel that the training run was validated on" in texts[name]) == (
            name != "mismatch_p95"
        )
        assert ("median of the seeds" in texts[name]) == (
            name in ("max_drawdown", "retention", "mismatch_p95")
        )


def test_it_says_with_which_validation_of_the_log_the_weights_agree(boards: Boards) -> None:
    said = "update 120 of 200; chosen on this panel (sokoban/builtin)"
    model = Model("last", "folder", None, sha256_text("weights"))
    points = tuple(
        BoardCheckpoint(seed, model, (), (), sha256_text(str(seed)), text)
        for seed, text in ((0, said), (1, None))
    )
    row = board_row("20260101_a", {SOKOBAN: [first(5), first(5)]}, checkpoints=points)
    page = entry_page(boards(row), State(tab="entry", protocol=row.protocol, entry=row.id))
    rows = rows_of(page[page.index("agrees with") :])
    assert [(each[0], each[-1]) for each in rows] == [("0", said), ("1", "\u2013")]


def row_of(kind: str, *commands: str, log: str | None = None) -> BoardRow:
    revision = "c" * 40 if kind == "hub" else None
    model = Model("last", kind, revision, sha256_text("weights"))
    points = (BoardCheckpoint(4, model, (), commands, log, None),)
    return board_row("20260101_a", {SOKOBAN: [first(5)]}, checkpoints=points)


def test_what_a_reader_can_do_with_a_training() -> None:
    commands = ("arlarena-bench train --seed 4 --out o/s4", "arlarena-bench eval --model o/s4/last")
    said = text_of(str(reproduce(row_of("folder", *commands, log=sha256_text("log")))))
    assert "arlarena-bench submit check submissions/20260101_a" in said
    assert "arlarena-bench reproduce submissions/20260101_a" in said
    assert "train every seed again (4; --seed chooses one)" in said
    assert all(command in said for command in commands)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("folder", "instead of the angle brackets"),
        ("hub", "On other hardware some answers may differ."),
        ("init", "On other hardware some answers may differ."),
        ("policy", "Play the panels again by the same program."),
    ],
)
def test_what_a_reader_can_do_without_a_log(kind: str, text: str) -> None:
    said = text_of(str(reproduce(row_of(kind, "arlarena-bench eval --model x"))))
    assert text in said
    assert "arlarena-bench eval --model x" in said
    # Without a log, nothing is known about the training.
    assert "train every seed" not in said


def test_a_shell_does_not_execute_what_a_submission_calls_itself() -> None:
    row = replace(row_of("folder", "x"), id="$(id); a")
    said = text_of(str(reproduce(row)))
    assert "submit check submissions/'$(id); a'" in said
    assert "reproduce 'submissions/$(id); a'" in said


def test_hashes_can_be_copied_whole() -> None:
    row = row_of("hub", log=sha256_text("log"))
    said = text_of(str(whole_hashes(row)))
    assert row.init is not None
    for whole in ("c" * 40, sha256_text("weights"), sha256_text("log"), row.init.sha256):
        assert str(whole) in said
    assert row.submission_sha256 in said


def test_stability_from_other_trainers_logs_says_so(boards: Boards) -> None:
    badges = BoardBadges(True, "foreign logs", "fixed", False, None)
    entry = board_row(
        "20260101_a", {SOKOBAN: [first(5)]}, foreign=stability(0.1, 0.2, 0.4), badges=badges
    )
    board = boards(entry)
    page = entry_page(board, State(tab="entry", protocol="v1", entry="20260101_a"))
    said = text_of(page)
    assert "From logs of another trainer. They name no protocol" in said
    assert "on a panel that the logs do not name" in said
    assert "stability: foreign logs" in said
    assert "Training curves" not in said
    # The table of all entries does not include such a number among ours.
    (row,) = board.rows("v1")
    assert row.stability_column("max_drawdown") is None
    assert row.foreign_column("max_drawdown") == 0.2


def test_the_weights_of_two_seeds_are_told_apart(boards: Boards) -> None:
    board = boards(board_row("20260101_a", {SOKOBAN: [first(5), first(6)]}))
    said = text_of(entry_page(board, State(tab="entry", protocol="v1", entry="20260101_a")))
    for seed in (0, 1):
        assert f"{sha256_text(f'20260101_a {seed}')[:12]}\u2026" in said


@pytest.mark.parametrize(
    ("text", "long"),
    [("a", False), ("a" * 1200, False), ("a" * 1201, True), ("\n" * 13, False), ("\n" * 14, True)],
)
def test_a_text_that_scrolls_can_be_reached_by_keys(text: str, long: bool) -> None:
    shown = str(block(text, "name <of it>"))
    assert ("lb-long" in shown) == ('tabindex="0"' in shown) == ('role="region"' in shown) == long
    assert ('aria-label="name &lt;of it&gt;"' in shown) == long


def test_an_infinite_drawdown_is_none_of_the_unknown() -> None:
    page = str(stability_tables(stability(0.1, math.inf), []))
    assert "10.0\u2013\u221e" in page


def test_an_entry_leads_to_its_track_its_episodes_and_its_files(boards: Boards) -> None:
    rows = [
        board_row(f"2026010{n}_a{n}", {SOKOBAN: [first(20 * n)]}, track="sokoban-standard")
        for n in (1, 2, 3)
    ]
    board = boards(*rows, board_row("20260104_b", {SOKOBAN: [first(99)]}))
    state = State(tab="entry", protocol="v1", entry=rows[1].id)
    shown = entry_page(board, state)
    assert "sokoban-standard : rank 2 of 3" in text_of(shown)
    assert (
        "tab=board&amp;protocol=v1&amp;panels=sokoban%2Fbuiltin&amp;track=sokoban-standard" in shown
    )
    assert f"entry={rows[1].id}&amp;panel=sokoban%2Fbuiltin" in shown
    # Without a repository, there is nothing to link to.
    assert f"<code>submissions/{rows[1].id}</code></dd>" in shown
    facts = replace(board.facts, repository="https://example.org/r", commit="c" * 40)
    there = entry_page(Board(facts, board._table), state)
    assert f'href="https://example.org/r/tree/{"c" * 40}/submissions/{rows[1].id}"' in there
