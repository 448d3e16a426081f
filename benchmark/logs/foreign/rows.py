"""Turns rows of numbers into curves: the rules shared by all formats of foreign logs.

- Steps never decrease. A run resumed from an earlier step has written some steps twice; the reader
  does not choose which of them count, unless the log states it (TensorBoard).
- A number that occurs twice at one step with the same value (NaN equals NaN) counts once; with two
  values it is an error.
- A value that is not finite, or exceeds float32, counts as measured and not finite.
- A number outside its range, such as a share in percent, is an error; nothing is rescaled.
- Of two names for one number the preferred one counts, if it has all values of the other one. If
  they differ, the user has to choose.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

import numpy as np

from benchmark.logs.curves import Points, RunCurves
from benchmark.logs.foreign.mapping import (
    SECONDS,
    Meaning,
    Source,
    meaning_of,
    priority,
    unmapped_reason,
)
from benchmark.logs.foreign.values import NotANumber, Value, short
from benchmark.logs.lines import ROUNDING
from benchmark.logs.metrics import FLOAT32_MAX, METRICS, VALIDATION_METRICS
from tasks.errors import UserError

MAX_FIELDS = 10_000
"""Maximum number of distinct names in one log."""
MAX_NAME = 300
"""Maximum characters of a name."""


@dataclass(frozen=True, slots=True)
class LogRow:
    """One row of a log.

    Attributes:
        place: Its position for messages: `line 12`.
        step: The trainer's step after which it was measured.
        values: Values by the log's own names.
    """

    place: str
    step: int
    values: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Reading:
    """One run of a foreign log.

    Attributes:
        run: Its curves.
        read_as: Meaning of every field that was understood.
        because: Reasons for unknown fields that look like one of ours, if known.
        notes: Other notes for readers of the numbers, one sentence each.
        resolution: Unit of the last decimal to which all numbers of the log were rounded; 0 if they
            were not.
    """

    run: RunCurves
    read_as: Mapping[str, Meaning]
    because: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    resolution: float = 0.0


@dataclass(slots=True)
class _Column:
    meaning: Meaning
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class RowCollector:
    """Takes the rows of one run, in the order of the log.

    Args:
        path: The log, for messages.
        source: The program that wrote it.
        own: Meanings of fields given by the user, which take precedence over the tables.
    """

    def __init__(self, path: Path, source: Source, own: Mapping[str, Meaning]) -> None:
        self._path = path
        self._source = source
        self._own = own
        self._columns: dict[str, _Column] = {}
        self._placed: list[_Column] = []  # the column of every value, in order
        self._unknown: set[str] = set()
        self._last: LogRow | None = None
        self._repeated = 0
        self._made_again = 0

    def add_all(self, rows: Iterable[LogRow]) -> None:
        """Take rows.

        Raises:
            UserError: See `add`; or a row cannot be read.
        """
        for row in rows:
            self.add(row)

    def add(self, row: LogRow) -> None:
        """Take one more row.

        Raises:
            UserError: Its step decreases, a number occurs twice or is outside its range, or there
                are too many names.
        """
        if self._last is not None and row.step < self._last.step:
            self._fail(row, f"step {row.step} comes after step {self._last.step}{_RESUMED}")
        self._last = row
        for name, value in row.values.items():
            column = self._column(row, name)
            if column is None or value is None:
                continue
            if isinstance(value, NotANumber):
                self._fail(row, f"{short(name)} is not a number")
            self._put(row, name, column, value)

    def resume_at(self, step: int) -> None:
        """Drop values measured at this step or later, because the log says they are repeated."""
        # Each value is dropped once, regardless of the number of sessions and columns.
        while self._placed and self._placed[-1].steps[-1] >= step:
            column = self._placed.pop()
            column.steps.pop()
            column.values.pop()
            self._made_again += 1
        if self._last is not None and self._last.step >= step:
            self._last = replace(self._last, step=max(step - 1, 0))

    def pass_over(self, place: str, names: Iterable[str]) -> None:
        """Record names that were logged without a step as unknown.

        Raises:
            UserError: One of them has a meaning, but without a step it cannot be placed.
        """
        row = LogRow(place, 0, {})
        for name in names:
            if self._column(row, name) is not None:
                self._fail(row, f"{short(name)} has no step")

    def reading(self, name: str, notes: Iterable[str] = (), resolution: float = 0.0) -> Reading:
        """Build the reading from all rows.

        Args:
            name: Display name of the run.
            notes: Notes from the format's reader.
            resolution: See `Reading`.

        Raises:
            UserError: Two fields with the same meaning differ.
        """
        chosen, because = self._chosen()
        panels = {c.meaning.panel for c in chosen.values() if _is_validation(c.meaning.name)}
        curves, read_as = {}, {}
        for column_name, column in chosen.items():
            read_as[column_name] = column.meaning
            key = column.meaning.name
            if len(panels) > 1 and _is_validation(key):
                key = f"{key}@{column.meaning.panel or 'unnamed'}"
            curves[key] = Points(np.array(column.steps, np.int64), np.array(column.values))
        seconds = curves.pop(SECONDS, None) or _total(curves.get("seconds/total"))
        second = {column for column in because if column not in chosen}
        unknown = tuple(sorted(self._unknown | second))
        because |= {one: reason for one in unknown if (reason := unmapped_reason(one))}
        if self._repeated:
            values = "value appears" if self._repeated == 1 else "values appear"
            notes = (*notes, f"{self._repeated} {values} twice at a step, and counted once")
        if self._made_again:
            values = "value was" if self._made_again == 1 else "values were"
            notes = (*notes, f"{self._made_again} {values} made again by a resumed run")
        run = RunCurves(
            name=name,
            source=self._source,
            recipe=None,
            seed=None,
            curves=curves,
            tokens=_total(curves.get("tokens/response")),
            seconds=seconds,
            unknown=unknown,
        )
        return Reading(run, read_as, because, tuple(notes), resolution)

    def _column(self, row: LogRow, name: str) -> _Column | None:
        column = self._columns.get(name)
        if column is not None or name in self._unknown:
            return column
        if len(name) > MAX_NAME:
            self._fail(row, f"a name of {len(name)} characters; at most {MAX_NAME} are read")
        if len(self._columns) + len(self._unknown) >= MAX_FIELDS:
            self._fail(row, f"more than {MAX_FIELDS} different names; this is not a training log")
        meaning = self._own.get(name) or meaning_of(self._source, name)
        if meaning is None:
            self._unknown.add(name)
            return None
        self._columns[name] = _Column(meaning)
        return self._columns[name]

    def _put(self, row: LogRow, name: str, column: _Column, value: float) -> None:
        value = self._in_range(row, name, column.meaning.name, value)
        if column.steps and column.steps[-1] == row.step:
            before = column.values[-1]
            if before == value or (math.isnan(before) and math.isnan(value)):
                self._repeated += 1
                return
            self._fail(
                row,
                f"{short(name)} of step {row.step} appears twice, as {before:g} and "
                f"{value:g}{_RESUMED}",
            )
        column.steps.append(row.step)
        column.values.append(value)
        self._placed.append(column)

    def _in_range(self, row: LogRow, name: str, ours: str, value: float) -> float:
        if not math.isfinite(value):
            return value
        metric = METRICS.get(ours) or VALIDATION_METRICS.get(ours)
        low, high = metric.range if metric else (0.0, FLOAT32_MAX)
        if not low - ROUNDING <= value <= high + ROUNDING:
            unit = f", a {metric.unit}," if metric and high == 1 else ""
            hint = "; shares are written from 0 to 1, not in percent" if high == 1 else ""
            self._fail(row, f"{short(name)} is {value:g}, but {ours}{unit} cannot be that{hint}")
        return min(max(value, low), high)

    def _chosen(self) -> tuple[dict[str, _Column], dict[str, str]]:
        """One column for each of our numbers, and why others with the same meaning do not count.

        Raises:
            UserError: They differ, and the user has not chosen one.
        """
        chosen: dict[str, _Column] = {}
        because: dict[str, str] = {}
        taken: dict[tuple[str, str], str] = {}
        order = sorted(
            self._columns,
            key=lambda name: (name not in self._own, priority(self._source, name), name),
        )
        for name in order:
            column = self._columns[name]
            target = (column.meaning.name, column.meaning.panel)
            if not column.steps:
                continue
            if target in taken:
                because[name] = self._left_out(name, taken[target])
                continue
            taken[target] = name
            chosen[name] = column
        return {name: chosen[name] for name in self._columns if name in chosen}, because

    def _left_out(self, name: str, counts: str) -> str:
        """Why a field does not count next to another one with the same meaning.

        Raises:
            UserError: It has values that the other one lacks.
        """
        if counts in self._own and name not in self._own:
            return f"{counts} was chosen (--map)"
        chosen, other = self._columns[counts], self._columns[name]
        before = dict(zip(chosen.steps, chosen.values, strict=True))
        for step, value in zip(other.steps, other.values, strict=True):
            if step in before and _same(before[step], value):
                continue
            said = f"{before[step]:g}" if step in before else "missing"
            ours, panel = chosen.meaning.name, chosen.meaning.panel
            option = f"{ours}@{panel}={counts}" if panel else f"{ours}={counts}"
            raise UserError(
                f"{self._path}: {short(counts)} and {short(name)} are both read as {ours}, but at "
                f"step {step} they are {said} and {value:g}; choose one, as in --map {option!r}"
            )
        return f"{counts} says the same"

    def _fail(self, row: LogRow, what: str) -> NoReturn:
        raise UserError(f"{self._path}, {row.place}: {what}")


_RESUMED = "; a resumed run has written steps twice: delete the outdated lines"


def _same(one: float, other: float) -> bool:
    """Whether two numbers are equal up to float32 rounding; NaN equals NaN."""
    return math.isclose(one, other, rel_tol=ROUNDING) or (math.isnan(one) and math.isnan(other))


def _is_validation(name: str) -> bool:
    return name in VALIDATION_METRICS


def _total(each: Points | None) -> Points | None:
    """The running sum; None unless every step from 1 on has a finite number."""
    if each is None or not each.steps.size or not np.isfinite(each.values).all():
        return None
    if not np.array_equal(each.steps, np.arange(1, each.steps.size + 1)):
        return None
    return Points(each.steps, np.cumsum(each.values))
