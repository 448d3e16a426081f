"""What all pages of results are made of: tables of Markdown, and templates that are filled."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined


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
