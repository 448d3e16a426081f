"""Prints for commands, with untrusted text escaped for the terminal."""

import logging
import sys
from typing import TextIO

from tasks.texts import printable


def escaped(text: str) -> str:
    """Escape all invisible characters in the lines of a text."""
    return "\n".join(map(printable, text.split("\n")))


def say(
    *texts: object,
    sep: str = " ",
    end: str = "\n",
    file: TextIO | None = None,
    flush: bool = False,
) -> None:
    """Print like `print`, but with control characters written as code points.

    The output of commands contains names of folders, fields of records and answers of servers.
    """
    # Looked up on every call, because a progress bar replaces the stream.
    stream = sys.stdout if file is None else file
    print(escaped(sep.join(map(str, texts))), end=end, file=stream, flush=flush)


class PlainFormatter(logging.Formatter):
    """Escapes log messages, which quote files and servers."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a message and escape it."""
        return escaped(super().format(record))
