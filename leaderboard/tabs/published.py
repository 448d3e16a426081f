"""The paper's tables as they are printed: beside the board, never on it."""

from leaderboard import cells
from leaderboard.markup import Head, Piece, element, folded, joined, note, page, table
from leaderboard.reference import LINK, ReferenceRow, ReferenceTable, reference_tables, task_notes


def published_tables() -> str:
    """All published tables with what is known to be inconsistent about them."""
    notes = task_notes()
    about = joined(element("li", f"{name}: {text}") for name, text in notes.items())
    return page(
        element("h2", "Published tables: not verified"),
        note(joined(["As printed in ", element("a", LINK, href=LINK, rel="noopener"), "."])),
        element("ul", about),
        *(_folded(each) for each in reference_tables()),
    )


def _folded(published: ReferenceTable) -> Piece:
    heads = [Head("method")]
    heads += [
        Head(joined([column.name, element("span", column.unit, "lb-sub")]), number=True)
        for column in published.columns
    ]
    rows = [[_method(row), *_values(row)] for row in published.rows]
    about = [
        element("li", (f"{', '.join(each.methods)}: " if each.methods else "") + each.text)
        for each in published.notes
    ]
    content = [
        note(f"Model: {published.model}. Not verified."),
        table(published.title, heads, rows),
    ]
    content += [element("ul", joined(about))] if about else []
    return folded(f"Table {published.table}: {published.title}", joined(content))


def _method(row: ReferenceRow) -> str:
    return f"{row.method}, {row.setting}" if row.setting else row.method


def _values(row: ReferenceRow) -> list[str]:
    return [cells.UNKNOWN if value is None else f"{value:g}" for value in row.values]
