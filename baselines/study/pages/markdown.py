"""What all pages of results are made of: tables of Markdown, and templates that are filled."""

import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, StrictUndefined

WIDTH: Final = 120
"""Columns of a document."""


def fill(template: Path, **values: Any) -> str:
    """The text of a Jinja template of Markdown; a name without a value is an error.

    Args:
        template: The file.
        values: What its names stand for.
    """
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701 - Markdown
    return environment.from_string(template.read_text("utf-8")).render(**values)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown.

    Args:
        head: Names of the columns.
        rows: As many texts each.
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bullets(points: Iterable[str]) -> str:
    """A list of Markdown, one item per text that is not empty."""
    return "\n".join(wrapped(point, "- ") for point in points if point)


def wrapped(text: str, head: str = "") -> str:
    """A paragraph in lines of `WIDTH` columns, the others below what follows the head."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
