"""Foreign text for consoles of rich."""

from rich.table import Table
from rich.text import Text

from benchmark.cli.say import escaped


class PlainTable(Table):
    """A table whose cells and heads are texts: no markup in them, and nothing unseen."""

    def add_column(self, header: object = "", *args: object, **options: object) -> None:
        """As `Table.add_column`."""
        super().add_column(_cell(header), *args, **options)  # type: ignore[arg-type]

    def add_row(self, *cells: object, **options: object) -> None:
        """As `Table.add_row`."""
        super().add_row(*map(_cell, cells), **options)  # type: ignore[arg-type]


def plain(text: str) -> Text:
    """A text for a console of rich: no markup in it, and nothing unseen."""
    return Text(escaped(text))


def _cell(cell: object) -> object:
    return plain(cell) if isinstance(cell, str) else cell
