"""The board's file: one Parquet file, and the same content as JSON.

A line of `leaderboard.parquet` is a `rows.FullRow`; what is said beside the entries
(`protocols.BoardFacts`) lies in the schema's metadata under `KEY`, as JSON. Lines are sorted by
protocol (the newest first) and id. Nothing in either file depends on the time, the place or the
order of work: the same submissions give the same bytes.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from leaderboard.board.arrow import from_plain, json_text, schema_of, to_plain
from leaderboard.board.protocols import BoardFacts
from leaderboard.board.rows import OPEN, FullRow
from tasks.errors import UserError

VERSION: Final = 1
"""Of the schema; another one cannot be read."""
PARQUET: Final = "leaderboard.parquet"
JSON: Final = "leaderboard.json"
KEY: Final = b"arlarena-bench.leaderboard"
SCHEMA: Final[pa.Schema] = schema_of(FullRow)
"""Columns of the Parquet file."""
_ADDED: Final = {"track": OPEN}
"""What stands in columns that older files of this version do not have."""


@dataclass(frozen=True, slots=True)
class BoardContent:
    """All that a board's file holds.

    Attributes:
        facts: What is said beside the entries.
        rows: The entries, in the order of the file.
    """

    facts: BoardFacts
    rows: tuple[FullRow, ...]


def parquet_bytes(content: BoardContent) -> bytes:
    """The content of `leaderboard.parquet`."""
    facts = json_text(to_plain(content.facts)).encode()
    schema = SCHEMA.with_metadata({KEY: facts})
    table = pa.Table.from_pylist([to_plain(row) for row in content.rows], schema=schema)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    stored: bytes = sink.getvalue().to_pybytes()
    return stored


def json_bytes(content: BoardContent) -> bytes:
    """The content of `leaderboard.json`: a line for every entry.

    Numbers that are not finite are the texts `nan`, `inf` and `-inf`.
    """
    entries = ",\n".join(json_text(to_plain(row)) for row in content.rows)
    facts = json_text(to_plain(content.facts))
    return f'{{"facts": {facts},\n"entries": [\n{entries}\n]}}\n'.encode()


def read_table(path: Path) -> tuple[BoardFacts, pa.Table]:
    """Read a Parquet file.

    Raises:
        UserError: It is not there, no board, or of another version.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{path} cannot be read: {reason}; make it with arlarena-bench leaderboard build"
        ) from error
    stated = (table.schema.metadata or {}).get(KEY)
    table = _completed(table)
    if stated is None or not table.schema.remove_metadata().equals(SCHEMA):
        raise UserError(
            f"{path} is not a board of version {VERSION}; rebuild it with arlarena-bench "
            "leaderboard build"
        )
    return _facts(path, stated), table


def _completed(table: pa.Table) -> pa.Table:
    """A table with the columns that have come since it was written, in the order of today's."""
    for name, value in _ADDED.items():
        if name not in table.column_names:
            values = pa.array([value] * len(table), SCHEMA.field(name).type)
            table = table.append_column(SCHEMA.field(name), values)
    whole = set(table.column_names) == set(SCHEMA.names)
    return table.select(SCHEMA.names) if whole else table


def _facts(path: Path, stated: bytes) -> BoardFacts:
    plain = json.loads(stated)
    if plain.get("version") != VERSION:
        raise UserError(
            f"{path} is a board of version {plain.get('version')}, this program reads {VERSION}; "
            "rebuild it with arlarena-bench leaderboard build"
        )
    facts: BoardFacts = from_plain(BoardFacts, plain)
    return facts


def read_content(path: Path) -> BoardContent:
    """Read everything that a Parquet file holds; `board.load` reads what is asked for.

    Raises:
        UserError: See `read_table`.
    """
    facts, table = read_table(path)
    return BoardContent(facts, full_rows(table))


def full_rows(table: pa.Table) -> tuple[FullRow, ...]:
    """The entries of a table or a part of one."""
    return tuple(from_plain(FullRow, line) for line in table.to_pylist())
