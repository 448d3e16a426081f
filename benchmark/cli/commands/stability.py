"""`arlarena-bench stability`: stability metrics of recipes, from logs of any trainer."""

import argparse
from pathlib import Path
from typing import Final

from benchmark.cli.entry_logs import logs_of
from benchmark.cli.say import say
from benchmark.files import write_atomically
from benchmark.logs.foreign import own_words
from benchmark.stability.recipes import LogReadingOptions, compared, comparisons_of
from benchmark.stability.table import (
    SHORT_LEGEND,
    comparisons_text,
    equal_rows_of,
    json_text,
    legend_text,
    log_text,
    table_text,
    unequal_of,
)
from tasks.errors import UserError, os_error_as
from tasks.texts import printable

_LOGS: Final = (".jsonl", ".zst")
"""How names of logs end."""


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    page = Path(arguments.out) if arguments.out else None
    if page is not None and page.suffix != ".html":
        raise UserError(f"--out {page}: the name must end in .html")
    if arguments.json and (Path(arguments.json).is_dir() or arguments.json.endswith(_LOGS)):
        # Elsewhere --json takes nothing: a log that follows it would be written over.
        taken = arguments.json
        raise UserError(f"--json {taken}: give the file to write, such as --json FILE.json")
    for name, *logs in arguments.recipe:
        if not logs:
            raise UserError(f"--recipe {name}: add the logs of its seeds after the name")
    choices = LogReadingOptions(
        format=arguments.format,
        meanings=own_words(arguments.map),
        success=arguments.success,
        by=arguments.by,
    )
    named = [(name, logs_of(logs, choices.format)) for name, *logs in arguments.recipe]
    rows = compared(logs_of(arguments.logs, choices.format), named, choices)
    comparisons = comparisons_of(rows)
    say(table_text(rows))
    say(f"\n{legend_text() if arguments.legend else SHORT_LEGEND}")
    if text := comparisons_text(comparisons):
        say(f"\n{text}")
    for one in comparisons.each:
        if equal := equal_rows_of(one, rows):
            say("\n" + equal.text(printable(f"success on {', '.join(one.tasks)} after")))
    for task, unequal in unequal_of(rows).items():
        say(f"\n{printable(task)}: {unequal.text}")
    pairs = [pair for row in rows for pair in zip(row.runs, row.stability.runs, strict=True)]
    if texts := [text for one, stability in pairs if (text := log_text(one, stability))]:
        say("\n" + "\n".join(texts))
    if arguments.json:
        _write(Path(arguments.json), json_text(rows, comparisons))
    if page is not None:
        from benchmark.plots.stability_page import stability_page

        _write(page, stability_page(rows, comparisons))
    return 0


def _write(path: Path, text: str) -> None:
    with os_error_as(f"{path} cannot be written"):
        write_atomically(path, text.encode())
    say(f"\nwritten: {path}")
