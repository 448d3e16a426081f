"""What the paper published: reference rows, not verified, without a rank.

The tables of ARLArena (arXiv:2602.21534v2), each in a file under `reference/`, as they are printed
and with what is known to be inconsistent about them. `notes.yaml` says why the numbers cannot be
compared with entries: they are of episodes of the paper's own, and of no panel. So they stand below
the entries of a table, by task, and nothing is computed from them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from tasks.errors import UserError
from tasks.strict import Strict, first_fault, read_yaml

FOLDER: Final = Path(__file__).parents[1] / "reference"
NOTES: Final = "notes.yaml"
PAPER: Final = "ARLArena, arXiv:2602.21534v2"
LINK: Final = "https://arxiv.org/abs/2602.21534v2"

What = Literal["score", "success", "pass@4", "mean@1", "k@32", "change", "average"]


class ReferenceColumn(Strict):
    """One column of a published table.

    Attributes:
        name: As printed.
        task: Task of this benchmark that it is about; null for all.
        what: What was measured. `change` is a difference to the line before, in the paper's order
            of steps; `average` is the paper's own mean.
        unit: Its unit; `mixed` for what has none.
        category: Part of the task's episodes that it is about; null for all.
    """

    name: str
    task: str | None
    what: What
    unit: Literal["points", "points of 100", "%", "mixed"]
    category: str | None = None

    @property
    def is_success(self) -> bool:
        """Whether it is the success rate of a whole task."""
        return self.what == "success" and self.unit == "%" and self.category is None


class ReferenceRow(Strict):
    """One row of a published table.

    Attributes:
        method: As printed.
        setting: What was changed of it; null for nothing.
        values: One for each column; null where there is none.
    """

    method: str
    setting: str | None = None
    values: Annotated[
        tuple[Annotated[float, Field(allow_inf_nan=False)] | None, ...], Field(strict=False)
    ]


class ReferenceNote(Strict):
    """What is inconsistent, or must be known.

    Attributes:
        methods: Methods that it is about; empty for all of the table.
        tasks: Tasks whose success rates it is about; empty if it is about none of them, but about
            another column or the text of the paper.
        text: The note.
    """

    methods: Annotated[tuple[str, ...], Field(strict=False)] = ()
    tasks: Annotated[tuple[str, ...], Field(strict=False)] = ()
    text: str


class ReferenceTable(Strict):
    """One published table.

    Attributes:
        table: Its number in the paper.
        title: What it shows, in our words.
        model: What was trained, in words.
        models: The base model of each task, where they are not all the same.
        parameters: Its weights, to one digit; null where rows differ.
        main: Its rows are shown below the entries; the others are read by themselves.
        columns: Its columns.
        rows: Its rows.
        notes: What is known to be inconsistent.
    """

    table: str
    title: str
    model: str
    models: Annotated[dict[str, str], Field(default_factory=dict)]
    parameters: int | None
    main: bool = False
    columns: Annotated[tuple[ReferenceColumn, ...], Field(strict=False, min_length=1)]
    rows: Annotated[tuple[ReferenceRow, ...], Field(strict=False, min_length=1)]
    notes: Annotated[tuple[ReferenceNote, ...], Field(strict=False)]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for row in self.rows:
            if len(row.values) != len(self.columns):
                raise ValueError(f"{row.method}: as many values as columns")
        named = {method for note in self.notes for method in note.methods}
        if unknown := sorted(named - {row.method for row in self.rows}):
            raise ValueError(f"notes on methods that are not there: {', '.join(unknown)}")
        tasks = {column.task for column in self.columns}
        about = {task for note in self.notes for task in note.tasks} | set(self.models)
        if unknown := sorted(about - tasks):
            raise ValueError(f"nothing is reported of: {', '.join(unknown)}")
        return self

    @property
    def source(self) -> str:
        """Where it is from, for people."""
        return f"{PAPER}, table {self.table}"

    def success(self, row: ReferenceRow, task: str) -> float | None:
        """A row's success rate on a task as a share; None if the table has none."""
        for column, value in zip(self.columns, row.values, strict=True):
            if column.task == task and column.is_success and value is not None:
                return value / 100
        return None

    def model_of(self, task: str) -> str:
        """The base model that was trained on a task."""
        return self.models.get(task, self.model)

    def notes_on(self, tasks: Collection[str]) -> tuple[ReferenceNote, ...]:
        """The notes on the success rates of some tasks."""
        return tuple(note for note in self.notes if set(note.tasks) & set(tasks))


@cache
def reference_tables(folder: Path = FOLDER) -> tuple[ReferenceTable, ...]:
    """All published tables, by number: 2, 3, ..., S2, ...

    Raises:
        UserError: A file breaks its schema.
    """
    paths = sorted(path for path in folder.glob("*.yaml") if path.name != NOTES)
    tables = [_read(path, ReferenceTable) for path in paths]
    return tuple(sorted(tables, key=lambda table: (len(table.table), table.table)))


@cache
def task_notes() -> dict[str, str]:
    """Why the numbers are not those of this board, by task; under `all` what holds everywhere.

    Raises:
        UserError: The file breaks its schema.
    """
    notes: dict[str, str] = _read(FOLDER / NOTES, dict[str, str])
    return notes


def _read(path: Path, schema: Any) -> Any:
    try:
        return TypeAdapter(schema).validate_python(read_yaml(path))
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}") from error


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One method of a main table, as far as some tasks are concerned.

    Attributes:
        method: As printed.
        models: Base model of each task, in their order.
        success: Its success rate on each of them as a share; None where there is none.
        table: Number of its table in the paper.
    """

    method: str
    models: tuple[str, ...]
    success: tuple[float | None, ...]
    table: str


def published_rows(tasks: Sequence[str]) -> tuple[PublishedRow, ...]:
    """The published success rates on some tasks, in the order of the tables.

    They are of the paper's own episodes: no panel of this benchmark has played them.

    Args:
        tasks: Names of tasks, each once.

    Returns:
        The rows that have a number of one of them.
    """
    rows = []
    for table in reference_tables():
        for row in table.rows if table.main else ():
            found = tuple(table.success(row, task) for task in tasks)
            if any(value is not None for value in found):
                models = tuple(map(table.model_of, tasks))
                rows.append(PublishedRow(row.method, models, found, table.table))
    return tuple(rows)
