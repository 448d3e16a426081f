"""The paper's tables as printed, shown beside the board but never on it."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from leaderboard.board.protocols import PanelFacts
from leaderboard.board.published import (
    LINK,
    PublishedRow,
    ReferenceNote,
    ReferenceRow,
    ReferenceTable,
    published_rows,
    reference_tables,
    task_notes,
)
from leaderboard.page.markup import (
    Head,
    Piece,
    element,
    folded,
    joined,
    link,
    note,
    outside,
    page,
    table,
)
from leaderboard.page.state import State, query_of
from leaderboard.table import cells


def published_section(
    panels: Sequence[PanelFacts], protocol: str, here: Mapping[str, Piece]
) -> Markup:
    """The paper's results on the tasks of a view, separate from its entries.

    Args:
        panels: Panels of the view. The paper evaluated on their tasks, but on none of the panels.
        protocol: Name of the current protocol.
        here: Success of this board's best entry of each recipe and its track, by recipe name.
    """
    titles = {panel.task: panel.title for panel in panels}
    rows = published_rows(list(titles))
    away = link(query_of(State(tab="about", protocol=protocol)), "all published tables")
    head = element("h2", "Published by the paper: not verified, not ranked")
    if not rows:
        names = ", ".join(titles.values())
        said = note(joined([f"The paper has no success rates on {names}; see ", away, "."]))
        return element("section", head + said, "lb-published")
    reported = [
        task
        for place, task in enumerate(titles)
        if any(row.success[place] is not None for row in rows)
    ]
    missing = [title for task, title in titles.items() if task not in reported]
    about = f"None on {', '.join(missing)}. " if missing else ""
    notes = task_notes()
    return element(
        "section",
        joined(
            [
                head,
                note(notes["all"]),
                _rows(titles, reported, here),
                note(joined([f"{about}Scores and everything else: ", away, "."])),
                folded(
                    "Why these numbers cannot be compared with entries",
                    element("ul", joined(_reasons(titles, reported))),
                ),
            ]
        ),
        "lb-published",
    )


def _rows(titles: dict[str, str], reported: Sequence[str], here: Mapping[str, Piece]) -> Markup:
    heads = [Head("method")]
    heads += [
        Head(f"{titles[task]}, the paper's own episodes (%)", number=True) for task in reported
    ]
    mean = f", mean of {len(titles)} tasks" if len(titles) > 1 else ""
    heads += [Head(f"best entry here{mean} (%)", number=True)] if here else []
    heads += [Head("base model"), Head("source")]
    found = sorted(
        published_rows(reported),
        key=lambda row: (row.table, -sum(value or 0 for value in row.success)),
    )
    rows: list[list[Piece]] = [
        [
            row.method,
            *(_printed(value) for value in row.success),
            *([here.get(row.method.lower(), cells.UNKNOWN)] if here else []),
            _models(row, [titles[task] for task in reported]),
            outside(LINK, f"table {row.table}"),
        ]
        for row in found
    ]
    return table("Published results, not verified", heads, rows)


def _printed(value: float | None) -> str:
    """A success rate in percent with all digits of the paper."""
    return cells.UNKNOWN if value is None else f"{100 * value:.2f}"


def _models(row: PublishedRow, titles: Sequence[str]) -> str:
    """The base models, with their tasks if these have different ones."""
    of: dict[str, list[str]] = {}
    for title, model, value in zip(titles, row.models, row.success, strict=True):
        if value is not None:
            of.setdefault(model, []).append(title)
    if len(of) == 1:
        return next(iter(of))
    return ", ".join(f"{model} ({', '.join(own)})" for model, own in of.items())


def _reasons(titles: dict[str, str], reported: Sequence[str]) -> list[Markup]:
    """Notes on the tasks, and the paper's inconsistencies about them."""
    notes = task_notes()
    found = [f"{titles[task]}: {notes[task]}" for task in reported if task in notes]
    for each in reference_tables():
        found += [_noted(one) for one in each.notes_on(reported)] if each.main else []
    return [element("li", text) for text in dict.fromkeys(found)]


def _noted(one: ReferenceNote) -> str:
    return f"{', '.join(one.methods)}: {one.text}" if one.methods else one.text


def published_tables() -> str:
    """All published tables with their known inconsistencies."""
    notes = task_notes()
    about = joined(element("li", _about(name, text)) for name, text in notes.items())
    return page(
        element("h2", "Published tables: not verified"),
        note(joined(["As printed in ", outside(LINK, LINK), "."])),
        element("ul", about),
        *(_folded(each) for each in reference_tables()),
    )


def _about(name: str, text: str) -> str:
    """A note on a task, after the task's usual name."""
    titles = {"alfworld": "ALFWorld", "webshop": "WebShop", "sokoban": "Sokoban"}
    return text if name == "all" else f"{titles.get(name, 'TIR Math')}: {text}"


def _folded(published: ReferenceTable) -> Piece:
    heads = [Head("method")]
    heads += [
        Head(joined([column.name, element("span", column.unit, "lb-sub")]), number=True)
        for column in published.columns
    ]
    rows = [[_method(row), *_values(row)] for row in published.rows]
    about = [element("li", _noted(each)) for each in published.notes]
    content: list[Piece] = [
        note(f"Model: {published.model}. Not verified."),
        table(published.title, heads, rows),
    ]
    content += [element("ul", joined(about))] if about else []
    return folded(f"Table {published.table}: {published.title}", joined(content))


def _method(row: ReferenceRow) -> str:
    return f"{row.method}, {row.setting}" if row.setting else row.method


def _values(row: ReferenceRow) -> list[str]:
    return [cells.UNKNOWN if value is None else f"{value:.2f}" for value in row.values]
