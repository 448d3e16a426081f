"""Texts by authors in a submission: visible characters only, no look-alikes."""

import re
import unicodedata
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from tasks.texts import is_seen

_ALIKE = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
"""Scripts with letters that look like those of other scripts."""
_LETTERS: Final = str.maketrans("012345678i", "olzeasgtbl")
"""Maps digits, and the letter i, to the letters that they resemble. No two digits map to the same
letter, so that `v6` and `v9` remain different names."""
_LISU: Final = {
    0xA4D0 + place: letter
    for place, letter in enumerate("BP.DT.GK.JC.ZF.MNLSR..VH..WXY.A.E.IOU")
    if letter != "."
}
"""Maps Lisu letters to the capitals that they resemble."""
_SMALL: Final = re.compile("LATIN LETTER SMALL CAPITAL ([A-Z])")
_PAIRS: Final = (("rn", "m"), ("cl", "d"), ("vv", "w"))
"""Pairs of letters that resemble one letter."""
BADGES: Final = ("re-run", "re-ran", "replayed", "trained again", "verified", "official")
"""Claims, also in the plural, that entries may not make and authors' names may not contain."""
BOARD_WORDS: Final = (*BADGES, "SOTA", "state of the art")
"""Claims that entries may not make. The added ones are allowed in names, as Sota is one."""
_MOST_WORDS: Final = 40
"""Maximum number of words joined to find a claim: more than the longest claim has letters."""
_UNREAD: Final = re.compile(r"(?<!\d)\.|\.(?!\d)|(?<!\de)-|-(?!\d)|[^a-z0-9+.-]")
PLACEHOLDERS: Final = frozenset(
    {
        "My method on tiny-sokoban",
        "A. Name",
        "https://example.org/me",
        "my-method",
        "What is done, in a few sentences.",
        "https://example.org/my-code",
        "https://example.org/my-paper",
        "https://example.org/my-weights",
    }
)
"""Placeholder texts of the example in submissions/README.md, which authors have to replace."""


def skeleton(title: str) -> str:
    """Normal form of a title, equal for titles that are easily confused.

    It ignores case, spaces and punctuation, except for characters that distinguish methods and
    numbers: REINFORCE and REINFORCE++, 1.0 and 10, 1e-5 and 1e5. A library for confusables would
    add nothing: titles are ASCII, and such libraries use the Unicode consortium's table (UTS 39,
    confusables.txt), which has only three ASCII rows: 0 and O; 1, I, l and |; rn and m. With it,
    confusable_homoglyphs 3.3.1 confuses neither `5AMPO` nor `S AMPO` with `SAMPO`. The other
    digits, Q for O, `cl` and `vv` are this project's additions.
    """
    plain = _UNREAD.sub("", _folded(title))
    read = plain.translate(_LETTERS)
    for pair, letter in _PAIRS:
        read = read.replace(pair, letter)
    return read


def _folded(title: str) -> str:
    """Fold case, including small capitals; letters whose capitals look alike become one letter."""
    title = title.translate(_LISU)
    names = (unicodedata.name(letter, "") for letter in title)
    found = ((letter, _SMALL.fullmatch(name)) for letter, name in zip(title, names, strict=True))
    plain = (letter if small is None else small[1] for letter, small in found)
    return "".join(plain).replace("Q", "O").casefold()


def check_title(title: str) -> None:
    """Check that a title contains no claims that only the board makes, and no odd parentheses.

    Whole words are compared, also if split by spaces or periods; a year or version at either end is
    ignored. A single parenthesis could be read as a C, an empty pair as an O.

    Raises:
        ValueError: It contains the name of a badge, a similar claim, or odd parentheses.
    """
    if {"(", ")"} & set(re.sub(r"\([^()]*[A-Za-z0-9][^()]*\)", "", title)):
        raise ValueError("parentheses must be in pairs, around words")
    check_claims(title)


def check_claims(text: str, reserved: Sequence[str] = BOARD_WORDS) -> None:
    """Check that a text contains no claims that only the board makes; see `check_title`.

    Args:
        text: The text.
        reserved: The forbidden claims.

    Raises:
        ValueError: It contains one of them.
    """
    claims = {skeleton(claim): claim for claim in reserved}
    words = re.findall(r"[a-z0-9]+", _folded(text))
    places = range(len(words) + 1)
    for first, last in ((a, b) for a in places for b in places[a + 1 : a + 1 + _MOST_WORDS]):
        joined = "".join(words[first:last])
        bare = re.sub(r"^\d+|v?\d+$", "", joined)
        for seen in (skeleton(joined), skeleton(bare)):
            claim = claims.get(seen) or claims.get(seen.removesuffix("s"))
            if claim is not None:
                raise ValueError(f"{claim!r} is what the board says of entries: remove it")


def check_visible(text: str, lines: bool = False) -> None:
    """Check that a text is fully visible and has only one encoding.

    Args:
        text: The text.
        lines: Whether it may have several lines.

    Raises:
        ValueError: It has invisible characters, is not in composed form, or has nothing visible.
    """
    for character in text:
        if not is_seen(character) and not (lines and character == "\n"):
            raise ValueError(f"U+{ord(character):04X} is not a visible character")
    if unicodedata.normalize("NFC", text) != text:
        raise ValueError("letters with accents must be single characters (Unicode form NFC)")
    if text and not any(unicodedata.category(character)[0] in "LN" for character in text):
        raise ValueError("has no letter or digit")


def check_name(text: str) -> None:
    """Check that a person's name cannot be confused with another.

    Raises:
        ValueError: It has invisible characters, letters not in their plain form, or words that mix
            scripts.
    """
    check_visible(text)
    if unicodedata.normalize("NFKC", text) != text:
        raise ValueError("letters must be in their plain form (Unicode form NFKC)")
    for word in re.split(r"[^\w]+", text):
        scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in word}
        if len(scripts.intersection(_ALIKE)) > 1:
            raise ValueError(f"the word {word!a} has letters of several scripts")


def check_link(link: str) -> None:
    """Check that a link is a plain web address.

    Raises:
        ValueError: It is not.
    """
    parts = urlsplit(link)
    plain = re.fullmatch(r"[\x21-\x7e]+", link) and not set(link) & set("\"'<>\\^`{|}()[]*")
    if parts.scheme != "https" or not parts.hostname or parts.username or not plain:
        raise ValueError("not a plain https address")


def check_own(text: str) -> None:
    """Check that a text is the author's own and not the example's.

    Raises:
        ValueError: It is in the example.
    """
    if text.strip() in PLACEHOLDERS:
        raise ValueError(f"{text!r} is the example's text: write your own")
