"""Splits text into words: Lucene 8's StandardTokenizer.

The default word boundaries of Unicode 9.0 (UAX #29), with single ideographs and hiragana, runs of
South-East Asian letters and emoji sequences (UTS #51, 11.0) as words of their own. A word has at
most 255 UTF-16 code units; a longer one is cut there and what follows is looked at again.

Every character is replaced by a letter for its class, and a regular expression finds the words in
that string. The classes:

    a letter        h Hebrew letter    k katakana      n numeric        e joins, as `_`
    l mid-letter    m mid-number-letter  c mid-number  q single quote   d double quote
    i ideograph, hiragana              s South-East Asian               t the same, extending
    x extends the character before     z zero-width joiner              r regional indicator
    p emoji         b emoji that takes a skin tone     f skin tone      w emoji that is a letter
    # base of a keycap                 o keycap        v text style     V emoji style
    T tag           U end of tags
"""

import json
import re
from pathlib import Path

CHARACTERS = Path(__file__).with_name("characters.json")
CODE_POINTS = 0x110000
OTHER = "-"
"""The class of characters that belong to no word."""

LONGEST = 255
"""UTF-16 code units of a word."""

_SURELY_SHORT = LONGEST // 2
_LINEAR = 4096
"""Characters up to which a text is searched in one go; the time may grow with the square."""

# Runs are possessive: none of them has to be given back, and a long text cannot go exponential.
_STYLED = "[xztoTUvV]*+"
_PLAIN = "[xztoTU]*+"


def _word() -> str:
    x = _STYLED
    unit = f"(?:h{x}q{x}|h{x}d{x}h{x}|n{x}(?:[mqc]{x}n{x})*+|[ahw]{x}(?:[lmq]{x}[ahw]{x})*+)"
    chunk = f"(?:(?:k{x})++|{unit}++)"
    return f"(?:e{x})*+{chunk}(?:(?:e{x})++{chunk})*+(?:e{x})*+"


def _emoji() -> str:
    y = _PLAIN
    toned = f"b{y}f{y}"
    # After a character that ends in joiners, and after an emoji style that joiners follow.
    more = f"(?:(?<=z)(?:{toned}|[pbw]{y}V?+|f{y})|(?<=V)(?:z++(?:{toned}|[pbw]{y}V?+)|zf{y}))"
    first = f"(?:z*+(?:{toned}|[pbw]{y}(?:V(?:T++U)?+)?+)|f{y})"
    # A letter's word is longer than its emoji, unless what follows in the sequence is not
    # a letter.
    joined = f"(?:(?<=z)w{y}V?+|(?<=V)z++w{y}V?+)"
    leaves = f"w{y}V?+{joined}*+(?:(?<=z)[pbf]|(?<=V)(?:z++[pb]|zf))"
    keycap = f"#{y}V o{y}|#[xztTU]*+o{y}".replace(" ", "")
    flag = f"r{_STYLED}r{_STYLED}"
    return f"(?:(?!w)|(?={leaves})){first}{more}*+|{keycap}|{flag}"


_TOKEN = re.compile(f"{_emoji()}|{_word()}|(?:[st]{_STYLED})++|i{_STYLED}")
_START = re.compile("[ahknewistzpbfr#]")


def _read_classes() -> str:
    runs: list[tuple[int, str]] = json.loads(CHARACTERS.read_text(encoding="ascii"))
    ends = [first for first, _ in runs[1:]] + [CODE_POINTS]
    return "".join(letter * (end - first) for (first, letter), end in zip(runs, ends, strict=True))


_CLASSES = _read_classes()


def tokens(text: str) -> list[str]:
    """Split a text into words, in their order, unchanged.

    Any string is allowed; lone surrogates and NUL belong to no word.
    """
    classes = text.translate(_CLASSES)
    if len(text) <= _LINEAR:
        spans = [match.span() for match in _TOKEN.finditer(classes)]
        if all(end - start <= _SURELY_SHORT for start, end in spans):
            return [text[start:end] for start, end in spans]
    return _in_windows(text, classes)


def _in_windows(text: str, classes: str) -> list[str]:
    """Look for the longest word at every place in no more than the longest word's length."""
    found, place = [], 0
    while start := _START.search(classes, place):
        place = start.start()
        match = _TOKEN.match(classes, place, _window_end(text, place))
        if match:
            found.append(text[place : match.end()])
            place = match.end()
        else:
            place += 1
    return found


def _window_end(text: str, start: int) -> int:
    window = text[start : start + LONGEST]
    if window.isascii():
        return start + LONGEST
    units = 0
    for offset, character in enumerate(window):
        units += 1 if character <= "\uffff" else 2
        if units > LONGEST:
            return start + offset
    return start + LONGEST
