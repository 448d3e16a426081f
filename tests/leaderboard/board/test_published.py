"""The published tables: copied correctly, with notes on inconsistencies, and never ranked."""

from pathlib import Path

import pytest
from markupsafe import escape

from leaderboard.board.protocols import PanelFacts
from leaderboard.board.published import (
    ReferenceRow,
    ReferenceTable,
    published_rows,
    reference_tables,
    task_notes,
)
from leaderboard.table.table import table
from leaderboard.table.view import default_view
from leaderboard.tabs.published import published_section
from tasks.errors import UserError
from tests.leaderboard.conftest import SOKOBAN, Boards, first
from tests.support.board_rows import board_row, panel_facts

TABLES = {table.table: table for table in reference_tables()}


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
    # A task that is not in the paper needs no note.
    assert set(task_notes()) == {"all", "alfworld", "sokoban", "tir_math", "webshop"}
    noted = [each.methods for each in TABLES["3"].notes_on(["alfworld"])]
    assert noted == [("GRPO",), ("CISPO",), ("GIGPO",)]
    assert [each.methods for each in TABLES["3"].notes_on(["webshop", "sokoban"])] == [("SAMPO",)]
    assert TABLES["3"].notes_on(["sokoban"]) == TABLES["S2"].notes_on(["alfworld"]) == ()


def test_they_are_never_ranked(boards: Boards) -> None:
    board = boards(board_row("20260101_a", {SOKOBAN: [first(5)]}))
    frame = table(board, default_view(board))
    assert all((row.success[0] or 0) > 0.05 for row in published_rows(["sokoban"]))
    assert list(frame.index) == ["20260101_a"]
    assert frame["rank"].tolist() == [1]  # though every published row is better
    shown = str(published_section([SOKOBAN], "v1", {}))
    assert "<th" in shown and "rank</th>" not in shown


def test_published_rows_are_of_tasks_with_the_model_of_each() -> None:
    sokoban = published_rows(["sokoban"])
    assert len(sokoban) == 10
    assert (sokoban[0].method, sokoban[0].table) == ("GRPO", "3")
    assert sokoban[0].models == ("Qwen3-4B-VL-Instruct-RFT",)
    assert sokoban[0].success == pytest.approx((0.839,))
    all_tasks = published_rows(["sokoban", "tir_math", "alfworld"])
    assert len(all_tasks) == 20
    sampo, larger = (row for row in all_tasks if row.method == "SAMPO")
    assert sampo.models == ("Qwen3-4B-VL-Instruct-RFT", "Qwen3-4B-Base", "Qwen3-4B-RFT")
    assert sampo.success == pytest.approx((0.8886, None, 0.9272))
    assert larger.models[2] == "Qwen3-8B, behavior-cloned"
    assert larger.success == pytest.approx((None, None, 0.9771))
    assert published_rows(["tir_math"]) == ()


def facts_of(*names: str) -> list[PanelFacts]:
    titles = {"alfworld": "ALFWorld", "sokoban": "Sokoban", "tir_math": "TIR Math"}
    return [panel_facts(name, "builtin", titles[name], "%", 10) for name in names]


def test_a_section_says_whose_episodes_and_whose_model() -> None:
    shown = str(published_section(facts_of("sokoban"), "v1", {}))
    assert "Sokoban, the paper&#39;s own episodes (%)" in shown
    assert "builtin" not in shown
    assert shown.count("Qwen3-4B-VL-Instruct-RFT") == 10
    assert "Qwen3-4B-RFT" not in shown
    # Notes about other tasks or hidden columns are omitted.
    assert "ALFWorld" not in shown and "Avg" not in shown
    assert shown.count(str(escape(task_notes()["sokoban"]))) == 1


def test_a_section_shows_numbers_under_any_panel_of_a_task() -> None:
    shown = str(published_section(facts_of("alfworld"), "v1", {}))
    assert "ALFWorld, the paper&#39;s own episodes (%)" in shown
    assert "92.7" in shown and "97.7" in shown
    # A note gives it for GRPO, and the table for GRPO_ST.
    assert shown.count("72.61") == 2
    for once in ("54.12", "34.4%", task_notes()["alfworld"], task_notes()["all"]):
        assert shown.count(str(escape(once))) == 1
    assert "tab=about" in shown and "panels=" not in shown


def test_a_section_of_several_tasks() -> None:
    shown = str(published_section(facts_of("alfworld", "sokoban", "tir_math"), "v1", {}))
    assert "Qwen3-4B-RFT (ALFWorld), Qwen3-4B-VL-Instruct-RFT (Sokoban)" in shown
    assert "None on TIR Math." in shown
    assert "TIR Math, the paper" not in shown


def test_a_section_without_success_rates_leads_to_the_tables() -> None:
    shown = str(published_section(facts_of("tir_math"), "v1", {}))
    assert "The paper has no success rates on TIR Math" in shown
    assert "tab=about" in shown
    assert "<table" not in shown


def test_a_note_is_on_a_task_that_is_there() -> None:
    plain = TABLES["S2"].model_dump()
    plain["notes"] = [{"tasks": ["sokoban"], "text": "a"}]
    with pytest.raises(ValueError, match="nothing is reported of: sokoban"):
        ReferenceTable.model_validate(plain)


def test_a_file_that_breaks_the_schema(tmp_path: Path) -> None:
    file = tmp_path / "table_9.yaml"
    head = 'table: "9"\ntitle: a\nmodel: a\nparameters: null\nnotes: []\n'
    columns = 'columns: [{name: a, task: null, what: success, unit: "%"}]\n'
    faults = {
        "rows: [{method: a, values: [1, 2]}]": "as many values as columns",
        "rows: [{method: a, values: [.nan]}]": "finite number",
        "rows: [{method: a, values: [1], seed: 1}]": "Extra inputs",
        "rows: [{": "line 8, column 1 is not valid YAML",
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
