"""The board's file: one Parquet file, and the same content as JSON.

A row of `leaderboard.parquet` is a `rows.FullRow`; the facts besides the entries
(`protocols.BoardFacts`) are in the schema's metadata under `KEY`, as JSON. Rows are sorted by
protocol (the current standard one first) and id. Neither file depends on time, location or
processing order: the same submissions give the same bytes.

Files are read tolerantly, since archives of older protocols cannot be rebuilt: unknown columns and
fields are skipped, and missing ones are unknown. `VERSION` changes only when the meaning of a
column changes.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from leaderboard.board.arrow import from_plain, has_default, json_text, schema_of, to_plain
from leaderboard.board.protocols import BoardFacts
from leaderboard.board.rows import FullRow
from tasks.errors import UserError

VERSION: Final = 1
"""Version of the schema; other versions cannot be read."""
PARQUET: Final = "leaderboard.parquet"
JSON: Final = "leaderboard.json"
KEY: Final = b"arlarena-bench.leaderboard"
SCHEMA: Final[pa.Schema] = schema_of(FullRow)
"""Columns of the Parquet file."""
_NEEDED: Final = frozenset(name for name in SCHEMA.names if not has_default(FullRow, name))
"""Columns without which a file is not a board."""


@dataclass(frozen=True, slots=True)
class BoardContent:
    """The content of a board's file.

    Attributes:
        facts: Facts besides the entries.
        rows: The entries, in the order of the file.
    """

    facts: BoardFacts
    rows: tuple[FullRow, ...]


def parquet_bytes(content: BoardContent) -> bytes:
    """The content of `leaderboard.parquet`."""
    facts = json_text(to_plain(content.facts)).encode()
    table = _table(content.rows).replace_schema_metadata({KEY: facts})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    stored: bytes = sink.getvalue().to_pybytes()
    return stored


def check_row(row: FullRow) -> None:
    """Check that both files can hold a row, because an invalid one would block all others.

    Raises:
        Exception: They cannot, for any reason.
    """
    _table([row])
    json_text(to_plain(row)).encode()


def _table(rows: Sequence[FullRow]) -> pa.Table:
    return pa.Table.from_pylist([to_plain(row) for row in rows], schema=SCHEMA)


def json_bytes(content: BoardContent) -> bytes:
    """The content of `leaderboard.json`, with one line per entry.

    Numbers that are not finite become the texts `nan`, `inf` and `-inf`.
    """
    entries = ",\n".join(json_text(to_plain(row)) for row in content.rows)
    facts = json_text(to_plain(content.facts))
    return f'{{"facts": {facts},\n"entries": [\n{entries}\n]}}\n'.encode()


def read_table(path: Path) -> tuple[BoardFacts, pa.Table]:
    """Read a Parquet file.

    Raises:
        UserError: It is missing, not a board, or has another version.
    """
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if not path.exists():
            reason = "there is no such file"
        raise UserError(
            f"{path} cannot be read: {reason}; make it with arlarena-bench leaderboard build"
        ) from error
    stated = (table.schema.metadata or {}).get(KEY)
    if stated is None or not set(table.column_names) >= _NEEDED:
        raise UserError(
            f"{path} is not a board of version {VERSION}; rebuild it with arlarena-bench "
            "leaderboard build"
        )
    known = [name for name in SCHEMA.names if name in table.column_names]
    return _facts(path, stated), table.select(known)


def _facts(path: Path, stated: bytes) -> BoardFacts:
    plain = json.loads(stated)
    if plain.get("version") != VERSION:
        raise UserError(
            f"{path} is a board of version {plain.get('version')}, but this program reads "
            f"{VERSION}; rebuild it with arlarena-bench leaderboard build"
        )
    facts: BoardFacts = from_plain(BoardFacts, plain)
    return facts


def read_content(path: Path) -> BoardContent:
    """Read the whole content of a Parquet file; `board.load` reads lazily.

    Raises:
        UserError: See `read_table`.
    """
    facts, table = read_table(path)
    return BoardContent(facts, full_rows(table))


def full_rows(table: pa.Table) -> tuple[FullRow, ...]:
    """The entries of a table or a part of one."""
    return tuple(from_plain(FullRow, line) for line in table.to_pylist())
