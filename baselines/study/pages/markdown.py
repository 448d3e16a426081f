"""Shared parts of all results pages: Markdown tables and templates."""

import os
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from jinja2 import Environment, StrictUndefined

from baselines.tracks import registry
from benchmark.files import write_atomically

WIDTH: Final = 120
"""Line width of a document."""
_OUTWARD: Final = re.compile(r"\]\((\.\./[^)#]+)")
"""A relative link that leaves a page's folder, up to its anchor."""


def fill(template: Path, **values: Any) -> str:
    """Fill a Jinja template of Markdown; a name without a value is an error.

    Args:
        template: The file.
        values: Values of its names.
    """
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701 - Markdown
    return environment.from_string(template.read_text("utf-8")).render(**values)


def write_page(path: Path, text: str, results: Path) -> None:
    """Write a page of results.

    Args:
        path: Its file.
        text: Its content, with links to project files as in the shipped page. In another results
            folder, they are adjusted to point to the same files.
        results: The results folder.

    Raises:
        OSError: It cannot be written.
    """
    shipped = registry.RESULTS / path.parent.relative_to(results)

    def moved(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(shipped / link[1]))
        if target.is_relative_to(registry.RESULTS):  # a copy contains it, too
            return link[0]
        return f"]({relative_link(target, path.parent)}"

    write_atomically(path, _OUTWARD.sub(moved, text).encode())


def relative_link(target: Path, folder: Path) -> str:
    """The address of a file in a page of a folder; Markdown has no links with spaces."""
    return quote(Path(os.path.relpath(target, folder)).as_posix())


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table.

    Args:
        head: Names of the columns.
        rows: Rows with one text per column.
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def bullets(points: Iterable[str]) -> str:
    """A Markdown list with one item per nonempty text."""
    return "\n".join(wrapped(point, "- ") for point in points if point)


def wrapped(text: str, head: str = "") -> str:
    """A paragraph in lines of `WIDTH` columns, with a hanging indent after the head."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
