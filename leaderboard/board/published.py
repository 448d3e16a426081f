"""The paper's published results: reference rows, not verified and without a rank.

The tables of ARLArena (arXiv:2602.21534v2), each in a file under `reference/`, as printed and with
known inconsistencies. `notes.yaml` says why the numbers cannot be compared with entries: they are
from the paper's own episodes, not from a panel. So they are shown below the entries of a table, by
task, and nothing is computed from them.
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
        name: Name as printed.
        task: The task of this benchmark; null for all.
        what: The measured quantity. `change` is the difference to the previous row, in the paper's
            order of steps; `average` is the paper's own mean.
        unit: Its unit; `mixed` if there is no single one.
        category: Category of the task's episodes; null for all.
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
        method: Name as printed.
        setting: Its changed setting; null for none.
        values: One value per column; null if missing.
    """

    method: str
    setting: str | None = None
    values: Annotated[
        tuple[Annotated[float, Field(allow_inf_nan=False)] | None, ...], Field(strict=False)
    ]


class ReferenceNote(Strict):
    """A note on an inconsistency, or on other important facts.

    Attributes:
        methods: Methods that it concerns; empty for the whole table.
        tasks: Tasks whose success rates it concerns; empty if it concerns another column or the
            text of the paper.
        text: The note.
    """

    methods: Annotated[tuple[str, ...], Field(strict=False)] = ()
    tasks: Annotated[tuple[str, ...], Field(strict=False)] = ()
    text: str


class ReferenceTable(Strict):
    """One published table.

    Attributes:
        table: Its number in the paper.
        title: Its title, in our words.
        model: Description of the trained model.
        models: The base model of each task, if they differ.
        parameters: Number of weights, to one digit; null if rows differ.
        main: Whether its rows are shown below the entries; other tables are read separately.
        columns: Its columns.
        rows: Its rows.
        notes: Known inconsistencies.
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
        """Its human-readable source."""
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
    """Why the numbers differ from this board's, by task; `all` has what holds everywhere.

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
    """One method of a main table, on some tasks.

    Attributes:
        method: Name as printed.
        models: Base model of each task, in order.
        success: Success rate on each task as a share; None if missing.
        table: Number of its table in the paper.
    """

    method: str
    models: tuple[str, ...]
    success: tuple[float | None, ...]
    table: str


def published_rows(tasks: Sequence[str]) -> tuple[PublishedRow, ...]:
    """The published success rates on some tasks, in the order of the tables.

    They are from the paper's own episodes, not from a panel of this benchmark.

    Args:
        tasks: Names of tasks, each once.

    Returns:
        The rows with a number for at least one of them.
    """
    rows = []
    for table in reference_tables():
        for row in table.rows if table.main else ():
            found = tuple(table.success(row, task) for task in tasks)
            if any(value is not None for value in found):
                models = tuple(map(table.model_of, tasks))
                rows.append(PublishedRow(row.method, models, found, table.table))
    return tuple(rows)
