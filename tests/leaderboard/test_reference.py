"""The published tables: copied without a slip, inconsistencies noted, and never ranked."""

import math
from pathlib import Path

import pytest

from leaderboard.reference import (
    ReferenceRow,
    ReferenceTable,
    reference_frame,
    reference_tables,
    task_notes,
)
from leaderboard.table import table
from leaderboard.view import default_view
from tasks.errors import UserError
from tasks.registry import task_names
from tests.board_rows import PANELS, board_row, panel_facts
from tests.leaderboard.conftest import SOKOBAN, Boards, first

TABLES = {table.table: table for table in reference_tables()}
FIELD = {
    task: panel_facts(task, panel, task, "%", 10)
    for task, panel in (("alfworld", "valid_seen"), ("webshop", "small_1000"))
}


def row_of(number: str, method: str, setting: str | None = None) -> ReferenceRow:
    (row,) = [row for row in TABLES[number].rows if (row.method, row.setting) == (method, setting)]
    return row


def test_all_tables_are_there_in_order() -> None:
    assert list(TABLES) == ["2", "3", "4", "5", "S2", "S3"]
    assert TABLES["3"].source == "ARLArena, arXiv:2602.21534v2, table 3"


@pytest.mark.parametrize("row", TABLES["3"].rows, ids=lambda row: row.method)
def test_the_papers_average_recomputes(row: ReferenceRow) -> None:
    *values, printed = (value for value in row.values if value is not None)
    assert sum(values) / len(values) == pytest.approx(printed, abs=0.00501)


def test_success_alone_by_hand() -> None:
    # SAMPO: (92.72 + 77.73 + 88.86) / 3 = 86.44; GRPO: 67.99.
    for method, mean in (("SAMPO", 86.44), ("GRPO", 67.99)):
        row = row_of("3", method)
        found = [TABLES["3"].success(row, task) for task in ("alfworld", "webshop", "sokoban")]
        assert 100 * sum(value for value in found if value is not None) / 3 == pytest.approx(
            mean, abs=0.005
        )


def test_differences_between_the_tables_are_noted() -> None:
    main, parts = TABLES["3"], TABLES["S3"]
    methods = {row.method for row in main.rows} & {row.method for row in parts.rows}
    assert len(methods) == 9
    for method in sorted(methods):
        one, other = row_of("3", method), row_of("S3", method)
        differ = any(
            main.success(one, task) != parts.success(other, task)
            for task in ("alfworld", "webshop")
        )
        assert differ == (method in ("GRPO", "SAMPO"))
        assert differ == bool(
            [note for note in parts.notes if method in note.methods and "table 3" in note.text]
        )


def test_the_stabilised_recipes_begin_where_the_main_table_ends() -> None:
    for method in ("CISPO", "SAPO"):
        assert TABLES["4"].success(row_of("4", method, "original"), "alfworld") == (
            TABLES["3"].success(row_of("3", method), "alfworld")
        )


def test_the_math_numbers_are_counts_of_four_problems() -> None:
    for row in TABLES["5"].rows:
        for column, value in zip(TABLES["5"].columns, row.values, strict=True):
            if column.what == "mean@1":
                assert value is not None
                assert abs(value * 2.56 - round(value * 2.56)) < 0.013  # of 256 samples


def test_only_whole_tasks_count_as_success() -> None:
    parts, row = TABLES["S3"], row_of("S3", "GSPO")
    assert parts.success(row, "alfworld") == pytest.approx(0.7861)
    assert TABLES["3"].success(row_of("3", "GSPO"), "tir_math") is None
    assert parts.success(row_of("S3", "Gemini-2.5-pro"), "webshop") is None


def test_notes() -> None:
    assert set(task_notes()) == {"all", *task_names()}
    own, *shared = TABLES["3"].notes_on("CISPO")
    assert "54.12" in own
    assert len(shared) == 2
    assert TABLES["S2"].notes_on("GRPO") == ()


def test_rows_stand_under_the_fields_panels_alone() -> None:
    frame = reference_frame(list(FIELD.values()))
    assert len(frame) == 20
    sampo = frame.loc["reference:3/SAMPO"]
    assert sampo["alfworld/valid_seen"] == pytest.approx(0.9272)
    assert sampo["success"] == pytest.approx((0.9272 + 0.7773) / 2)
    assert (sampo["parameters"], sampo["base_model"]) == (4e9, "Qwen3-4B, behaviour-cloned")
    assert "59.55" in sampo["notes"]
    assert reference_frame([panel_facts(*PANELS[0])]).empty  # alfworld/builtin


def test_a_mean_needs_every_task() -> None:
    frame = reference_frame([*FIELD.values(), SOKOBAN])
    assert math.isnan(frame.loc["reference:S2/SAMPO", "success"])
    assert frame.loc["reference:3/SAMPO", "success"] == pytest.approx(0.8644, abs=1e-4)


def test_they_are_never_ranked(boards: Boards) -> None:
    board = boards(board_row("20260101_a", {SOKOBAN: [first(5)]}))
    frame = table(board, default_view(board))
    assert (reference_frame([SOKOBAN])["success"] > 0.05).all()
    assert list(frame.index) == ["20260101_a"]
    assert frame["rank"].tolist() == [1]  # though every published row is better
    assert "rank" not in reference_frame([SOKOBAN]).columns


def test_a_file_that_breaks_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "table_9.yaml"
    head = 'table: "9"\ntitle: a\nmodel: a\nparameters: null\nnotes: []\n'
    columns = 'columns: [{name: a, task: null, what: success, unit: "%"}]\n'
    faults = {
        "rows: [{method: a, values: [1, 2]}]": "as many values as columns",
        "rows: [{method: a, values: [.nan]}]": "finite number",
        "rows: [{method: a, values: [1], seed: 1}]": "Extra inputs",
        "rows: [{": "cannot be read",
    }
    for number, (rows, message) in enumerate(faults.items()):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / file.name).write_text(head + columns + rows)
        with pytest.raises(UserError, match=message):
            reference_tables(folder)


def test_a_note_is_on_a_method_that_is_there() -> None:
    plain = TABLES["S2"].model_dump()
    plain["notes"] = [{"methods": ["GRPO", "PPO"], "text": "a"}]
    with pytest.raises(ValueError, match="notes on methods that are not there: PPO"):
        ReferenceTable.model_validate(plain)
