"""How commands print: one escape between foreign text and the terminal."""

import logging
import sys
from typing import TextIO

from tasks.texts import printable


def escaped(text: str) -> str:
    """A text of several lines whose lines hold nothing but what is seen."""
    return "\n".join(map(printable, text.split("\n")))


def say(
    *texts: object,
    sep: str = " ",
    end: str = "\n",
    file: TextIO | None = None,
    flush: bool = False,
) -> None:
    """Print as `print` does, with whatever could move the terminal as code points.

    Names of folders, fields of records and what servers answer are in what commands print.
    """
    # Looked up when it is called: a bar of progress puts itself in its place.
    stream = sys.stdout if file is None else file
    print(escaped(sep.join(map(str, texts))), end=end, file=stream, flush=flush)


class PlainFormatter(logging.Formatter):
    """Messages of the log, which quote files and servers."""

    def format(self, record: logging.LogRecord) -> str:
        """The message as it may be shown."""
        return escaped(super().format(record))
