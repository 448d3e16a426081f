"""Untrusted text for rich consoles."""

from rich.table import Table
from rich.text import Text

from benchmark.cli.say import escaped


class PlainTable(Table):
    """A table whose cells and headers are plain text, without markup and invisible characters."""

    def add_column(self, header: object = "", *args: object, **options: object) -> None:
        """Add a column; see `Table.add_column`."""
        super().add_column(_cell(header), *args, **options)  # type: ignore[arg-type]

    def add_row(self, *cells: object, **options: object) -> None:
        """Add a row; see `Table.add_row`."""
        super().add_row(*map(_cell, cells), **options)  # type: ignore[arg-type]


def plain(text: str) -> Text:
    """Text for a rich console, without markup and invisible characters."""
    return Text(escaped(text))


def _cell(cell: object) -> object:
    return plain(cell) if isinstance(cell, str) else cell
