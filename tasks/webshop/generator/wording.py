"""Small rules of English: articles, capitals, lists, and sentences with gaps."""

import re
from collections.abc import Mapping, Sequence

_AN = re.compile(r"(?:[aeio]|un|ul|um|up|ur|hour|8|11\b|18\b|led\b|spf\b|xl\b)", re.IGNORECASE)
_A = re.compile(r"(?:one|eu|uni(?!n)|urea|use|usb)", re.IGNORECASE)
_SMALL = frozenset(
    ("a", "an", "and", "at", "by", "for", "from", "in", "of", "on", "or", "the", "to", "with")
)
_CAPITALIZED = (
    *("ABS", "BPA", "EVA", "FM", "GMO", "ID", "LED", "PEVA", "PVC", "RGB", "SPF", "TPE", "TPU"),
    *("USB", "UV", "French", "Swedish", "Turkish"),
)
_CAPITALS = {word.lower(): word for word in _CAPITALIZED}
"""Words that keep their capitals, by their lower case."""
_SEGMENT = re.compile(r"\[([^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+)\}")


def with_article(words: str) -> str:
    """The words with `a` or `an` before them."""
    an = _AN.match(words) and not _A.match(words)
    return f"{'an' if an else 'a'} {words}"


def capitalized(words: str) -> str:
    """The words with a capital first letter; the others stay."""
    return words[:1].upper() + words[1:]


def spoken(words: str) -> str:
    """The words as within a sentence: lower case but for `LED` and its like."""
    return " ".join(_CAPITALS.get(word, word) for word in words.split(" "))


def title_case(words: str) -> str:
    """The words as within a name: small ones stay small, `led` becomes `LED`."""
    return " ".join(_title_word(word) for word in words.split(" "))


def headline(words: str) -> str:
    """The words as a part of a name that stands alone: `Clip On`, `In Ear`."""
    first, space, last = capitalized(title_case(words)).rpartition(" ")
    return first + space + capitalized(last)


def _title_word(word: str) -> str:
    if word in _CAPITALS:
        return _CAPITALS[word]
    return word if word in _SMALL else "-".join(map(capitalized, word.split("-")))


def listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(part for part in (", ".join(items[:-1]), *items[-1:]) if part)


def slots_of(pattern: str) -> frozenset[str]:
    """The names of a pattern's gaps."""
    return frozenset(_SLOT.findall(pattern))


def filled(pattern: str, words: Mapping[str, str]) -> str:
    """A pattern with its gaps `{name}` filled.

    A part in square brackets is left out if one of its gaps has no words.

    Raises:
        KeyError: A gap is not among the words.
    """

    def segment(match: re.Match[str]) -> str:
        return match[1] if all(words[slot] for slot in slots_of(match[1])) else ""

    return _SLOT.sub(lambda match: words[match[1]], _SEGMENT.sub(segment, pattern))
