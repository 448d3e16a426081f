r"""Reads the files of public datasets and checks every row.

The columns are those of the data sets that are in use: `id`, `problem`, `answer` or `solution` (a
`\boxed` number) and `url` of the AIME; `unique_id`, `problem`, `answer` and `level` of MATH-500.
"""

import csv
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.errors import UserError, os_error_as
from tasks.panels import PanelEntry

MATH500 = "math500"

Row = Mapping[str, Any]

_LONGEST_PROBLEM = 20_000
"""Characters."""
_LONGEST_ANSWER = 1_000
_LONGEST_ID = 200
_MOST_ROWS = 100_000
_UNREADABLE = (OSError, ValueError, TypeError, KeyError)
"""What the readers below `datasets` raise for files of another form."""
_AIME_ANSWER = re.compile(r"[0-9]{1,3}")
_BOXED = re.compile(r"\\boxed\{\s*([0-9]{1,3})\s*\}")
_AIME_URL = re.compile(r"_AIME_I{1,2}_Problems/Problem_(1[0-5]|[1-9])/?")
_MATH500_LEVEL = re.compile(r"[1-5]")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_.]+")


def read_rows(path: Path, largest: int) -> Sequence[Row]:
    """Read a data file with the library `datasets`; no code of the data set's is ever run.

    Args:
        path: A `.jsonl`, `.json`, `.parquet` or `.csv` file.
        largest: Bytes that it may have.

    Raises:
        UserError: The file is too large, empty or not of the form that its ending says.
    """
    with os_error_as(f"{path} cannot be read"):
        size = path.stat().st_size
    if size > largest:
        raise UserError(f"{path} has {size} bytes, more than {largest}: it is the wrong file")
    if size == 0:
        raise UserError(f"{path} is empty")

    import pyarrow as pa
    from datasets.exceptions import DatasetGenerationError

    try:
        with tempfile.TemporaryDirectory() as cache, _silent():
            rows = _load(path, cache)
    except (DatasetGenerationError, pa.ArrowException, csv.Error, *_UNREADABLE) as error:
        cause = error.__cause__ or error
        reason = " ".join(str(cause).split())[:200]
        raise UserError(
            f"{path} cannot be read as {path.suffix[1:]}: {type(cause).__name__}: {reason}"
        ) from error
    return rows


def _load(path: Path, cache: str) -> list[Row]:
    from datasets import Dataset, Features, Value

    options: dict[str, Any] = {"cache_dir": cache, "keep_in_memory": True}
    if path.suffix == ".parquet":
        dataset = Dataset.from_parquet(str(path), **options)
    elif path.suffix == ".csv":
        # As texts: a column of numbers would lose leading zeros, one with gaps its type.
        features = Features({column: Value("string") for column in _csv_columns(path)})
        options |= {"features": features, "keep_default_na": False}
        dataset = Dataset.from_csv(str(path), **options)
    else:
        dataset = Dataset.from_json(str(path), **options)
    if dataset.num_rows > _MOST_ROWS:
        raise UserError(f"{path} has {dataset.num_rows} rows: it is the wrong file")
    rows: list[Row] = dataset.to_list()
    return rows


def _csv_columns(path: Path) -> list[str]:
    """The names of the columns, after a look at the rows: pandas would shift or cut them."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        columns, *rows = csv.reader(file)
    if len(set(columns)) < len(columns):
        raise UserError(f"{path} has duplicate columns: {', '.join(columns)[:200]}")
    for number, row in enumerate(filter(None, rows), start=1):
        if len(row) != len(columns):
            raise UserError(
                f"{path}, row {number}: has {len(row)} cells, but the first line has {len(columns)}"
            )
    return columns


def to_entries(
    panel: str, episodes: int, path: Path, rows: Sequence[Row]
) -> tuple[PanelEntry, ...]:
    """Check the rows of a panel and make its entries.

    Raises:
        UserError: There are not exactly as many rows as the panel has problems, a field is missing,
            empty, too long or of another type, or two rows are the same problem.
    """
    if len(rows) != episodes:
        raise UserError(
            f"{path} has {len(rows)} problems, but {panel} has {episodes}: it is "
            "incomplete or the wrong file"
        )
    entries = []
    seen: dict[str, dict[str, int]] = {"id": {}, "problem": {}, "name": {}}
    for number, row in enumerate(rows, start=1):
        entry = _math500(path, number, row) if panel == MATH500 else _aime(panel, path, number, row)
        name, source, question = entry.id, entry.data["source"], entry.data["question"]
        for field, value in (("id", source), ("problem", question), ("name", name)):
            if value in seen[field]:
                raise _fault(path, number, field, f"the same as in row {seen[field][value]}")
            seen[field][value] = number
        entries.append(entry)
    return tuple(entries)


def _math500(path: Path, number: int, row: Row) -> PanelEntry:
    source = _text(path, number, row, "unique_id", _LONGEST_ID)
    level = str(_present(path, number, row, "level"))
    if not _MATH500_LEVEL.fullmatch(level):
        raise _fault(path, number, "level", f"must be an integer from 1 to 5, not {level[:40]!r}")
    answer = _text(path, number, row, "answer", _LONGEST_ANSWER)
    name = source.removeprefix("test/").removesuffix(".json")
    return _entry(MATH500, path, number, row, source, name, answer, level)


def _aime(panel: str, path: Path, number: int, row: Row) -> PanelEntry:
    value = _present(path, number, row, "id")
    if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
        raise _fault(path, number, "id", "must be an integer or a string")
    source = str(value)
    if len(source) > _LONGEST_ID:
        raise _fault(path, number, "id", f"has more than {_LONGEST_ID} characters")
    answer = _aime_answer(path, number, row)
    return _entry(panel, path, number, row, source, source, answer, _aime_band(number, row))


def _entry(
    panel: str,
    path: Path,
    number: int,
    row: Row,
    source: str,
    name: str,
    answer: str,
    category: str,
) -> PanelEntry:
    question = _text(path, number, row, "problem", _LONGEST_PROBLEM)
    identifier = f"{panel}-{_NOT_IN_IDS.sub('-', name)}"
    return PanelEntry(
        identifier, category, {"question": question, "answer": answer, "source": source}
    )


def _aime_answer(path: Path, number: int, row: Row) -> str:
    """An integer from 0 to 999, without leading zeros."""
    if row.get("answer") is None and isinstance(row.get("solution"), str):
        boxed = _BOXED.findall(row["solution"])
        if not boxed:
            raise _fault(path, number, "solution", "must have an integer from 0 to 999 in \\boxed")
        return str(int(boxed[-1]))
    value = _present(path, number, row, "answer")
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _fault(path, number, "answer", f"must be an integer, not {value!r}"[:80])
    text = str(value).strip()
    if not _AIME_ANSWER.fullmatch(text):
        raise _fault(path, number, "answer", f"must be an integer from 0 to 999, not {text[:40]!r}")
    return str(int(text))


def _aime_band(number: int, row: Row) -> str:
    """Which third of its paper a problem is in; problems become harder within a paper.

    The number is in the address where a data set gives one. `math-ai/aime25` counts its rows from 0
    through both papers of 15 problems in the `id`.
    """
    url = row.get("url")
    match = _AIME_URL.search(url) if isinstance(url, str) else None
    if match:
        position = int(match[1])
    elif url is None and str(row["id"]) == str(number - 1):
        position = (number - 1) % 15 + 1
    else:
        return "all"
    first = (position - 1) // 5 * 5 + 1
    return f"{first}-{first + 4}"


def _text(path: Path, number: int, row: Row, field: str, longest: int) -> str:
    value = _present(path, number, row, field)
    if not isinstance(value, str):
        raise _fault(path, number, field, f"must be a string, not {type(value).__name__}")
    if not value.strip():
        raise _fault(path, number, field, "is empty")
    if len(value) > longest:
        raise _fault(path, number, field, f"has more than {longest} characters")
    return value


def _present(path: Path, number: int, row: Row, field: str) -> Any:
    value = row.get(field)
    if value is None:
        raise _fault(path, number, field, "is missing")
    return value


def _fault(path: Path, number: int, field: str, text: str) -> UserError:
    return UserError(f"{path}, row {number}, {field}: {text}")


@contextmanager
def _silent() -> Iterator[None]:
    """Without the library's progress bars and log, whose state is the whole process's.

    What it logs of a broken file is in the error that it raises, too.
    """
    from datasets.utils import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
        logging,
    )

    were_disabled, verbosity = are_progress_bars_disabled(), logging.get_verbosity()
    disable_progress_bars()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if not were_disabled:
            enable_progress_bars()
