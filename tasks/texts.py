"""Text helpers: make external text safe to show, shorten it, pluralize nouns."""

import re
from collections.abc import Sequence
from typing import Final

ELLIPSIS: Final = "\u2026"
LONGEST_SHOWN: Final = 400
"""Characters of a foreign text that a message holds."""
_SHA256: Final = re.compile("[0-9a-f]{64}")
_BLANK: Final = frozenset(
    map(chr, (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0))
) | frozenset(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
"""Letters and marks of visible categories of which nothing is seen."""


def is_seen(character: str) -> bool:
    """Whether a character is not a control, a direction or the like, nor any but a plain space."""
    return character.isprintable() and character not in _BLANK


def printable(text: str) -> str:
    """Foreign text on one line, with what is invisible in it as code points.

    No terminal takes what comes out for a command, and nothing in it moves what stands around it.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if is_seen(c) else f"U+{ord(c):04X}" for c in text)


def on_one_line(text: str, limit: int = LONGEST_SHOWN) -> str:
    """A foreign text as a message may hold it: one line, everything visible, not too long."""
    return cut(printable(text[: limit + 1]), limit)


def cut(text: str, most: int, end: str = ELLIPSIS) -> str:
    """The beginning of a text that is too long, with a mark where it was cut.

    Args:
        text: Any text.
        most: Characters that may stay, the mark's among them.
        end: The mark.
    """
    return text if len(text) <= most else text[: most - len(end)] + end


def cut_middle(text: str, most: int) -> str:
    """Both ends of a text that is too long, with a mark between: long names often differ there.

    Args:
        text: Any text.
        most: Characters that may stay, the mark's among them.
    """
    tail = most // 3
    head = most - tail - len(ELLIPSIS)
    return text if len(text) <= most else f"{text[:head]}{ELLIPSIS}{text[-tail:]}"


def short_names(names: Sequence[str], most: int) -> list[str]:
    """Foreign names as columns and figures show them: one line each, and no two alike.

    Args:
        names: In any number.
        most: Characters of a name; those that are alike then get a number in addition.
    """
    shown: list[str] = []
    for name in names:
        short = cut = cut_middle(printable(name), most)
        number = 1
        while short in shown:
            number += 1
            short = f"{cut} ({number})"
        shown.append(short)
    return shown


def without_middle(text: str, most: int, tail: int, note: str) -> str:
    """Both ends of a text that is too long, and between them what was left out.

    Args:
        text: Any text.
        most: Characters of it that stay.
        tail: Of these so many are the last ones; at least one.
        note: What is shown instead of the others, with `{}` for their number.
    """
    if len(text) <= most:
        return text
    between = note.format(len(text) - most)
    return f"{text[: most - tail]}\n{between}\n{text[-tail:]}"


def digest_text(digest: str | None) -> str:
    """The beginning of a hash in hex, as messages name it: `3f2a9c01b7de...`."""
    return f"{str(digest)[:12]}..."


def value_text(value: object) -> str:
    """A value of a file in a message: a SHA-256 as its beginning, anything else as it is."""
    text = str(value)
    return digest_text(text) if _SHA256.fullmatch(text) else text


def plural(number: int | str, noun: str) -> str:
    """`seed` for one of them, `seeds` for any other number, or a range of numbers.

    Args:
        number: How many, as a number or as it is printed.
        noun: A regular one: `seed`, `entry`, `process`, `epoch`.
    """
    if number in (1, "1"):
        return noun
    if noun.endswith(("s", "x", "sh", "tch")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if re.search("[^aeiou]y$", noun) else f"{noun}s"


def counted(number: int | str, noun: str) -> str:
    """A number of things: `1 seed`, `3 seeds`."""
    return f"{number} {plural(number, noun)}"


def first_line(error: BaseException) -> str:
    """The first line of an exception's message that says something, else the exception's type."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
