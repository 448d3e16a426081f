"""The board's file: equal content gives equal bytes, and survives a round trip."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leaderboard.board.arrow import from_plain
from leaderboard.board.board import load
from leaderboard.board.file import (
    KEY,
    SCHEMA,
    BoardContent,
    json_bytes,
    parquet_bytes,
    read_content,
    read_table,
)
from leaderboard.board.protocols import BoardFacts
from leaderboard.board.rows import FullRow
from leaderboard.board.training_rows import NamedValue, Stability
from tasks.errors import UserError
from tests.support.board_rows import board_content, synthetic_content

SMALL = synthetic_content(entries=12, curves=20)


def written(folder: Path, content: BoardContent) -> Path:
    path = folder / "leaderboard.parquet"
    path.write_bytes(parquet_bytes(content))
    return path


def test_a_board_comes_back_as_it_was(tmp_path: Path) -> None:
    assert read_content(written(tmp_path, SMALL)) == SMALL


def test_a_board_without_entries(tmp_path: Path) -> None:
    empty = board_content([])
    assert read_content(written(tmp_path, empty)) == empty
    assert json.loads(json_bytes(empty))["entries"] == []


def test_json_holds_the_same() -> None:
    content = json.loads(json_bytes(SMALL))
    assert from_plain(BoardFacts, content["facts"]) == SMALL.facts
    assert tuple(from_plain(FullRow, each) for each in content["entries"]) == SMALL.rows


def test_infinite_and_unknown_stability_are_kept_apart(tmp_path: Path) -> None:
    columns = (NamedValue("mismatch_p95", math.inf), NamedValue("retention", None))
    stability = Stability((0,), columns, (), (), (), None, None)
    rows = [replace(SMALL.rows[-1], stability=stability), replace(SMALL.rows[0], stability=None)]
    content = BoardContent(SMALL.facts, tuple(rows))
    row, other = read_content(written(tmp_path, content)).rows
    assert row.stability_column("mismatch_p95") == math.inf
    assert row.stability_column("retention") is None
    assert other.stability is None
    in_json = json.loads(json_bytes(content))["entries"][0]["stability"]["columns"]
    assert [column["value"] for column in in_json] == ["inf", None]


@pytest.mark.slow
def test_bytes_depend_on_the_content_alone() -> None:
    program = (
        "import hashlib\n"
        "from leaderboard.board.file import json_bytes, parquet_bytes\n"
        "from tests.support.board_rows import synthetic_content\n"
        "content = synthetic_content(entries=12, curves=20)\n"
        "for make in (parquet_bytes, json_bytes):\n"
        "    print(hashlib.sha256(make(content)).hexdigest())\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1", "PATH": ""},
            cwd=Path(__file__).parents[3],
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("content", [b"", b"PAR1", b"<html>"])
def test_what_is_no_parquet_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "leaderboard.parquet"
    path.write_bytes(content)
    with pytest.raises(
        UserError, match=r"leaderboard\.parquet cannot be read: .*leaderboard build"
    ):
        read_table(path)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leaderboard build"):
        read_table(tmp_path / "none.parquet")


def test_another_table(tmp_path: Path) -> None:
    path = tmp_path / "leaderboard.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(UserError, match="not a board of version 1"):
        read_table(path)


def test_a_board_of_another_version(tmp_path: Path) -> None:
    path = tmp_path / "leaderboard.parquet"
    pq.write_table(SCHEMA.with_metadata({KEY: b'{"version": 2}'}).empty_table(), path)
    with pytest.raises(UserError, match="a board of version 2, but this program reads 1"):
        read_table(path)


def test_a_board_from_before_halved_runs_does_not_know_them(tmp_path: Path) -> None:
    row = next(row for row in SMALL.rows if row.stability is not None)
    assert row.stability is not None
    known = replace(row, stability=replace(row.stability, halved=(0,)))
    path = written(tmp_path, board_content([known]))
    assert read_content(path).rows == (known,)
    table = pq.read_table(path)
    stored = table["stability"].to_pylist()
    older = pa.array([{k: v for k, v in each.items() if k != "halved"} for each in stored])
    pq.write_table(
        table.set_column(table.column_names.index("stability"), "stability", older), path
    )
    (found,) = read_content(path).rows
    assert found.stability is not None and found.stability.halved is None


def test_a_board_with_more_and_one_with_less_than_today_both_open(tmp_path: Path) -> None:
    """Each side has a column and a field that the other does not know."""
    path = written(tmp_path, SMALL)
    table = pq.read_table(path)
    facts = json.loads(table.schema.metadata[KEY])
    facts["later"] = {"a": 1}
    facts["protocols"][0]["later"] = [2]
    more = table.append_column("later", pa.array([1.5] * len(table)))
    panels = pa.array(
        [[{**each, "later": 1} for each in one] for one in table["panels"].to_pylist()]
    )
    more = more.set_column(more.column_names.index("panels"), "panels", panels)
    pq.write_table(more.replace_schema_metadata({KEY: json.dumps(facts).encode()}), path)
    assert read_content(path) == SMALL
    pq.write_table(table.drop_columns(["curves", "stability", "code", "track"]), path)
    rows = [replace(row, curves=(), stability=None, code=None) for row in SMALL.rows]
    assert read_content(path) == BoardContent(SMALL.facts, tuple(rows))
    board = load(path)
    assert [(row.stability, board.curves(row)) for row in board.rows()] == [(None, ())] * 12
    pq.write_table(table.drop_columns(["name"]), path)
    with pytest.raises(UserError, match="not a board of version 1"):
        read_content(path)
