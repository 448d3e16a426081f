"""What the paper published: reference rows, not verified, without a rank.

The tables of ARLArena (arXiv:2602.21534v2), each in a file under `reference/`, as they are printed
and with what is known to be inconsistent about them. `notes.yaml` says why the numbers cannot be
held against entries: they are of other episodes. So they stand below the entries of a table, under
the panels that the field itself reports, and nothing is computed from them but their own means.
"""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

import pandas as pd  # type: ignore[import-untyped]  # it comes without types
import yaml
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from leaderboard.columns import SUCCESS, panel_name
from leaderboard.protocols import PanelFacts
from tasks.errors import UserError
from tasks.strict import Strict, first_fault

FOLDER: Final = Path(__file__).parent / "reference"
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
        text: The note.
    """

    methods: Annotated[tuple[str, ...], Field(strict=False)] = ()
    text: str


class ReferenceTable(Strict):
    """One published table.

    Attributes:
        table: Its number in the paper.
        title: What it shows, in our words.
        model: What was trained.
        parameters: Its weights, to one digit; null where rows differ.
        main: Its rows are shown below the entries; the others are read by themselves.
        columns: Its columns.
        rows: Its rows.
        notes: What is known to be inconsistent.
    """

    table: str
    title: str
    model: str
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

    def notes_on(self, method: str) -> tuple[str, ...]:
        """Notes on a method, those on the whole table last."""
        own = [note.text for note in self.notes if method in note.methods]
        return (*own, *(note.text for note in self.notes if not note.methods))


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
def task_notes(folder: Path = FOLDER) -> dict[str, str]:
    """Why the numbers are not those of this board, by task; under `all` what holds everywhere.

    Raises:
        UserError: The file breaks its schema.
    """
    notes: dict[str, str] = _read(folder / NOTES, dict[str, str])
    return notes


def _read(path: Path, schema: Any) -> Any:
    try:
        return TypeAdapter(schema).validate_python(yaml.safe_load(path.read_text("utf-8")))
    except ValidationError as error:
        raise UserError(f"{path}: {first_fault(error)}") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def reference_frame(panels: Sequence[PanelFacts]) -> pd.DataFrame:
    """The published success rates under the panels of a view, in the order of the tables.

    Numbers stand under panels that the field reports (`PanelFacts.field`) and under no other. The
    mean is over the view's panels, and unknown unless all of them have a number.

    Args:
        panels: Of the view, of different tasks.

    Returns:
        Indexed by `reference:<table>/<method>`, with `name`, `base_model`, `parameters`, `source`,
        `link`, `notes`, the mean as `success`, and a share for each panel under the names of
        `leaderboard.table`. Rows without any number are not there.
    """
    lines: dict[str, dict[str, Any]] = {}
    for table in reference_tables():
        for row in table.rows if table.main else ():
            found = {
                panel_name(panel): table.success(row, panel.task) if panel.field else None
                for panel in panels
            }
            known = [value for value in found.values() if value is not None]
            if not known:
                continue
            lines[f"reference:{table.table}/{row.method}"] = {
                "name": row.method,
                "base_model": table.model,
                "parameters": table.parameters,
                "source": table.source,
                "link": LINK,
                "notes": " ".join(table.notes_on(row.method)),
                SUCCESS: sum(known) / len(known) if len(known) == len(found) else None,
                **found,
            }
    return _typed(lines, [panel_name(panel) for panel in panels])


def _typed(lines: dict[str, dict[str, Any]], panels: list[str]) -> pd.DataFrame:
    texts = ["name", "base_model", "source", "link", "notes"]
    numbers = ["parameters", SUCCESS, *panels]
    index = pd.Index(list(lines), name="id", dtype="object")
    values = lines.values()
    columns = {
        name: pd.Series(
            [line[name] for line in values],
            index=index,
            dtype="float64" if name in numbers else "object",
        )
        for name in (*texts, *numbers)
    }
    return pd.DataFrame(columns, index=index)
