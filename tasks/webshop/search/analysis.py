"""Turns a text into terms for index and search: Anserini's default English analysis.

Words as Lucene's StandardTokenizer finds them, without a possessive `'s`, in lower case, without
33 stop words, reduced to Porter's stems.
"""

from functools import lru_cache

from tasks.webshop.search.porter import stem
from tasks.webshop.search.tokens import tokens

_STOP_WORDS = """
a an and are as at be but by for if in into is it no not of on or such that the their then there
these they this to was will with
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Lucene's English stop words."""

_APOSTROPHES = ("'", "\u2019", "\uff07")
_KEPT_WORDS = 1 << 16
"""Words of which the term is remembered: few make up most of all texts."""


def analyze(text: str) -> list[str]:
    """The terms of a text in their order, repeats included. Any string is allowed."""
    return [term for word in tokens(text) if (term := _term(word))]


@lru_cache(_KEPT_WORDS)
def _term(word: str) -> str:
    """The term of a word; empty for a stop word."""
    if len(word) >= 2 and word[-1] in "sS" and word[-2] in _APOSTROPHES:
        word = word[:-2]
    word = _lower(word)
    if word in STOP_WORDS:
        return ""
    if word.isascii() or max(word) <= "\uffff":
        return stem(word)
    # The stemmer counts UTF-16 code units.
    units = word.encode("utf-16-le")
    word = "".join(chr(units[i] | units[i + 1] << 8) for i in range(0, len(units), 2))
    return stem(word).encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _lower(word: str) -> str:
    """Every character by itself in lower case, which is one character again."""
    if word.isascii():
        return word.lower()
    # Of a final sigma and of a dotted capital I Python makes something else.
    return "".join("i" if letter == "\u0130" else letter.lower() for letter in word)
