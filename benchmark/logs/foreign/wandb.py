"""Weights & Biases exports: a run's history as CSV or JSON lines, and charts as CSV.

- History: `run.scan_history()`, one object or row per call of `log`, with `_step`, `_timestamp` and
  `_runtime` besides the logged names. (`run.history()` is a sample of at most 500 rows: export the
  whole history.)
- A chart's CSV: a first column `Step`, then `RUN - NAME`, `RUN - NAME__MIN`, `RUN - NAME__MAX` for
  each run. If minimum or maximum differ from the value, the chart shows means over several steps,
  which may hide a collapse, so this is an error.

`_step` counts calls of `log`, unless the trainer passes its own number, as verl and our trainer do.
A trainer's own step takes precedence: transformers logs `train/global_step`, since its training and
evaluation lines are separate calls. Without that column its exports cannot be placed.
"""

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmark.logs.foreign.mapping import Meaning, is_of_transformers
from benchmark.logs.foreign.rows import LogRow, Reading, RowCollector
from benchmark.logs.foreign.values import (
    MAX_ROWS,
    Value,
    fail_at,
    json_value,
    numbered_lines,
    parse_json,
    read_text,
    short,
    step_of,
    text_value,
)
from benchmark.logs.lines import MAX_LINE
from tasks.errors import UserError

STEPS: Final = ("train/global_step", "training/global_step", "_step", "Step")
"""Columns that count steps; the first one present is used."""
_CALLS: Final = ("_step", "Step")
_OF_WANDB: Final = ("", "_step", "_timestamp", "_runtime", "_wandb")
_BETWEEN: Final = " - "
_LOW, _HIGH = "__MIN", "__MAX"
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")

Cells = Mapping[str, Value]


def read_wandb(path: Path, own: Mapping[str, Meaning]) -> list[Reading]:
    """Read an export.

    Args:
        path: The file.
        own: Meanings of fields given by the user.

    Returns:
        Its runs; a chart may have several.

    Raises:
        UserError: It cannot be read, lacks a step column or its trainer's own, was averaged, or
            breaks a rule of `rows`.
    """
    text = read_text(path)
    if text.lstrip().startswith("{"):
        lines = _bounded(path, _json_lines(path, text))
        columns = list(dict.fromkeys(name for _, cells in lines for name in cells))
        runs = None
    else:
        columns, rows = _csv_lines(path, text)
        lines = _bounded(path, rows)
        runs = _chart_runs([name for name in columns if name not in (*STEPS, *_OF_WANDB)])
    step = next((name for name in STEPS if name in columns), None)
    if step is None:
        raise UserError(f"{path} has no column {' or '.join(STEPS)}; export the steps as well")
    if runs is None:
        runs = {path.stem: {name: name for name in columns}}
    if step in _CALLS:
        _check_placed(path, step, runs)
    return [_reading(path, own, run, step, names, lines) for run, names in runs.items()]


def has_steps(header: Sequence[str]) -> bool:
    """Whether a CSV header belongs to an export."""
    return any(name in header for name in STEPS)


def first_row(text: str) -> list[str]:
    """The cells of a CSV file's first line; empty if it is not a CSV line."""
    try:
        return next(csv.reader(io.StringIO(text), strict=True), [])
    except csv.Error:
        return []


def _reading(
    path: Path,
    own: Mapping[str, Meaning],
    run: str,
    step: str,
    names: Mapping[str, str],
    lines: Sequence[tuple[int, Cells]],
) -> Reading:
    """One run.

    Args:
        path: The file.
        own: Meanings of fields given by the user.
        run: The run's name.
        step: The step column.
        names: Names of numbers by this run's columns.
        lines: All lines, with their numbers.
    """
    collector = RowCollector(path, "wandb", own)
    for number, cells in lines:
        # A chart has columns of other runs, and a history may have new names in every line.
        columns = names if len(names) <= len(cells) else cells
        values = {
            names[column]: cells[column]
            for column in columns
            if column in names and column in cells and column != step and column not in _OF_WANDB
        }
        # A call of `log` without the trainer's step cannot be placed.
        said = {name: value for name, value in values.items() if value is not None}
        if not said:
            continue
        count = cells.get(step)
        if count is None and step not in _CALLS:
            collector.pass_over(f"line {number}", said)
            continue
        try:
            place = step_of(count)
        except ValueError as error:
            fail_at(path, number, str(error))
        collector.add(LogRow(f"line {number}", place, said))
    calls = f"{step} is read as the update, which is right if the trainer logs its own step number"
    return collector.reading(run, [calls] if step in _CALLS else [])


def _check_placed(path: Path, step: str, runs: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse to count calls of `log` as updates for a trainer that makes several per step."""
    for names in runs.values():
        for column, name in names.items():
            if is_of_transformers(name):
                raise UserError(
                    f"{path} has {short(column)}, as transformers logs it, without "
                    f"train/global_step: {step} counts log calls; export that column "
                    f"as well, or rename {step} to it if it counts updates"
                )


def _json_lines(path: Path, text: str) -> Iterator[tuple[int, Cells]]:
    for number, line in numbered_lines(text):
        if len(line) > MAX_LINE:
            fail_at(path, number, f"longer than {MAX_LINE} characters")
        try:
            fields = parse_json(line)
        except ValueError as error:
            fail_at(path, number, str(error))
        if not isinstance(fields, dict):
            fail_at(path, number, "is not an object")
        yield (
            number,
            {
                # The public API returns non-finite values as text.
                name: text_value(value) if value in _NOT_FINITE else json_value(value)
                for name, value in fields.items()
            },
        )


def _csv_lines(path: Path, text: str) -> tuple[list[str], Iterator[tuple[int, Cells]]]:
    """The header, and the rows below it."""
    rows = _csv_rows(path, text)
    _, header = next(rows, (1, []))
    if len(set(header)) < len(header):
        (twice, _), *_ = Counter(header).most_common(1)
        fail_at(path, 1, f"column {short(twice)} appears twice; export one run, or rename them")
    return header, _csv_values(path, header, rows)


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        fail_at(path, reader.line_num, f"not CSV: {error}")


def _csv_values(
    path: Path, header: Sequence[str], rows: Iterable[tuple[int, list[str]]]
) -> Iterator[tuple[int, Cells]]:
    for number, cells in rows:
        if len(cells) != len(header):
            fail_at(path, number, f"{len(cells)} cells for {len(header)} columns")
        values = {name: text_value(cell) for name, cell in zip(header, cells, strict=True)}
        _check_not_averaged(path, number, values)
        yield number, values


def _bounded(path: Path, lines: Iterable[tuple[int, Cells]]) -> list[tuple[int, Cells]]:
    found = list(itertools.islice(lines, MAX_ROWS + 1))
    if len(found) > MAX_ROWS:
        raise UserError(f"{path} has more than {MAX_ROWS} rows; it is not a training log")
    return found


def _check_not_averaged(path: Path, number: int, values: Cells) -> None:
    for column, low in values.items():
        if not column.endswith(_LOW):
            continue
        name = column.removesuffix(_LOW)
        value, high = values.get(name), values.get(name + _HIGH)
        if name in values and name + _HIGH in values and not _same(value, low, high):
            fail_at(
                path,
                number,
                f"{name!r} is a mean of several steps, between {low} and {high}: a chart's export "
                "smooths; export the history of the run (scan_history)",
            )


def _same(value: Value, low: Value, high: Value) -> bool:
    """Whether the three are equal; NaN equals NaN."""
    return repr(value) == repr(low) == repr(high)


def _chart_runs(columns: Sequence[str]) -> dict[str, dict[str, str]] | None:
    """Names of numbers by column for each run of a chart; None for the history of one run."""
    plain = [name for name in columns if not name.endswith((_LOW, _HIGH))]
    if not plain or not all(_BETWEEN in name for name in plain):
        return None
    runs: dict[str, dict[str, str]] = {}
    for column in plain:
        run, _, name = column.rpartition(_BETWEEN)
        if name not in _OF_WANDB:
            runs.setdefault(run, {})[column] = name
    return runs
