"""Makes `characters.json`: `python -m tasks.webshop.search.make_characters FOLDER`.

The file is shipped; this is how it came about. FOLDER holds files of the Unicode Character
Database 9.0 (`WordBreakProperty.txt`, `Scripts.txt`, `LineBreak.txt`) and of the emoji data 11.0
(`emoji-data.txt`), the versions that Lucene 8 was made with. Running it again gives the same bytes.
"""

import argparse
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from tasks.webshop.search.tokens import CHARACTERS, CODE_POINTS, OTHER

# The classes that `tokens.py` explains, by what defines them. Later lines overrule earlier ones.
SIMPLE = (
    ("i", "Scripts.txt", ("Han", "Hiragana")),
    ("s", "LineBreak.txt", ("SA",)),
    ("a", "WordBreakProperty.txt", ("ALetter",)),
    ("h", "WordBreakProperty.txt", ("Hebrew_Letter",)),
    ("k", "WordBreakProperty.txt", ("Katakana",)),
    ("n", "WordBreakProperty.txt", ("Numeric",)),
    ("e", "WordBreakProperty.txt", ("ExtendNumLet",)),
    ("l", "WordBreakProperty.txt", ("MidLetter",)),
    ("m", "WordBreakProperty.txt", ("MidNumLet",)),
    ("c", "WordBreakProperty.txt", ("MidNum",)),
    ("q", "WordBreakProperty.txt", ("Single_Quote",)),
    ("d", "WordBreakProperty.txt", ("Double_Quote",)),
    ("x", "WordBreakProperty.txt", ("Extend", "Format")),
    ("z", "WordBreakProperty.txt", ("ZWJ",)),
    ("r", "WordBreakProperty.txt", ("Regional_Indicator",)),
    ("p", "emoji-data.txt", ("Emoji", "Extended_Pictographic")),
    ("b", "emoji-data.txt", ("Emoji_Modifier_Base",)),
    ("f", "emoji-data.txt", ("Emoji_Modifier",)),
)
FULL_WIDTH_DIGITS = range(0xFF10, 0xFF1A)
NO_EMOJI = {*map(ord, "0123456789#*"), *range(0x1F1E6, 0x1F200)}
"""Have the property Emoji, but for Lucene they are none by themselves."""
SINGLE = {"o": (0x20E3,), "v": (0xFE0E,), "V": (0xFE0F,), "U": (0xE007F,), "#": (0x23, 0x2A)}
TAGS = range(0xE0020, 0xE007F)


def main() -> None:
    """Read the files and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    CHARACTERS.write_text(table(parser.parse_args().folder), encoding="ascii")


def table(folder: Path) -> str:
    """The content of `characters.json`: runs of code points of one class, [first, class]."""
    classes = [OTHER] * CODE_POINTS
    for letter, file, values in SIMPLE:
        for point in _points(folder / file, values):
            classes[point] = _combined(classes[point], letter, point)
    for point in FULL_WIDTH_DIGITS:
        classes[point] = "n"
    for letter, points in {**SINGLE, "T": TAGS}.items():
        for point in points:
            classes[point] = letter
    first, runs = 0, []
    for letter, run in groupby(classes):
        runs.append([first, letter])
        first += len(list(run))
    return json.dumps(runs, separators=(",", ":")) + "\n"


def _combined(before: str, letter: str, point: int) -> str:
    """The class of a code point that has the class `before` and is found to have `letter`, too."""
    if letter == "p" and point in NO_EMOJI:
        return before
    both = {("s", "x"): "t", ("a", "p"): "w", ("w", "p"): "w"}
    return both.get((before, letter), letter)


def _points(path: Path, values: tuple[str, ...]) -> Iterator[int]:
    for line in path.read_text(encoding="utf-8").splitlines():
        field, separator, value = line.split("#")[0].partition(";")
        if separator and value.strip() in values:
            first, _, last = field.strip().partition("..")
            yield from range(int(first, 16), int(last or first, 16) + 1)


if __name__ == "__main__":
    main()
